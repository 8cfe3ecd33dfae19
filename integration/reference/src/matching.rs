//! Whether a rule speaks of a packet.

use std::collections::BTreeMap;

use penstock_flow::{Addr, Prefix};
use penstock_policies::model::{
    Action, AppliesTo, Group, GroupName, IcmpKind, Model, Peer, Policy, Port, PortName, PortRange,
    Ports, Rule, Selector, Service, Test, VpcName,
};

use crate::Packet;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
const SCTP: u8 = 132;
const ROCEV2_PORT: u16 = 4791;

/// Whether a rule of something in `home` speaks of the packet.
pub(crate) fn matches(model: &Model, home: &VpcName, rule: &Rule, packet: &Packet) -> bool {
    rule.direction == packet.direction
        && serves(&rule.service, packet)
        && (rule.peers.is_empty()
            || rule
                .peers
                .iter()
                .any(|peer| is_peer(model, home, rule.action, peer, packet.peer)))
}

fn serves(service: &Service, packet: &Packet) -> bool {
    let rocev2 = packet.protocol == UDP && packet.destination_port == ROCEV2_PORT;
    match service {
        Service::Any => true,
        Service::Tcp(ports) => packet.protocol == TCP && has(ports, packet),
        Service::Udp(ports) => packet.protocol == UDP && !rocev2 && has(ports, packet),
        Service::Sctp(ports) => packet.protocol == SCTP && has(ports, packet),
        Service::Icmp(kind) => packet.protocol == ICMP && is_kind(*kind, packet),
        Service::Icmpv6(kind) => packet.protocol == ICMPV6 && is_kind(*kind, packet),
        Service::Rocev2 => rocev2,
    }
}

fn has(ports: &Ports, packet: &Packet) -> bool {
    let within = |ranges: &[PortRange], port: u16| {
        ranges.is_empty() || ranges.iter().any(|r| r.first <= port && port <= r.last)
    };
    within(&ports.source, packet.source_port) && within(&ports.destination, packet.destination_port)
}

fn is_kind(kind: IcmpKind, packet: &Packet) -> bool {
    let (icmp_type, code) = (packet.destination_port / 256, packet.destination_port % 256);
    match kind {
        IcmpKind::Every => true,
        IcmpKind::Type(t) => u16::from(t) == icmp_type,
        IcmpKind::Code(t, c) => u16::from(t) == icmp_type && u16::from(c) == code,
    }
}

/// A peer in a VPC that `home` is not peered with is unresolved: what opens is
/// closed by it, and what closes stays closed.
fn is_peer(model: &Model, home: &VpcName, action: Action, peer: &Peer, addr: Addr) -> bool {
    if let Some(other) = vpc_of(peer)
        && other != *home
        && !peered(model, home, &other)
    {
        return matches!(action, Action::Deny | Action::Reject);
    }
    let owner = owner(model, home, addr);
    match peer {
        Peer::Cidr { prefix, except } => {
            inside(*prefix, addr) && !except.iter().any(|hole| inside(*hole, addr))
        }
        Peer::PrefixSet(name) => model
            .prefix_sets
            .get(name)
            .is_some_and(|set| set.prefixes.iter().any(|prefix| inside(*prefix, addr))),
        Peer::Group(group) => owner.is_some_and(|(name, port)| is_member(model, group, name, port)),
        Peer::Selector(selector) => owner.is_some_and(|(name, port)| selects(selector, name, port)),
        Peer::Port(name) => model
            .ports
            .get(name)
            .is_some_and(|port| port.ips.contains(&addr)),
        Peer::Vpc(name) => model
            .vpcs
            .get(name)
            .is_some_and(|vpc| vpc.cidrs.iter().any(|prefix| inside(*prefix, addr))),
    }
}

fn vpc_of(peer: &Peer) -> Option<VpcName> {
    match peer {
        Peer::Cidr { .. } | Peer::PrefixSet(_) => None,
        Peer::Group(name) => Some(name.vpc()),
        Peer::Selector(selector) => Some(selector.vpc().clone()),
        Peer::Port(name) => Some(name.vpc()),
        Peer::Vpc(name) => Some(name.clone()),
    }
}

/// Both must have said it.
fn peered(model: &Model, a: &VpcName, b: &VpcName) -> bool {
    let says = |from: &VpcName, to: &VpcName| {
        model
            .peerings
            .iter()
            .any(|(name, peering)| name.vpc() == *from && peering.peer == *to)
    };
    says(a, b) && says(b, a)
}

/// Whose address it is, as a port of `home` sees it.
fn owner<'a>(model: &'a Model, home: &VpcName, addr: Addr) -> Option<(&'a PortName, &'a Port)> {
    let has = |port: &Port| port.ips.contains(&addr);
    let own = model
        .ports
        .iter()
        .find(|(name, port)| name.vpc() == *home && has(port));
    own.or_else(|| {
        model
            .ports
            .iter()
            .find(|(name, port)| has(port) && peered(model, home, &name.vpc()))
    })
}

/// Whether a port is in a group: it says so, or its labels do.
pub(crate) fn is_member(model: &Model, group: &GroupName, name: &PortName, port: &Port) -> bool {
    let by_label = |declared: &Group| {
        let selector = declared.selector.as_ref();
        selector.is_some_and(|selector| selects(selector, name, port))
    };
    port.groups.contains(group) || model.groups.get(group).is_some_and(by_label)
}

/// Whether a policy of `home` speaks of a port.
pub(crate) fn applies(
    model: &Model,
    home: &VpcName,
    policy: &Policy,
    name: &PortName,
    port: &Port,
) -> bool {
    if name.vpc() != *home {
        return false;
    }
    match &policy.applies_to {
        AppliesTo::Vpc => true,
        AppliesTo::Some {
            groups,
            ports,
            selector,
        } => {
            ports.contains(name)
                || groups
                    .iter()
                    .any(|group| is_member(model, group, name, port))
                || selector
                    .as_ref()
                    .is_some_and(|selector| selects(selector, name, port))
        }
    }
}

fn selects(selector: &Selector, name: &PortName, port: &Port) -> bool {
    name.vpc() == *selector.vpc()
        && selector
            .terms()
            .all(|term| holds(&term.test, &term.key, &port.labels))
}

fn holds(test: &Test, key: &str, labels: &BTreeMap<String, String>) -> bool {
    match (test, labels.get(key)) {
        (Test::In(values), Some(value)) => values.iter().any(|v| v == value),
        (Test::NotIn(values), Some(value)) => values.iter().all(|v| v != value),
        (Test::Exists, value) => value.is_some(),
        (Test::DoesNotExist, value) => value.is_none(),
        (Test::In(_), None) => false,
        (Test::NotIn(_), None) => true,
    }
}

fn inside(prefix: Prefix, addr: Addr) -> bool {
    let host_bits = 128 - u32::from(prefix.len());
    // 0.0.0.0/0 is ::ffff:0:0/96, so only ::/0 would hold the other family.
    let same_family = prefix.is_v4() == addr.is_v4();
    same_family
        && (prefix.addr().0 ^ addr.0)
            .checked_shr(host_bits)
            .is_none_or(|differs| differs == 0)
}
