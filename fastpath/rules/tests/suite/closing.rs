//! What a change may close: never less than it does, and no more than it must.

use std::time::{Duration, Instant};

use penstock_flow::tuple::proto;
use penstock_flow::{Addr, Prefix};
use penstock_rules::model::{Direction, GroupId, Peer, Policy, PortId, Rule, Vpc};
use penstock_rules::{Query, Region, Ruleset, closing};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::generate::{
    VNI, around, empty, endpoint, groups, peer, policy, port, prefix, query, rule, rule_to, v4,
};

fn compile(policy: &Policy) -> Ruleset {
    Ruleset::compile(policy.clone()).expect("a sound policy")
}

/// One edit of a policy, as an operator makes them.
#[derive(Clone, Debug)]
enum Edit {
    FlipDefault,
    FlipSelection(GroupId, Direction),
    RemoveRule(GroupId, Index),
    AddRule(GroupId, Rule),
    /// The peers stay, what they may do changes; or the other way round.
    Mix(GroupId, Index, Rule, bool),
    RemovePeer(GroupId, Index, Index),
    AddPeer(GroupId, Index, Peer),
    AddExcept(GroupId, Index, Index, Prefix),
    Endpoint(Index, Option<Vec<GroupId>>),
    PortGroups(PortId, Option<Vec<GroupId>>),
}

fn edit() -> impl Strategy<Value = Edit> {
    let g = 1_u32..5;
    let at = any::<Index>;
    let way = prop_oneof![Just(Direction::Ingress), Just(Direction::Egress)];
    prop_oneof![
        Just(Edit::FlipDefault),
        (g.clone(), way).prop_map(|(g, way)| Edit::FlipSelection(g, way)),
        (g.clone(), at()).prop_map(|(g, i)| Edit::RemoveRule(g, i)),
        (g.clone(), rule()).prop_map(|(g, rule)| Edit::AddRule(g, rule)),
        (g.clone(), at(), rule(), any::<bool>())
            .prop_map(|(g, i, rule, peers)| Edit::Mix(g, i, rule, peers)),
        (g.clone(), at(), at()).prop_map(|(g, i, j)| Edit::RemovePeer(g, i, j)),
        (g.clone(), at(), peer()).prop_map(|(g, i, peer)| Edit::AddPeer(g, i, peer)),
        (g, at(), at(), prefix()).prop_map(|(g, i, j, hole)| Edit::AddExcept(g, i, j, hole)),
        (at(), prop::option::of(groups())).prop_map(|(i, groups)| Edit::Endpoint(i, groups)),
        (1_u32..4, prop::option::of(groups()))
            .prop_map(|(port, groups)| Edit::PortGroups(port, groups)),
    ]
}

fn rule_at(policy: &mut Policy, group: GroupId, i: Index) -> Option<&mut Rule> {
    let rules = &mut policy.groups.get_mut(&group).expect("group").rules;
    let n = rules.len();
    (n > 0).then(move || &mut rules[i.index(n)])
}

fn apply(policy: &mut Policy, edit: Edit) {
    match edit {
        Edit::FlipDefault => {
            let vpc = policy.vpcs.get_mut(&VNI).expect("the VPC");
            vpc.default_allow = !vpc.default_allow;
        }
        Edit::FlipSelection(group, way) => {
            let group = policy.groups.get_mut(&group).expect("group");
            match way {
                Direction::Ingress => group.selects_ingress = !group.selects_ingress,
                Direction::Egress => group.selects_egress = !group.selects_egress,
            }
        }
        Edit::RemoveRule(group, i) => {
            let rules = &mut policy.groups.get_mut(&group).expect("group").rules;
            if !rules.is_empty() {
                rules.remove(i.index(rules.len()));
            }
        }
        Edit::AddRule(group, rule) => {
            let rules = &mut policy.groups.get_mut(&group).expect("group").rules;
            rules.insert(0, rule);
        }
        Edit::Mix(group, i, other, peers) => {
            if let Some(rule) = rule_at(policy, group, i) {
                let kept = rule.clone();
                *rule = if peers {
                    Rule {
                        peers: kept.peers,
                        ..other
                    }
                } else {
                    Rule {
                        peers: other.peers,
                        ..kept
                    }
                };
            }
        }
        Edit::RemovePeer(group, i, j) => {
            // A rule without peers is for everyone.
            if let Some(rule) = rule_at(policy, group, i)
                && rule.peers.len() > 1
            {
                let j = j.index(rule.peers.len());
                rule.peers.remove(j);
            }
        }
        Edit::AddPeer(group, i, peer) => {
            if let Some(rule) = rule_at(policy, group, i) {
                rule.peers.push(peer);
            }
        }
        Edit::AddExcept(group, i, j, hole) => {
            if let Some(rule) = rule_at(policy, group, i)
                && !rule.peers.is_empty()
            {
                let j = j.index(rule.peers.len());
                if let Peer::Cidr { except, .. } = &mut rule.peers[j] {
                    except.push(hole);
                }
            }
        }
        Edit::Endpoint(i, groups) => {
            let keys: Vec<_> = policy.endpoints.keys().copied().collect();
            if keys.is_empty() {
                return;
            }
            let key = keys[i.index(keys.len())];
            match groups {
                Some(groups) => policy.endpoints.get_mut(&key).expect("listed").groups = groups,
                None => drop(policy.endpoints.remove(&key)),
            }
        }
        Edit::PortGroups(id, groups) => match groups {
            Some(groups) => drop(policy.ports.insert(id, port(groups))),
            None => drop(policy.ports.remove(&id)),
        },
    }
}

fn most() -> impl Strategy<Value = usize> {
    prop_oneof![Just(1_usize), 1_usize..6, Just(64), Just(1_000)]
}

/// Addresses at which something of a policy begins or ends.
fn edges(policy: &Policy) -> Vec<Addr> {
    let mut addrs: Vec<Addr> = policy.endpoints.keys().map(|(_, addr)| *addr).collect();
    let rules = policy.groups.values().flat_map(|g| &g.rules);
    for peer in rules.flat_map(|r| &r.peers) {
        if let Peer::Cidr { prefix, except } = peer {
            for p in core::iter::once(prefix).chain(except) {
                let first = p.addr().0;
                let last = first | u128::MAX.checked_shr(u32::from(p.len())).unwrap_or(0);
                for a in [first, last, first.wrapping_sub(1), last.wrapping_add(1)] {
                    addrs.push(Addr(a));
                }
            }
        }
    }
    addrs.push(v4(0));
    addrs
}

/// Every query that changes from yes to no lies in one of the regions.
fn check(
    before: &Policy,
    after: &Policy,
    most: usize,
    random: &[Query],
    picks: &[(Index, Index, Index)],
) -> Result<(), TestCaseError> {
    let (old, new) = (compile(before), compile(after));
    let regions = closing(&old, &new, most);
    prop_assert!(regions.len() <= most.max(1), "{regions:?}");
    let mut addrs = edges(before);
    addrs.extend(edges(after));
    let rules = || {
        let groups = before.groups.values().chain(after.groups.values());
        groups.flat_map(|g| &g.rules)
    };
    let mut protocols: Vec<u8> = rules().filter_map(|r| r.protocol).collect();
    protocols.extend([proto::TCP, 99]);
    let mut dports: Vec<u16> = rules()
        .flat_map(|r| r.ports.clone())
        .flat_map(|(a, b)| [a, b, a.wrapping_sub(1), b.wrapping_add(1)])
        .collect();
    dports.extend([0, 1, 256, 257, 512, u16::MAX]);
    let picked = picks.iter().flat_map(|(addr, protocol, dport)| {
        let query = Query {
            direction: Direction::Ingress,
            port: 1,
            peer: *addr.get(&addrs),
            proto: *protocol.get(&protocols),
            sport: 1,
            dport: *dport.get(&dports),
        };
        [1, 2, 3].into_iter().flat_map(move |port| {
            [Direction::Ingress, Direction::Egress].map(|direction| Query {
                direction,
                port,
                ..query
            })
        })
    });
    for q in random.iter().copied().chain(picked) {
        let closes = old.judge(&q).allow && !new.judge(&q).allow;
        prop_assert!(
            !closes || regions.iter().any(|r| r.contains(VNI, &q)),
            "{q:?} is in none of {regions:?}"
        );
    }
    prop_assert_eq!(closing(&old, &old, most), vec![]);
    Ok(())
}

fn picks() -> impl Strategy<Value = Vec<(Index, Index, Index)>> {
    prop::collection::vec(any::<(Index, Index, Index)>(), 200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn an_edit_closes_nothing_outside(
        before in policy(),
        edits in prop::collection::vec(edit(), 1..4),
        most in most(),
        random in prop::collection::vec(query(), 50),
        picks in picks(),
    ) {
        let mut after = before.clone();
        edits.into_iter().for_each(|edit| apply(&mut after, edit));
        check(&before, &after, most, &random, &picks)?;
    }

    #[test]
    fn another_policy_closes_nothing_outside(
        before in policy(),
        after in policy(),
        most in most(),
        random in prop::collection::vec(query(), 50),
        picks in picks(),
    ) {
        check(&before, &after, most, &random, &picks)?;
    }

    /// More rules, peers and members never close anything.
    #[test]
    fn what_only_opens_needs_no_region(
        before in policy(),
        g in 1_u32..5,
        new_rule in rule(),
        member in any::<Index>(),
        new_peer in peer(),
    ) {
        let mut after = before.clone();
        let rules = &mut after.groups.get_mut(&g).expect("group").rules;
        for rule in rules.iter_mut().filter(|r| !r.peers.is_empty()) {
            rule.peers.push(new_peer.clone());
        }
        rules.push(new_rule);
        if !after.endpoints.is_empty() {
            let i = member.index(after.endpoints.len());
            let endpoint = after.endpoints.values_mut().nth(i).expect("below the length");
            endpoint.groups = vec![1, 2, 3, 4];
        }
        after.endpoints.entry((VNI, v4(200))).or_insert_with(|| endpoint(vec![g]));
        prop_assert_eq!(closing(&compile(&before), &compile(&after), 64), vec![]);
    }

    /// A rule that goes concerns nobody but the ports of its group, its
    /// direction and its protocol.
    #[test]
    fn a_removed_rule_stays_among_its_own(before in policy(), g in 1_u32..5, i in any::<Index>()) {
        let mut after = before.clone();
        let rules = &mut after.groups.get_mut(&g).expect("group").rules;
        prop_assume!(!rules.is_empty());
        let gone = rules.remove(i.index(rules.len()));
        for r in closing(&compile(&before), &compile(&after), 1_000) {
            let port = &before.ports[&r.port.expect("few enough for ports")];
            prop_assert!(port.groups.contains(&g), "{r:?}");
            prop_assert_eq!((r.direction, r.protocol), (Some(gone.direction), gone.protocol));
        }
    }
}

/// A group 1 that port 1 and port 2 are in, a group 2 of 10.0.0.9 and fd00::9,
/// and a group 3 of 10.0.0.9 alone.
fn base() -> Policy {
    let mut policy = empty(false);
    let cidr = |prefix, except| Peer::Cidr { prefix, except };
    let mut group = |id: GroupId, rules: Vec<Rule>| {
        let group = penstock_rules::model::Group {
            name: format!("g{id}"),
            vni: VNI,
            selects_ingress: true,
            selects_egress: false,
            rules,
        };
        policy.groups.insert(id, group);
    };
    group(
        1,
        vec![
            rule_to(
                "https",
                Some(proto::TCP),
                &[(443, 443)],
                vec![Peer::Group(2)],
            ),
            rule_to(
                "dns",
                Some(proto::UDP),
                &[(53, 53)],
                vec![cidr(net(8), vec![])],
            ),
            rule_to("ping", Some(proto::ICMP), &[], vec![]),
            rule_to(
                "range",
                Some(proto::TCP),
                &[(1000, 1999)],
                vec![cidr(high(), vec![])],
            ),
        ],
    );
    group(2, vec![]);
    group(3, vec![]);
    policy.ports.insert(1, port(vec![1]));
    policy.ports.insert(2, port(vec![1]));
    policy.ports.insert(3, port(vec![2]));
    policy.endpoints.insert((VNI, v4(9)), endpoint(vec![2, 3]));
    policy.endpoints.insert((VNI, V6), endpoint(vec![2]));
    policy
}

const V6: Addr = Addr(0xfd00 << 112 | 9);

/// 10.0.0.0 with so many bits.
fn net(bits: u8) -> Prefix {
    around(v4(0), 96 + bits)
}

/// 10.0.0.64/26.
fn high() -> Prefix {
    around(v4(64), 96 + 26)
}

fn host(addr: Addr) -> Option<Prefix> {
    Prefix::new(addr, 128)
}

/// Ingress of a port.
fn of(port: PortId, protocol: Option<u8>, peer: Option<Prefix>) -> Region {
    Region {
        vni: Some(VNI),
        port: Some(port),
        direction: Some(Direction::Ingress),
        protocol,
        peer,
    }
}

fn rules(policy: &mut Policy) -> &mut Vec<Rule> {
    &mut policy.groups.get_mut(&1).expect("group 1").rules
}

type Change = fn(&mut Policy);

#[test]
fn each_change_closes_just_this() {
    let tcp = Some(proto::TCP);
    let udp = Some(proto::UDP);
    let whole_port = |port| Region {
        direction: None,
        ..of(port, None, None)
    };
    let cases: Vec<(&str, Change, Vec<Region>)> = vec![
        (
            "a member leaves a peer group",
            |p| {
                p.endpoints.get_mut(&(VNI, v4(9))).unwrap().groups = vec![3];
            },
            vec![of(1, tcp, host(v4(9))), of(2, tcp, host(v4(9)))],
        ),
        (
            "an endpoint goes",
            |p| {
                p.endpoints.remove(&(VNI, V6));
            },
            vec![of(1, tcp, host(V6)), of(2, tcp, host(V6))],
        ),
        (
            "a member changes to a group that may do the same",
            |p| {
                let mut twin = rules(p)[0].clone();
                twin.peers = vec![Peer::Group(3)];
                rules(p).push(twin);
                p.endpoints.get_mut(&(VNI, v4(9))).unwrap().groups = vec![3];
            },
            vec![],
        ),
        (
            "a member leaves a group that no rule names",
            |p| {
                p.endpoints.get_mut(&(VNI, v4(9))).unwrap().groups = vec![2];
            },
            vec![],
        ),
        (
            "a rule goes: by its members",
            |p| {
                rules(p).remove(0);
            },
            vec![
                of(1, tcp, host(V6)),
                of(1, tcp, host(v4(9))),
                of(2, tcp, host(V6)),
                of(2, tcp, host(v4(9))),
            ],
        ),
        (
            "a rule goes: by its prefix",
            |p| {
                rules(p).remove(1);
            },
            vec![of(1, udp, Some(net(8))), of(2, udp, Some(net(8)))],
        ),
        (
            "a rule goes: for everyone",
            |p| {
                rules(p).remove(2);
            },
            vec![
                of(1, Some(proto::ICMP), None),
                of(2, Some(proto::ICMP), None),
            ],
        ),
        (
            "a rule goes, others say the same",
            |p| {
                let gone = rules(p).remove(3);
                for ports in [(900, 1500), (1501, 1999)] {
                    rules(p).push(Rule {
                        ports: vec![ports],
                        ..gone.clone()
                    });
                }
            },
            vec![],
        ),
        (
            "port numbers narrow",
            |p| rules(p)[3].ports = vec![(1000, 1998)],
            vec![of(1, tcp, Some(high())), of(2, tcp, Some(high()))],
        ),
        (
            "port numbers widen",
            |p| rules(p)[3].ports = vec![(999, 2000)],
            vec![],
        ),
        (
            "a prefix narrows",
            |p| {
                rules(p)[1].peers = vec![Peer::Cidr {
                    prefix: net(9),
                    except: vec![],
                }];
            },
            vec![of(1, udp, Some(net(8))), of(2, udp, Some(net(8)))],
        ),
        (
            "a prefix widens",
            |p| {
                rules(p)[1].peers = vec![Peer::Cidr {
                    prefix: net(7),
                    except: vec![],
                }];
            },
            vec![],
        ),
        (
            "an exception comes",
            |p| {
                rules(p)[1].peers = vec![Peer::Cidr {
                    prefix: net(8),
                    except: vec![net(24), net(28)],
                }];
            },
            vec![of(1, udp, Some(net(24))), of(2, udp, Some(net(24)))],
        ),
        (
            "a wider prefix has an exception",
            |p| {
                rules(p)[1].peers = vec![Peer::Cidr {
                    prefix: net(0).max(net(7)),
                    except: vec![host(v4(3)).unwrap()],
                }];
            },
            vec![of(1, udp, host(v4(3))), of(2, udp, host(v4(3)))],
        ),
        (
            "a protocol changes",
            |p| {
                rules(p)[1] = Rule {
                    protocol: Some(proto::TCP),
                    ..rules(p)[1].clone()
                }
            },
            vec![of(1, udp, Some(net(8))), of(2, udp, Some(net(8)))],
        ),
        (
            "a rule is renamed and moved",
            |p| {
                let mut rule = rules(p).remove(0);
                rule.name = "tls".into();
                rules(p).push(rule);
            },
            vec![],
        ),
        (
            "a port goes",
            |p| drop(p.ports.remove(&2)),
            vec![whole_port(2)],
        ),
        (
            "a port that was closed goes",
            |p| drop(p.ports.remove(&3)),
            vec![],
        ),
        (
            "a port leaves its group for the VPC's denial",
            |p| {
                p.ports.insert(2, port(vec![]));
            },
            vec![
                of(2, Some(proto::ICMP), None),
                of(2, tcp, Some(high())),
                of(2, tcp, host(V6)),
                of(2, tcp, host(v4(9))),
                of(2, udp, Some(net(8))),
            ],
        ),
        (
            "a port comes",
            |p| drop(p.ports.insert(4, port(vec![1]))),
            vec![],
        ),
        (
            "egress is selected, but was denied",
            |p| {
                p.groups.get_mut(&1).unwrap().selects_egress = true;
            },
            vec![],
        ),
        (
            "the VPC opens",
            |p| p.vpcs.get_mut(&VNI).unwrap().default_allow = true,
            vec![],
        ),
        (
            "a port changes its VPC",
            |p| {
                let subnet = p.subnets[&1].clone();
                p.vpcs.insert(
                    8,
                    Vpc {
                        name: "w".into(),
                        default_allow: true,
                    },
                );
                p.subnets.insert(
                    8,
                    penstock_rules::model::Subnet {
                        vni: 8,
                        gateways: vec![],
                        ..subnet
                    },
                );
                let moved = penstock_rules::model::Port {
                    vni: 8,
                    subnet: 8,
                    ..port(vec![])
                };
                p.ports.insert(1, moved);
            },
            vec![whole_port(1)],
        ),
    ];
    for (name, change, expected) in cases {
        let mut after = base();
        change(&mut after);
        let mut expected = expected;
        expected.sort();
        assert_eq!(
            closing(&compile(&base()), &compile(&after), 64),
            expected,
            "{name}"
        );
    }
}

#[test]
fn an_open_vpc_closes_by_selection_and_by_default() {
    let mut before = base();
    before.vpcs.get_mut(&VNI).unwrap().default_allow = true;
    // Egress of the ports 1 to 3 is decided by the default.
    let egress = |port| Region {
        direction: Some(Direction::Egress),
        ..of(port, None, None)
    };
    let mut closed = before.clone();
    closed.vpcs.get_mut(&VNI).unwrap().default_allow = false;
    let by_default = closing(&compile(&before), &compile(&closed), 64);
    assert_eq!(by_default, [egress(1), egress(2), egress(3)]);

    let mut selected = before.clone();
    selected.groups.get_mut(&2).unwrap().selects_egress = true;
    let by_selection = closing(&compile(&before), &compile(&selected), 64);
    assert_eq!(by_selection, [egress(3)]);

    // Selected, but by a rule that allows all: nothing closes.
    let all = Rule {
        direction: Direction::Egress,
        ..rule_to("all", None, &[], vec![])
    };
    selected.groups.get_mut(&2).unwrap().rules.push(all);
    assert_eq!(closing(&compile(&before), &compile(&selected), 64), []);

    // No longer selected where the default denies: what its rules allowed.
    let mut unselected = base();
    unselected.groups.get_mut(&1).unwrap().selects_ingress = false;
    let regions = closing(&compile(&base()), &compile(&unselected), 64);
    assert!(
        regions.contains(&of(1, Some(proto::ICMP), None)),
        "{regions:?}"
    );
    assert_eq!(regions.len(), 10);
}

/// Too many regions are merged where that takes in the least besides.
#[test]
fn too_many_regions_are_merged() {
    let mut before = base();
    for id in 3..=40 {
        before.ports.insert(id, port(vec![1]));
    }
    let vpc = Region {
        vni: Some(VNI),
        ..Region::EVERYTHING
    };

    // One member against forty ports: the address, whatever the port.
    let mut after = before.clone();
    after.endpoints.remove(&(VNI, v4(9)));
    let one_host = [Region {
        port: None,
        ..of(1, Some(proto::TCP), host(v4(9)))
    }];
    assert_eq!(closing(&compile(&before), &compile(&after), 39), one_host);
    assert_eq!(closing(&compile(&before), &compile(&after), 40).len(), 40);

    // Forty ports that lose more than addresses: port by port, as long as that fits.
    let mut after = before.clone();
    rules(&mut after).drain(1..);
    let ports: Vec<Region> = (1..=40).map(|id| of(id, None, None)).collect();
    assert_eq!(closing(&compile(&before), &compile(&after), 64), ports);
    assert_eq!(closing(&compile(&before), &compile(&after), 39), [vpc]);

    // One port that loses all there is, said ever more coarsely.
    let mut after = base();
    after.ports.insert(2, port(vec![]));
    let closes = |most| closing(&compile(&base()), &compile(&after), most);
    assert_eq!(closes(5).len(), 5);
    let protocols = [proto::ICMP, proto::TCP, proto::UDP];
    assert_eq!(closes(4), protocols.map(|p| of(2, Some(p), None)));
    assert_eq!(closes(2), [of(2, None, None)]);
    assert_eq!(closes(0), closes(1));

    // Two VPCs, and room for one region.
    let mut before = base();
    let subnet = before.subnets[&1].clone();
    before.vpcs.insert(
        8,
        Vpc {
            name: "w".into(),
            default_allow: true,
        },
    );
    before.subnets.insert(
        8,
        penstock_rules::model::Subnet {
            vni: 8,
            gateways: vec![],
            ..subnet
        },
    );
    before.ports.insert(
        8,
        penstock_rules::model::Port {
            vni: 8,
            subnet: 8,
            ..port(vec![])
        },
    );
    let mut after = before.clone();
    after.ports.clear();
    assert_eq!(closing(&compile(&before), &compile(&after), 3).len(), 3);
    assert_eq!(closing(&compile(&before), &compile(&after), 2).len(), 2);
    assert_eq!(
        closing(&compile(&before), &compile(&after), 1),
        [Region::EVERYTHING]
    );
}

/// Many endpoints and rules that stay cost next to nothing; even a debug build
/// on a busy machine has room below the limit, and a comparison of each rule
/// with each other, or of each port with each endpoint, has not.
#[test]
fn what_stays_is_passed_over() {
    let mut before = base();
    for i in 0..20_000_u32 {
        let addr = Addr::from_v4((0x0a01_0000 + i).to_be_bytes());
        before.endpoints.insert((VNI, addr), endpoint(vec![2, 3]));
    }
    for id in 4..1_000 {
        before.ports.insert(id, port(vec![1]));
    }
    for i in 0..1_000 {
        rules(&mut before).push(rule_to(
            "many",
            Some(proto::TCP),
            &[(i, i)],
            vec![
                Peer::Group(2),
                Peer::Cidr {
                    prefix: high(),
                    except: vec![around(v4(64), 126)],
                },
            ],
        ));
    }
    let mut after = before.clone();
    after.endpoints.get_mut(&(VNI, v4(9))).unwrap().groups = vec![];
    let (old, new) = (compile(&before), compile(&after));
    let begin = Instant::now();
    let regions = closing(&old, &new, 64);
    let took = begin.elapsed();
    let host = Region {
        port: None,
        ..of(1, Some(proto::TCP), host(v4(9)))
    };
    assert_eq!(regions, [host]);
    assert!(took < Duration::from_secs(1), "{took:?}");
}
