//! Rules by chance.

use std::collections::BTreeSet;

use penstock_policies::explain::Direction;
use penstock_policies::model::{
    Action, GroupName, IcmpKind, Model, Peer, PortName, PortRange, Ports, PrefixSetName, Rule,
    Segment, Service, Tier, VpcName,
};

use super::Random;
use super::model::{prefix, selector};

/// Numbers that rules begin and end with.
pub(super) const EDGES: [u16; 9] = [0, 1, 80, 81, 443, 4790, 4791, 4792, u16::MAX];
/// ICMP types and codes that rules speak of.
pub(super) const KINDS: [u8; 4] = [0, 3, 8, 128];

/// The rules of something in `home`; in the tenant tier only in `directions`.
pub(super) fn rules(
    random: &mut Random,
    model: &Model,
    home: &VpcName,
    tier: Tier,
    directions: &BTreeSet<Direction>,
) -> Vec<Rule> {
    let directions: Vec<Direction> = if tier == Tier::Tenant {
        directions.iter().copied().collect()
    } else {
        vec![Direction::Ingress, Direction::Egress]
    };
    let mut names: Vec<u64> = (0..random.up_to(6)).collect();
    // As declared, they are in no order.
    names.sort_by_key(|_| random.number());
    names
        .into_iter()
        .map(|i| {
            let action = match tier {
                Tier::Tenant => Action::Allow,
                Tier::Admin => *random.pick(&[
                    Action::Allow,
                    Action::Deny,
                    Action::Reject,
                    Action::Pass,
                    Action::Pass,
                ]),
                Tier::Baseline => *random.pick(&[Action::Allow, Action::Deny, Action::Reject]),
            };
            Rule {
                name: Segment::parse(&format!("r{i}")).expect("a name"),
                direction: *random.pick(&directions),
                action,
                priority: if tier == Tier::Tenant {
                    1000
                } else {
                    random.up_to(2) as u16
                },
                service: service(random),
                peers: peers(random, model, home),
                stateful: action != Action::Allow || !random.once_in(4),
                log: random.once_in(4),
            }
        })
        .collect()
}

fn service(random: &mut Random) -> Service {
    match random.below(8) {
        0 => Service::Tcp(ports(random)),
        1 | 2 => Service::Udp(ports(random)),
        3 => Service::Sctp(ports(random)),
        4 => Service::Icmp(kind(random)),
        5 => Service::Icmpv6(kind(random)),
        6 => Service::Rocev2,
        _ => Service::Any,
    }
}

fn ports(random: &mut Random) -> Ports {
    let mut some = |most| (0..random.up_to(most)).map(|_| range(random)).collect();
    Ports {
        destination: some(2),
        source: some(1),
    }
}

fn range(random: &mut Random) -> PortRange {
    let (a, b) = (*random.pick(&EDGES), *random.pick(&EDGES));
    PortRange {
        first: a.min(b),
        last: a.max(b),
    }
}

fn kind(random: &mut Random) -> IcmpKind {
    match random.below(3) {
        0 => IcmpKind::Every,
        1 => IcmpKind::Type(*random.pick(&KINDS)),
        _ => IcmpKind::Code(*random.pick(&KINDS), *random.pick(&KINDS)),
    }
}

/// Those of another VPC may be unresolved.
fn peers(random: &mut Random, model: &Model, home: &VpcName) -> Vec<Peer> {
    let groups: Vec<&GroupName> = model.groups.keys().collect();
    let ports: Vec<&PortName> = model.ports.keys().collect();
    let vpcs: Vec<&VpcName> = model.vpcs.keys().collect();
    let sets: Vec<&PrefixSetName> = model
        .prefix_sets
        .keys()
        .filter(|n| n.vpc() == *home)
        .collect();
    let own: Vec<&GroupName> = groups
        .iter()
        .copied()
        .filter(|n| n.vpc() == *home)
        .collect();
    (0..random.up_to(3))
        .map(|_| match random.below(8) {
            0 => Peer::PrefixSet((*random.pick(&sets)).clone()),
            1 => Peer::Group((*random.pick(&groups)).clone()),
            2 => Peer::Group((*random.pick(&own)).clone()),
            3 => {
                let vpc = if random.once_in(2) {
                    home
                } else {
                    *random.pick(&vpcs)
                };
                Peer::Selector(selector(random, vpc))
            }
            4 => Peer::Port((*random.pick(&ports)).clone()),
            5 => Peer::Vpc((*random.pick(&vpcs)).clone()),
            _ => cidr(random),
        })
        .collect()
}

/// Holes lie inside, and may overlap.
fn cidr(random: &mut Random) -> Peer {
    let around = prefix(random);
    let mut except = Vec::new();
    for _ in 0..random.up_to(8) {
        let hole = prefix(random);
        if around.is_v4() == hole.is_v4()
            && around.len() < hole.len()
            && around.contains(hole.addr())
        {
            except.push(hole);
        }
    }
    Peer::Cidr {
        prefix: around,
        except,
    }
}
