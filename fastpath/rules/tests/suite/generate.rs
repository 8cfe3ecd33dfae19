//! Small random policies, dense enough that rules, peers and queries meet.

use std::collections::BTreeMap;

use penstock_flow::tuple::proto;
use penstock_flow::{Addr, Mac, Prefix};
use penstock_rules::Query;
use penstock_rules::model::{
    Direction, Endpoint, Group, GroupId, Peer, Policy, Port, Rule, Subnet, Vpc,
};
use proptest::prelude::*;

pub(crate) const VNI: u32 = 7;

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

pub(crate) fn addr() -> impl Strategy<Value = Addr> {
    prop_oneof![
        4 => (0_u8..16).prop_map(v4),
        2 => (0_u128..16).prop_map(|low| Addr(0xfd00 << 112 | low)),
        1 => any::<u32>().prop_map(|ip| Addr::from_v4(ip.to_be_bytes())),
        1 => any::<u128>().prop_map(Addr),
        1 => prop_oneof![Just(Addr(0)), Just(Addr(u128::MAX)), Just(Addr(0xffff_ffff_ffff))],
    ]
}

pub(crate) fn prefix() -> impl Strategy<Value = Prefix> {
    (
        addr(),
        prop_oneof![3 => 120_u8..=128, 2 => 90_u8..=100, 1 => 0_u8..=128],
    )
        .prop_map(|(a, len)| around(a, len))
}

pub(crate) fn port_number() -> impl Strategy<Value = u16> {
    prop_oneof![4 => 0_u16..12, 1 => Just(u16::MAX), 1 => Just(u16::MAX - 1), 1 => any::<u16>()]
}

pub(crate) fn range() -> impl Strategy<Value = (u16, u16)> {
    (port_number(), port_number()).prop_map(|(a, b)| (a.min(b), a.max(b)))
}

pub(crate) fn peer() -> impl Strategy<Value = Peer> {
    prop_oneof![
        (1_u32..5).prop_map(Peer::Group),
        (prefix(), prop::collection::vec(prefix(), 0..3))
            .prop_map(|(prefix, except)| Peer::Cidr { prefix, except }),
    ]
}

/// (protocol, ports, ICMP type, ICMP code) that mean something together.
pub(crate) type Service = (Option<u8>, Vec<(u16, u16)>, Option<u8>, Option<u8>);

pub(crate) fn service() -> impl Strategy<Value = Service> {
    prop_oneof![
        Just((None, vec![], None, None)),
        (
            prop_oneof![Just(proto::TCP), Just(proto::UDP)],
            prop::collection::vec(range(), 0..4)
        )
            .prop_map(|(p, ports)| (Some(p), ports, None, None)),
        (0_u8..4, prop::option::of(0_u8..3)).prop_map(|(t, c)| (
            Some(proto::ICMP),
            vec![],
            Some(t),
            c
        )),
        Just((Some(proto::ICMPV6), vec![], None, None)),
        Just((Some(50), vec![], None, None)),
    ]
}

pub(crate) fn direction() -> impl Strategy<Value = Direction> {
    prop_oneof![Just(Direction::Ingress), Just(Direction::Egress)]
}

pub(crate) fn rule() -> impl Strategy<Value = Rule> {
    (direction(), service(), prop::collection::vec(peer(), 0..4)).prop_map(
        |(direction, (protocol, ports, icmp_type, icmp_code), peers)| Rule {
            name: String::new(),
            direction,
            protocol,
            ports,
            icmp_type,
            icmp_code,
            peers,
        },
    )
}

pub(crate) fn group(id: GroupId) -> impl Strategy<Value = Group> {
    (
        any::<bool>(),
        any::<bool>(),
        prop::collection::vec(rule(), 0..8),
    )
        .prop_map(move |(selects_ingress, selects_egress, mut rules)| {
            for (i, rule) in rules.iter_mut().enumerate() {
                rule.name = format!("g{id}/rules/r{i}");
            }
            Group {
                name: format!("g{id}"),
                vni: VNI,
                selects_ingress,
                selects_egress,
                rules,
            }
        })
}

pub(crate) fn groups() -> impl Strategy<Value = Vec<GroupId>> {
    prop::collection::btree_set(1_u32..5, 0..4).prop_map(|g| g.into_iter().collect())
}

pub(crate) fn policy() -> impl Strategy<Value = Policy> {
    (
        any::<bool>(),
        (group(1), group(2), group(3), group(4)),
        prop::collection::vec(groups(), 3),
        prop::collection::btree_map(addr(), groups(), 0..12),
    )
        .prop_map(|(default_allow, (a, b, c, d), ports, endpoints)| {
            let mut policy = empty(default_allow);
            policy.groups = (1_u32..).zip([a, b, c, d]).collect();
            policy.ports = (1_u32..).zip(ports.into_iter().map(port)).collect();
            policy.endpoints = endpoints
                .into_iter()
                .map(|(addr, groups)| ((VNI, addr), endpoint(groups)))
                .collect();
            policy
        })
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

pub(crate) fn empty(default_allow: bool) -> Policy {
    Policy {
        generation: 3,
        vpcs: BTreeMap::from([(
            VNI,
            Vpc {
                name: "v".into(),
                default_allow,
            },
        )]),
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
        ..Policy::default()
    }
}

pub(crate) fn query() -> impl Strategy<Value = Query> {
    let proto = prop_oneof![
        3 => Just(proto::TCP),
        2 => Just(proto::UDP),
        2 => Just(proto::ICMP),
        1 => Just(proto::ICMPV6),
        1 => any::<u8>(),
    ];
    let dport =
        prop_oneof![3 => port_number(), 1 => (0_u16..4, 0_u16..3).prop_map(|(t, c)| t << 8 | c)];
    (direction(), 1_u32..5, addr(), proto, dport).prop_map(
        |(direction, port, peer, proto, dport)| Query {
            direction,
            port,
            peer,
            proto,
            sport: 40_000,
            dport,
        },
    )
}

pub(crate) fn rule_to(
    name: &str,
    protocol: Option<u8>,
    ports: &[(u16, u16)],
    peers: Vec<Peer>,
) -> Rule {
    Rule {
        name: name.into(),
        direction: Direction::Ingress,
        protocol,
        ports: ports.to_vec(),
        icmp_type: None,
        icmp_code: None,
        peers,
    }
}
