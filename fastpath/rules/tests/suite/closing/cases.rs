//! Changes as operators make them, with the regions that they come to.

use std::time::{Duration, Instant};

use penstock_flow::tuple::proto;
use penstock_flow::{Addr, Prefix};
use penstock_rules::model::{
    Direction, GroupId, List, Peer, Peers, Policy, PortId, Protocol, Rule, Vpc,
};
use penstock_rules::{Region, closing};

use super::compile;
use crate::generate::{VNI, around, empty, endpoint, port, rule_to, v4};

/// A group 1 that port 1 and port 2 are in, a group 2 of 10.0.0.9 and fd00::9,
/// and a group 3 of 10.0.0.9 alone.
fn base() -> Policy {
    let mut policy = empty(false);
    let cidr = |prefix, except| Peer::Cidr { prefix, except };
    let mut group = |id: GroupId, rules: Vec<Rule>| {
        let list = List {
            selects_ingress: true,
            rules,
            ..List::of_group(format!("g{id}"), VNI, id)
        };
        policy.lists.insert(id, list);
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
    &mut policy.lists.get_mut(&1).expect("group 1").rules
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
                twin.peers = Peers::Any(vec![Peer::Group(3)]);
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
                rules(p)[1].peers = Peers::Any(vec![Peer::Cidr {
                    prefix: net(9),
                    except: vec![],
                }]);
            },
            vec![of(1, udp, Some(net(8))), of(2, udp, Some(net(8)))],
        ),
        (
            "a prefix widens",
            |p| {
                rules(p)[1].peers = Peers::Any(vec![Peer::Cidr {
                    prefix: net(7),
                    except: vec![],
                }]);
            },
            vec![],
        ),
        (
            "an exception comes",
            |p| {
                rules(p)[1].peers = Peers::Any(vec![Peer::Cidr {
                    prefix: net(8),
                    except: vec![net(24), net(28)],
                }]);
            },
            vec![of(1, udp, Some(net(24))), of(2, udp, Some(net(24)))],
        ),
        (
            "a wider prefix has an exception",
            |p| {
                rules(p)[1].peers = Peers::Any(vec![Peer::Cidr {
                    prefix: net(0).max(net(7)),
                    except: vec![host(v4(3)).unwrap()],
                }]);
            },
            vec![of(1, udp, host(v4(3))), of(2, udp, host(v4(3)))],
        ),
        (
            "a protocol changes",
            |p| {
                rules(p)[1] = Rule {
                    protocol: Some(Protocol::Number(proto::TCP)),
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
                p.lists.get_mut(&1).unwrap().selects_egress = true;
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
                    10,
                    Vpc {
                        name: "w".into(),
                        default_allow: true,
                        peers: Default::default(),
                    },
                );
                p.subnets.insert(
                    10,
                    penstock_rules::model::Subnet {
                        vni: 10,
                        gateways: vec![],
                        ..subnet
                    },
                );
                let moved = penstock_rules::model::Port {
                    vni: 10,
                    subnet: 10,
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
    selected.lists.get_mut(&2).unwrap().selects_egress = true;
    let by_selection = closing(&compile(&before), &compile(&selected), 64);
    assert_eq!(by_selection, [egress(3)]);

    // Selected, but by a rule that allows all: nothing closes.
    let all = Rule {
        direction: Direction::Egress,
        ..rule_to("all", None, &[], vec![])
    };
    selected.lists.get_mut(&2).unwrap().rules.push(all);
    assert_eq!(closing(&compile(&before), &compile(&selected), 64), []);

    // No longer selected where the default denies: what its rules allowed.
    let mut unselected = base();
    unselected.lists.get_mut(&1).unwrap().selects_ingress = false;
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
        10,
        Vpc {
            name: "w".into(),
            default_allow: true,
            peers: Default::default(),
        },
    );
    before.subnets.insert(
        10,
        penstock_rules::model::Subnet {
            vni: 10,
            gateways: vec![],
            ..subnet
        },
    );
    before.ports.insert(
        10,
        penstock_rules::model::Port {
            vni: 10,
            subnet: 10,
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
