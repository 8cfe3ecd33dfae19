//! Rules that make no connection: packets are judged one by one.

use penstock_flow::tuple::proto;
use penstock_flow::{DropReason, Prefix};
use penstock_rules::model::{Applies, Direction, List, Peer, Policy, Rule, Tier};

use crate::bed::frames::{ACK, Layer4, SYN, build};
use crate::bed::pieces::{Cut, evenly, piece};
use crate::bed::talk::Talk;
use crate::bed::world::{BLUE, DEVICE, addr, rule};
use crate::bed::{Bed, Fate};
use crate::related::error;

pub(crate) const LIST: u32 = 77;

/// Puts a policy of these rules ahead of all others in the blue VPC.
pub(crate) fn admin(policy: &mut Policy, rules: Vec<Rule>) {
    let list = List {
        tier: Tier::Admin,
        applies: Applies::Vpc,
        rules,
        ..List::of_group("policies/p".into(), BLUE, 0)
    };
    policy.lists.insert(LIST, list);
}

fn stateless(name: &str, direction: Direction, protocol: u8, ports: &[(u16, u16)]) -> Rule {
    Rule {
        stateful: false,
        ..rule(name, direction, Some(protocol), ports, vec![])
    }
}

/// TCP with port 80 at either end, without connections: at both nodes.
fn both_ways(bed: &mut Bed) {
    bed.change(|_, policy| {
        let mut rules = Vec::new();
        for direction in [Direction::Ingress, Direction::Egress] {
            rules.push(stateless("to", direction, proto::TCP, &[(80, 80)]));
            rules.push(Rule {
                source_ports: vec![(80, 80)],
                ..stateless("from", direction, proto::TCP, &[])
            });
        }
        admin(policy, rules);
        closed(policy);
    });
}

/// What no rule allows is refused.
fn closed(policy: &mut Policy) {
    for vpc in policy.vpcs.values_mut() {
        vpc.default_allow = false;
    }
}

fn in_nic(bed: &Bed, node: usize) -> usize {
    let mut entries = 0;
    bed.nodes[node]
        .engine
        .visit_flow_entries(bed.now, DEVICE, &mut |_| entries += 1);
    entries
}

#[test]
fn both_ways_carry_tcp_and_leave_nothing() {
    for (a, b, v6) in [("a", "c", false), ("a", "b", false), ("e", "d", true)] {
        let mut bed = Bed::new();
        both_ways(&mut bed);
        let talk = Talk {
            v6,
            ..Talk::new(a, b)
        };
        talk.open(&mut bed);
        for back in [false, true, true, false] {
            assert_eq!(talk.data(&mut bed, back).at(), if back { a } else { b });
        }
        for node in 0..2 {
            let c = bed.counters(node);
            assert_eq!((c.connections.opened, c.connections.live), (0, 0));
            assert_eq!((c.offload.offered, in_nic(&bed, node)), (0, 0));
        }
        // Each of seven packets, once at each of its two ends.
        let told: u64 = (0..2).map(|n| bed.counters(n).judged.stateless).sum();
        let hits = (0..2).flat_map(|n| bed.nodes[n].engine.rule_hits());
        assert_eq!((told, hits.sum::<u64>()), (14, 14), "{a}-{b}");
    }
}

#[test]
fn a_packet_from_the_midst_needs_no_beginning() {
    let mut bed = Bed::new();
    both_ways(&mut bed);
    let talk = Talk::new("a", "c");
    assert_eq!(talk.data(&mut bed, false).at(), "c");
    assert_eq!(talk.tcp(&mut bed, true, SYN | ACK, 1, 2, 0).at(), "a");
    assert_eq!(talk.rst(&mut bed).at(), "c");
}

#[test]
fn one_way_alone_implies_no_answer() {
    for (a, b) in [("a", "c"), ("a", "b")] {
        let mut bed = Bed::new();
        bed.change(|_, policy| {
            let way = |direction| stateless("to", direction, proto::TCP, &[(80, 80)]);
            admin(
                policy,
                [Direction::Ingress, Direction::Egress].map(way).into(),
            );
            closed(policy);
        });
        let talk = Talk::new(a, b);
        assert_eq!(talk.syn(&mut bed).at(), b);
        let answer = talk.tcp(&mut bed, true, SYN | ACK, 5000, 1001, 0);
        assert_eq!(answer.reason(), Some(DropReason::InvalidState));
    }
}

#[test]
fn each_end_is_as_its_own_policy_says() {
    for (a, b, node) in [("a", "c", 1), ("a", "b", 0)] {
        let mut bed = Bed::new();
        // The receiver's end alone.
        let to = Prefix::new(addr("10.0.1.10"), 128).expect("a host");
        bed.change(|_, policy| {
            let peers = || {
                vec![Peer::Cidr {
                    prefix: to,
                    except: vec![],
                }]
            };
            let of = |name: &str, direction| Rule {
                stateful: false,
                ..rule(name, direction, Some(proto::TCP), &[], peers())
            };
            let rules = vec![of("in", Direction::Ingress), of("out", Direction::Egress)];
            admin(policy, rules);
        });
        let talk = Talk::new(a, b);
        talk.open(&mut bed);
        for back in [false, true, false] {
            assert_eq!(talk.data(&mut bed, back).at(), if back { a } else { b });
        }
        let live: u64 = (0..2).map(|n| bed.counters(n).connections.live).sum();
        assert_eq!(live, 1, "a's");
        assert_eq!(in_nic(&bed, node), 0, "a NIC would not judge");
        assert!(bed.counters(node).judged.stateless > 0);
    }
}

#[test]
fn connections_become_packets_when_their_rule_does() {
    for (a, b) in [("a", "c"), ("a", "b")] {
        let mut bed = Bed::new();
        let talk = Talk::new(a, b);
        talk.open(&mut bed);
        for back in [false, true, false, true] {
            talk.data(&mut bed, back);
        }
        assert!(in_nic(&bed, 0) > 0);
        both_ways(&mut bed);
        for i in 0..20 {
            let back = i % 2 == 1;
            assert_eq!(talk.data(&mut bed, back).at(), if back { a } else { b });
            bed.tick();
        }
        for node in 0..2 {
            let c = bed.counters(node).connections;
            assert_eq!((c.live, c.revoked, in_nic(&bed, node)), (0, 0, 0));
            assert_eq!(bed.nodes[node].engine.drops().count(), 0, "nothing was cut");
        }
        let released: u64 = (0..2).map(|n| bed.counters(n).connections.released).sum();
        assert_eq!(released, 2);
    }
}

#[test]
fn pieces_pass_as_their_packet_does() {
    let mut bed = Bed::new();
    bed.change(|_, policy| {
        let way = |direction| stateless("to", direction, proto::UDP, &[(80, 80)]);
        admin(
            policy,
            [Direction::Ingress, Direction::Egress].map(way).into(),
        );
        closed(policy);
    });
    for (dport, passes) in [(80, true), (81, false)] {
        let talk = Talk::new("a", "c");
        let l4 = Layer4::Udp {
            sport: 40_000,
            dport,
        };
        let whole = build(&talk.headers(&bed, false, l4), 600);
        let cuts: Vec<Cut> = evenly(&whole, 200);
        for cut in cuts {
            let fate = bed.send("a", &piece(&whole, 7 + u32::from(dport), cut));
            assert_eq!(fate.at() == "c", passes, "{dport} {cut:?}: {fate:?}");
        }
    }
    assert_eq!(bed.counters(0).connections.opened, 0);
    assert_eq!(bed.counters(0).judged.stateless, 1, "one packet");
}

#[test]
fn errors_about_no_connection_are_packets_of_their_own() {
    for unreachable in [true, false] {
        let mut bed = Bed::new();
        bed.change(|_, policy| {
            let mut rules = Vec::new();
            for direction in [Direction::Ingress, Direction::Egress] {
                rules.push(stateless("udp", direction, proto::UDP, &[]));
                rules.push(Rule {
                    icmp_type: Some(if unreachable { 3 } else { 11 }),
                    ..stateless("icmp", direction, proto::ICMP, &[])
                });
            }
            admin(policy, rules);
            closed(policy);
        });
        let talk = Talk::new("a", "c");
        let sent = build(
            &talk.headers(
                &bed,
                false,
                Layer4::Udp {
                    sport: 40_000,
                    dport: 80,
                },
            ),
            8,
        );
        assert_eq!(bed.send("a", &sent).at(), "c");
        let about = error(&bed, "c", "a", false, (3, 3, 0), &sent[14..], 36);
        let fate = bed.send("c", &about);
        let want = (!unreachable).then_some(DropReason::UnrelatedError);
        assert_eq!(fate.reason(), want, "{fate:?}");
        // To someone who has not sent what it quotes.
        let forged = error(&bed, "c", "b", false, (3, 3, 0), &sent[14..], 36);
        let fate = bed.send("c", &forged);
        assert_eq!(fate.reason(), Some(DropReason::UnrelatedError));
    }
}

#[test]
fn a_stateful_deny_ends_what_passed_without_a_connection() {
    let mut bed = Bed::new();
    both_ways(&mut bed);
    let talk = Talk::new("a", "c");
    talk.open(&mut bed);
    bed.change(|_, policy| {
        policy.lists.remove(&LIST);
    });
    assert!(matches!(
        talk.data(&mut bed, false),
        Fate::Dropped {
            reason: DropReason::InvalidState,
            ..
        }
    ));
}
