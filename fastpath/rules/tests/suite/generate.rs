//! Small random policies, dense enough that rules, peers and queries meet.

use std::collections::BTreeMap;

use penstock_flow::tuple::proto;
use penstock_flow::{Addr, Mac, Prefix};
use penstock_rules::Query;
use penstock_rules::model::{
    Action, Applies, Direction, Endpoint, Group, GroupId, List, ListId, OnChange, Peer, Peers,
    Policy, Port, PrefixSet, Protocol, Rule, Subnet, Tier, Vni, Vpc,
};
use proptest::prelude::*;

pub(crate) const VNI: Vni = 7;
/// Peered with it.
pub(crate) const PEERED: Vni = 8;
/// Not peered with it.
pub(crate) const APART: Vni = 9;

pub(crate) fn v4(last: u8) -> Addr {
    Addr::from_v4([10, 0, 0, last])
}

/// A prefix around `addr`.
pub(crate) fn around(addr: Addr, len: u8) -> Prefix {
    let mask = if len == 0 {
        0
    } else {
        u128::MAX << (128 - u32::from(len))
    };
    Prefix::new(Addr(addr.0 & mask), len).expect("masked")
}

pub(crate) fn addr() -> BoxedStrategy<Addr> {
    prop_oneof![
        4 => (0_u8..16).prop_map(v4),
        2 => (0_u128..16).prop_map(|low| Addr(0xfd00 << 112 | low)),
        1 => any::<u32>().prop_map(|ip| Addr::from_v4(ip.to_be_bytes())),
        1 => any::<u128>().prop_map(Addr),
        1 => prop_oneof![Just(Addr(0)), Just(Addr(u128::MAX)), Just(Addr(0xffff_ffff_ffff))],
    ]
    .boxed()
}

pub(crate) fn prefix() -> BoxedStrategy<Prefix> {
    (
        addr(),
        prop_oneof![3 => 120_u8..=128, 2 => 90_u8..=100, 1 => 0_u8..=128],
    )
        .prop_map(|(a, len)| around(a, len))
        .boxed()
}

pub(crate) fn port_number() -> impl Strategy<Value = u16> {
    prop_oneof![4 => 0_u16..12, 1 => Just(u16::MAX), 1 => Just(u16::MAX - 1), 1 => any::<u16>()]
}

pub(crate) fn range() -> impl Strategy<Value = (u16, u16)> {
    (port_number(), port_number()).prop_map(|(a, b)| (a.min(b), a.max(b)))
}

/// Groups 1 to 4 are of the VPC, group 5 of the peered one; 11 and 12 are sets.
pub(crate) fn peer() -> BoxedStrategy<Peer> {
    prop_oneof![
        3 => (1_u32..6).prop_map(Peer::Group),
        1 => (11_u32..13).prop_map(Peer::Set),
        3 => (prefix(), prop::collection::vec(prefix(), 0..3))
            .prop_map(|(prefix, except)| Peer::Cidr { prefix, except }),
    ]
    .boxed()
}

pub(crate) fn peers() -> BoxedStrategy<Peers> {
    prop_oneof![
        1 => Just(Peers::Everyone),
        3 => prop::collection::vec(peer(), 0..4).prop_map(Peers::Any),
    ]
    .boxed()
}

type Ranges = Vec<(u16, u16)>;

/// (protocol, source ports, ports, ICMP type, ICMP code) that mean something together.
pub(crate) type Service = (Option<Protocol>, Ranges, Ranges, Option<u8>, Option<u8>);

pub(crate) fn service() -> BoxedStrategy<Service> {
    let number = |p| Some(Protocol::Number(p));
    let ranges = || prop::collection::vec(range(), 0..4);
    let sources = prop_oneof![2 => Just(vec![]), 1 => ranges()];
    prop_oneof![
        2 => Just((None, vec![], vec![], None, None)),
        4 => (
            prop_oneof![Just(proto::TCP), Just(proto::UDP), Just(proto::SCTP)],
            sources,
            ranges()
        )
            .prop_map(move |(p, sources, ports)| (number(p), sources, ports, None, None)),
        1 => (0_u8..4, prop::option::of(0_u8..3)).prop_map(move |(t, c)| (
            number(proto::ICMP),
            vec![],
            vec![],
            Some(t),
            c
        )),
        1 => Just((number(proto::ICMPV6), vec![], vec![], None, None)),
        1 => Just((number(50), vec![], vec![], None, None)),
        1 => Just((Some(Protocol::Roce), vec![], vec![], None, None)),
    ]
    .boxed()
}

pub(crate) fn direction() -> impl Strategy<Value = Direction> {
    prop_oneof![Just(Direction::Ingress), Just(Direction::Egress)]
}

/// A low, narrow priority: ties are the interesting part.
fn priority() -> impl Strategy<Value = u16> {
    prop_oneof![Just(10_u16), Just(20_u16), Just(1000_u16)]
}

pub(crate) fn rule(tier: Tier) -> BoxedStrategy<Rule> {
    let action = match tier {
        Tier::Admin => vec![Action::Deny, Action::Reject, Action::Pass, Action::Allow],
        Tier::Tenant => vec![Action::Allow],
        Tier::Baseline => vec![Action::Deny, Action::Reject, Action::Allow],
    };
    (
        direction(),
        service(),
        peers(),
        prop::sample::select(action),
        priority(),
        (any::<bool>(), any::<bool>()),
    )
        .prop_map(
            move |(direction, service, peers, action, priority, (stateful, log))| {
                let (protocol, source_ports, ports, icmp_type, icmp_code) = service;
                Rule {
                    name: String::new(),
                    direction,
                    action,
                    priority,
                    protocol,
                    source_ports,
                    ports,
                    icmp_type,
                    icmp_code,
                    peers,
                    stateful: stateful || action != Action::Allow,
                    log,
                }
            },
        )
        .boxed()
}

/// Rules with names of which the alphabetical order is not the declared one.
pub(crate) fn rules(tier: Tier, list: String) -> BoxedStrategy<Vec<Rule>> {
    prop::collection::vec((rule(tier), any::<u8>()), 0..7)
        .prop_map(move |rules| {
            let mut rules: Vec<Rule> = rules
                .into_iter()
                .enumerate()
                .map(|(i, (rule, name))| Rule {
                    name: format!("{list}/rules/{name}-{i}"),
                    ..rule
                })
                .collect();
            rules.truncate(7);
            rules
        })
        .boxed()
}

pub(crate) fn applies() -> BoxedStrategy<Applies> {
    prop_oneof![
        1 => Just(Applies::Vpc),
        3 => groups().prop_map(Applies::Groups),
    ]
    .boxed()
}

/// List `id` is called by another number, so that neither order is the other's.
pub(crate) fn list(id: ListId) -> BoxedStrategy<List> {
    let tier = prop_oneof![
        3 => Just(Tier::Admin),
        4 => Just(Tier::Tenant),
        2 => Just(Tier::Baseline),
    ];
    tier.prop_flat_map(move |tier| {
        let name = format!("l{}", 100 - id);
        (
            rules(tier, name.clone()),
            applies(),
            priority(),
            prop::sample::select(vec![false, false, false, true]),
            (any::<bool>(), any::<bool>()),
            prop::sample::select(vec![
                OnChange::Reevaluate,
                OnChange::Reevaluate,
                OnChange::Persist,
                OnChange::Drop,
            ]),
        )
            .prop_map(
                move |(rules, applies, priority, audit, (ingress, egress), on_change)| List {
                    name: name.clone(),
                    vni: VNI,
                    tier,
                    priority,
                    applies,
                    selects_ingress: ingress,
                    selects_egress: egress,
                    audit,
                    on_change,
                    rules,
                },
            )
    })
    .boxed()
}

pub(crate) fn groups() -> impl Strategy<Value = Vec<GroupId>> {
    prop::collection::btree_set(1_u32..5, 0..4).prop_map(|g| g.into_iter().collect())
}

pub(crate) fn set() -> impl Strategy<Value = Vec<Prefix>> {
    prop::collection::btree_set(prefix(), 1..8).prop_map(|set| set.into_iter().collect())
}

/// Six lists, 21 to 26, of which some say nothing.
pub(crate) fn policy() -> BoxedStrategy<Policy> {
    (
        any::<bool>(),
        (list(21), list(22), list(23), list(24), list(25), list(26)),
        prop::collection::vec(groups(), 3),
        prop::collection::btree_map(addr(), groups(), 0..12),
        prop::collection::btree_map(addr(), any::<bool>(), 0..4),
        (set(), set()),
    )
        .prop_map(|(default_allow, lists, ports, endpoints, peered, sets)| {
            let mut policy = empty(default_allow);
            let (a, b, c, d, e, f) = lists;
            policy.lists = (21..).zip([a, b, c, d, e, f]).collect();
            policy.ports = (1_u32..).zip(ports.into_iter().map(port)).collect();
            policy.endpoints = endpoints
                .into_iter()
                .map(|(addr, groups)| ((VNI, addr), endpoint(groups)))
                .collect();
            for (addr, member) in peered {
                let groups = if member { vec![5] } else { vec![] };
                // No address is in two VPCs that are peered.
                if !policy.endpoints.contains_key(&(VNI, addr)) {
                    policy.endpoints.insert((PEERED, addr), endpoint(groups));
                }
            }
            for (id, prefixes) in [(11, sets.0), (12, sets.1)] {
                policy.sets.insert(id, prefix_set(id, prefixes));
            }
            policy
        })
        .boxed()
}

pub(crate) fn prefix_set(id: u32, prefixes: Vec<Prefix>) -> PrefixSet {
    PrefixSet {
        name: format!("s{id}"),
        vni: VNI,
        prefixes,
    }
}

pub(crate) fn endpoint(groups: Vec<GroupId>) -> Endpoint {
    Endpoint {
        mac: Mac::GATEWAY,
        port: 1,
        groups,
    }
}

pub(crate) fn port(groups: Vec<GroupId>) -> Port {
    Port {
        name: "p".into(),
        vni: VNI,
        subnet: 1,
        device_id: 1,
        attachment: "p".into(),
        vlan: 0,
        mac: Mac::GATEWAY,
        ips: vec![],
        groups,
    }
}

/// VPCs, groups 1 to 5 and one subnet; nothing that decides.
pub(crate) fn empty(default_allow: bool) -> Policy {
    let vpc = |name: &str, peers: &[Vni]| Vpc {
        name: name.into(),
        default_allow,
        peers: peers.iter().copied().collect(),
    };
    let group = |id: GroupId| Group {
        name: format!("g{id}"),
        vni: if id == 5 { PEERED } else { VNI },
    };
    Policy {
        generation: 3,
        vpcs: BTreeMap::from([
            (VNI, vpc("v", &[PEERED])),
            (PEERED, vpc("w", &[VNI])),
            (APART, vpc("x", &[])),
        ]),
        subnets: BTreeMap::from([(
            1,
            Subnet {
                name: "s".into(),
                vni: VNI,
                prefixes: vec![around(v4(0), 120)],
                gateways: vec![v4(1)],
                mtu: 1500,
            },
        )]),
        groups: (1..6).map(|id| (id, group(id))).collect(),
        ..Policy::default()
    }
}

pub(crate) fn query() -> BoxedStrategy<Query> {
    let proto = prop_oneof![
        3 => Just(proto::TCP),
        2 => Just(proto::UDP),
        1 => Just(proto::SCTP),
        2 => Just(proto::ICMP),
        1 => Just(proto::ICMPV6),
        1 => any::<u8>(),
    ];
    let dport = prop_oneof![
        3 => port_number(),
        1 => (0_u16..4, 0_u16..3).prop_map(|(t, c)| t << 8 | c),
        1 => Just(4791),
    ];
    (direction(), 1_u32..5, addr(), proto, port_number(), dport)
        .prop_map(|(direction, port, peer, proto, sport, dport)| Query {
            direction,
            port,
            peer,
            proto,
            sport,
            dport,
        })
        .boxed()
}

/// An ingress rule; no peers: everyone.
pub(crate) fn rule_to(
    name: &str,
    protocol: Option<u8>,
    ports: &[(u16, u16)],
    peers: Vec<Peer>,
) -> Rule {
    Rule {
        protocol: protocol.map(Protocol::Number),
        ports: ports.to_vec(),
        peers: if peers.is_empty() {
            Peers::Everyone
        } else {
            Peers::Any(peers)
        },
        ..Rule::allow(name.into(), Direction::Ingress)
    }
}
