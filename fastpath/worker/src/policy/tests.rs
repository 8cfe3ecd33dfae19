use penstock_flow::{Addr, Mac, Prefix};
use penstock_rules::model::{
    Action, Applies, Direction, Endpoint, Group, List, OnChange, Peer, Peers, Policy, Port,
    PrefixSet, Protocol, Rule, Subnet, Tier, Vpc,
};
use penstock_slowpath_api::encode;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::*;

fn ip(last: u8) -> Addr {
    Addr::from_v4([10, 0, 0, last])
}

/// One VPC with a subnet, a group, a port and its endpoint.
fn small() -> Policy {
    let mut policy = Policy {
        generation: 4,
        ..Policy::default()
    };
    policy.vpcs.insert(
        7,
        Vpc {
            name: "tenants/a/vpcs/v".into(),
            default_allow: false,
            peers: [8].into(),
        },
    );
    policy.vpcs.insert(
        8,
        Vpc {
            name: "tenants/b/vpcs/w".into(),
            default_allow: true,
            peers: [7].into(),
        },
    );
    let net = Prefix::new(Addr::from_v4([10, 0, 0, 0]), 96 + 24).expect("a prefix");
    policy.subnets.insert(
        1,
        Subnet {
            name: "s".into(),
            vni: 7,
            prefixes: vec![net],
            gateways: vec![ip(254)],
            mtu: 1450,
        },
    );
    policy.groups.insert(
        1,
        Group {
            name: "g".into(),
            vni: 7,
        },
    );
    policy.sets.insert(
        2,
        PrefixSet {
            name: "s".into(),
            vni: 7,
            prefixes: vec![net],
        },
    );
    let rule = Rule {
        action: Action::Reject,
        priority: 7,
        protocol: Some(Protocol::Number(6)),
        source_ports: vec![(1024, 65_535)],
        ports: vec![(80, 81)],
        peers: Peers::Any(vec![
            Peer::Group(1),
            Peer::Set(2),
            Peer::Cidr {
                prefix: net,
                except: vec![],
            },
        ]),
        log: true,
        ..Rule::allow("l/rules/r".into(), Direction::Ingress)
    };
    let roce = Rule {
        protocol: Some(Protocol::Roce),
        stateful: false,
        ..Rule::allow("l/rules/roce".into(), Direction::Egress)
    };
    let none = Rule {
        action: Action::Pass,
        peers: Peers::Any(vec![]),
        ..Rule::allow("l/rules/none".into(), Direction::Egress)
    };
    let list = List {
        tier: Tier::Admin,
        applies: Applies::Vpc,
        audit: true,
        on_change: OnChange::Drop,
        rules: vec![rule, roce, none],
        ..List::of_group("l".into(), 7, 1)
    };
    policy.lists.insert(3, list);
    policy.lists.insert(1, List::of_group("g".into(), 7, 1));
    policy.ports.insert(
        1,
        Port {
            name: "p".into(),
            vni: 7,
            subnet: 1,
            device_id: 1,
            attachment: "veth0".into(),
            vlan: 0,
            mac: Mac([2, 0, 0, 0, 0, 1]),
            ips: vec![ip(1)],
            groups: vec![1],
        },
    );
    policy.endpoints.insert(
        (7, ip(1)),
        Endpoint {
            mac: Mac([2, 0, 0, 0, 0, 1]),
            port: 1,
            groups: vec![1],
        },
    );
    policy
        .vteps
        .insert(Addr::from_v4([192, 0, 2, 2]), "host-2".into());
    policy
}

#[test]
fn a_snapshot_survives_the_wire() {
    let policy = small();
    assert_eq!(
        decode::snapshot(encode::snapshot(&policy, policy.generation)),
        Ok(policy)
    );
}

#[test]
fn generations_only_grow_and_bases_must_meet() {
    let current = Ruleset::compile(small()).expect("compiles");
    let apply = |update| super::apply(&current, update).map(|ruleset| ruleset.policy());
    let update = |generation, base| v1::PolicyUpdate {
        generation,
        base_generation: base,
        ..encode::snapshot(&small(), 4)
    };
    assert_eq!(apply(update(9, 0)).map(|p| p.generation), Ok(9));
    assert_eq!(apply(update(4, 0)), Ok(small()), "the same again");
    assert_eq!(apply(update(5, 4)).map(|p| p.generation), Ok(5));
    let older = UpdateError::Generation {
        offered: 3,
        current: 4,
    };
    assert_eq!(apply(update(3, 0)), Err(older));
    let different = v1::PolicyUpdate {
        vteps: vec![],
        ..update(4, 0)
    };
    assert!(matches!(apply(different), Err(UpdateError::Resync(_))));
    assert!(matches!(apply(update(9, 3)), Err(UpdateError::Resync(_))));
    assert!(matches!(
        apply(update(4, 4)),
        Err(UpdateError::Generation { .. })
    ));
}

#[test]
fn deleting_what_is_not_here_asks_for_a_snapshot() {
    let base = v1::PolicyUpdate {
        generation: 5,
        base_generation: 4,
        ..Default::default()
    };
    let unknown = v1::PolicyUpdate {
        deleted_ports: vec![9],
        ..base.clone()
    };
    let current = Ruleset::compile(small()).expect("compiles");
    let error = apply(&current, unknown).expect_err("unknown");
    assert_eq!(
        error.to_string(),
        "port 9 is to go, and is not here; send a snapshot"
    );
    let known = v1::PolicyUpdate {
        deleted_ports: vec![1],
        ..base
    };
    let next = apply(&current, known).expect("known").policy();
    let mut expected = small();
    expected.generation = 5;
    expected.ports.clear();
    assert_eq!(next, expected);
}

#[test]
fn refusals_name_the_field() {
    type Edit = fn(&mut v1::PolicyUpdate);
    let cases: [(&str, Edit); 18] = [
        ("generation = 0", |u| u.generation = 0),
        ("vpcs[0].vni = 16777216", |u| u.vpcs[0].vni = 1 << 24),
        ("vpcs[2] = ", |u| u.vpcs.push(u.vpcs[0].clone())),
        ("subnets[0].mtu = 10", |u| u.subnets[0].mtu = 10),
        ("lists[1].rules[0].ports[0] = 9-8", |u| {
            u.lists[1].rules[0].ports[0] = v1::PortRange { first: 9, last: 8 };
        }),
        ("lists[1].rules[0].protocol = 256", |u| {
            u.lists[1].rules[0].protocol = Some(v1::rule::Protocol::Number(256));
        }),
        ("lists[1].rules[0].peers[0] = nothing", |u| {
            let peers = u.lists[1].rules[0].peers.as_mut().unwrap();
            peers.any[0].peer = None;
        }),
        ("lists[1].tier = 0", |u| u.lists[1].tier = 0),
        ("lists[0].applies = nothing", |u| u.lists[0].applies = None),
        ("lists[1].on_change = 9", |u| u.lists[1].on_change = 9),
        ("lists[1].rules[2].action = 0", |u| {
            u.lists[1].rules[2].action = 0;
        }),
        ("lists[1].priority = 65536", |u| {
            u.lists[1].priority = 65_536;
        }),
        ("prefix_sets[0].prefixes[1] = 10.0.0.0/24", |u| {
            let prefixes = &mut u.prefix_sets[0].prefixes;
            prefixes.push(prefixes[0].clone());
        }),
        ("ports[0].mac = [01]", |u| u.ports[0].mac = vec![1]),
        ("ports[0].vlan = 4095", |u| u.ports[0].vlan = 4095),
        ("ports[0].ips[0] = [0a]", |u| u.ports[0].ips[0] = vec![10]),
        ("endpoints[0].key = nothing", |u| u.endpoints[0].key = None),
        ("base_generation = 0", |u| u.deleted_vpcs = vec![1]),
    ];
    for (expected, edit) in cases {
        let mut update = encode::snapshot(&small(), 4);
        edit(&mut update);
        let error = decode::snapshot(update).expect_err(expected).to_string();
        assert!(error.starts_with(expected), "{expected}: {error}");
    }
}

fn any_policy(generation: u64) -> impl Strategy<Value = Policy> {
    let vpc = any::<bool>().prop_map(|default_allow| Vpc {
        name: "v".into(),
        default_allow,
        peers: [1, 2].into(),
    });
    let endpoint = (1_u8..4, vec(1_u32..5, 0..3)).prop_map(|(last, mut groups)| {
        groups.sort_unstable();
        groups.dedup();
        Endpoint {
            mac: Mac([2, 0, 0, 0, 0, last]),
            port: last.into(),
            groups,
        }
    });
    (
        btree_map(1_u32..6, vpc, 0..4),
        btree_map((1_u32..4, (1_u8..9).prop_map(ip)), endpoint, 0..8),
        btree_map((1_u8..5).prop_map(ip), "[a-c]", 0..4),
    )
        .prop_map(move |(vpcs, endpoints, vteps)| Policy {
            generation,
            vpcs,
            endpoints,
            vteps,
            ..Policy::default()
        })
}

proptest! {
    #[test]
    fn a_delta_leads_where_the_snapshot_leads(from in any_policy(1), to in any_policy(2)) {
        let delta = decode::delta(encode::delta(&from, &to, 1, 2)).expect("readable");
        let mut next = from;
        delta.apply_to(&mut next).expect("fits");
        prop_assert_eq!(&next, &to);
        prop_assert_eq!(decode::snapshot(encode::snapshot(&to, 2)), Ok(to));
    }
}
