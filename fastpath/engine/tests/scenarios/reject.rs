//! What policy rejects: its sender is told, and nobody else.

use penstock_flow::packet::{self, L4, tcp_flags};
use penstock_flow::tuple::proto;
use penstock_flow::{DropReason, Prefix};
use penstock_rules::model::{Action, Direction, Peer, Rule};

use crate::bed::frames::{ACK, Layer4, RST, build};
use crate::bed::pieces::{evenly, piece};
use crate::bed::talk::Talk;
use crate::bed::world::{addr, rule};
use crate::bed::{Bed, Fate, SECOND};
use crate::related::error;
use crate::stateless::admin;

fn rejecting(bed: &mut Bed, direction: Direction) {
    bed.change(|_, policy| {
        let no = Rule {
            action: Action::Reject,
            ..rule("no", direction, None, &[], vec![])
        };
        admin(policy, vec![no]);
    });
}

const WAYS: [(&str, &str, Direction, usize); 4] = [
    ("a", "c", Direction::Ingress, 1),
    ("a", "c", Direction::Egress, 0),
    ("a", "b", Direction::Ingress, 0),
    ("e", "d", Direction::Ingress, 1),
];

#[test]
fn a_segment_gets_the_reset_that_its_sender_believes() {
    for (a, b, direction, node) in WAYS {
        for v6 in [false, true] {
            let mut bed = Bed::new();
            rejecting(&mut bed, direction);
            let talk = Talk {
                v6,
                ..Talk::new(a, b)
            };
            let fate = talk.syn(&mut bed);
            assert_eq!(fate.at(), a, "{a}-{b} {direction:?}: {fate:?}");
            let answer = packet::parse(fate.frame()).expect("a good frame");
            let ip = answer.ip().expect("IP");
            let L4::Tcp(segment) = &ip.l4_kind else {
                panic!("{ip:?}")
            };
            assert_eq!(segment.flags, tcp_flags::RST | tcp_flags::ACK);
            assert_eq!((segment.seq, segment.ack), (0, 1001));
            assert_eq!(ip.tuple.src, talk.dst(&bed));
            assert_eq!((ip.tuple.sport, ip.tuple.dport), (80, 40_000));
            assert_eq!(answer.dst_mac, bed.place(a).mac);
            let told = bed.nodes[node].engine.drops().next().expect("a record");
            assert_eq!(told.rule.as_str(), "group/rules/no");
            let want = match direction {
                Direction::Ingress => "denied_ingress",
                Direction::Egress => "denied_egress",
            };
            assert_eq!(told.event.name(), want);
            assert_eq!(bed.counters(node).judged.rejected, 1);
            assert_eq!(bed.counters(node).connections.opened, 0);
        }
    }
}

#[test]
fn anything_else_gets_an_icmp_error() {
    for (a, b, direction, node) in WAYS {
        for v6 in [false, true] {
            for ping in [false, true] {
                let mut bed = Bed::new();
                rejecting(&mut bed, direction);
                let talk = Talk {
                    v6,
                    ..Talk::new(a, b)
                };
                let fate = if ping {
                    talk.ping(&mut bed, false)
                } else {
                    talk.udp(&mut bed, false)
                };
                assert_eq!(fate.at(), a, "{a}-{b} {direction:?}: {fate:?}");
                let answer = packet::parse(fate.frame()).expect("a good frame");
                let ip = answer.ip().expect("IP");
                assert_eq!(ip.tuple.dport, if v6 { 0x0101 } else { 0x030d });
                let L4::IcmpError(about) = &ip.l4_kind else {
                    panic!("{ip:?}")
                };
                assert_eq!(about.inner.dst, talk.dst(&bed));
                assert_eq!(bed.counters(node).judged.rejected, 1);
            }
        }
    }
}

#[test]
fn the_rest_of_a_cut_stream_is_reset_too() {
    for (a, b) in [("a", "c"), ("a", "b")] {
        let mut bed = Bed::new();
        let talk = Talk::new(a, b);
        talk.open(&mut bed);
        rejecting(&mut bed, Direction::Ingress);
        for _ in 0..10 {
            bed.tick();
        }
        let fate = talk.data(&mut bed, false);
        let answer = packet::parse(fate.frame()).expect("a good frame");
        let L4::Tcp(segment) = &answer.ip().expect("IP").l4_kind else {
            panic!("{fate:?}")
        };
        assert_eq!((fate.at(), segment.flags), (a, tcp_flags::RST));
        assert_eq!(segment.seq, 5001, "what a expects");
    }
}

#[test]
fn some_things_are_never_answered() {
    let mut bed = Bed::new();
    rejecting(&mut bed, Direction::Egress);
    let talk = Talk::new("a", "c");
    let dropped = |fate: Fate, reason| assert_eq!(fate.reason(), Some(reason), "{fate:?}");
    dropped(talk.rst(&mut bed), DropReason::InvalidState);
    let only = talk.tcp(&mut bed, false, RST, 1, 0, 0);
    dropped(only, DropReason::InvalidState);
    let udp = Layer4::Udp { sport: 1, dport: 2 };
    let sent = build(&talk.headers(&bed, true, udp), 8);
    let about = error(&bed, "a", "c", false, (3, 3, 0), &sent[14..], 36);
    dropped(bed.send("a", &about), DropReason::UnrelatedError);
    // Of a datagram in pieces the first one is, once.
    let whole = build(&talk.headers(&bed, false, udp), 600);
    let fates: Vec<Fate> = evenly(&whole, 200)
        .into_iter()
        .map(|cut| bed.send("a", &piece(&whole, 9, cut)))
        .collect();
    assert_eq!(fates[0].at(), "a");
    for fate in &fates[1..] {
        assert_eq!(fate.reason(), Some(DropReason::DeniedEgress));
    }
    // Of a segment likewise, by an error: a reset must tell its length.
    let tcp = Layer4::Tcp {
        sport: 1,
        dport: 2,
        flags: ACK,
        seq: 1,
        ack: 1,
    };
    let whole = build(&talk.headers(&bed, false, tcp), 600);
    let fate = bed.send("a", &piece(&whole, 10, evenly(&whole, 200)[0]));
    let answer = packet::parse(fate.frame()).expect("a good frame");
    let ip = answer.ip().expect("IP");
    assert_eq!(ip.tuple.proto, proto::ICMP, "{ip:?}");
}

#[test]
fn answers_are_limited_and_the_rest_is_dropped() {
    let mut bed = Bed::new();
    bed.wait(SECOND);
    rejecting(&mut bed, Direction::Egress);
    let fates: Vec<Fate> = (0..150)
        .map(|i| {
            let talk = Talk {
                sport: 1000 + i,
                ..Talk::new("a", "c")
            };
            talk.syn(&mut bed)
        })
        .collect();
    let told = fates.iter().filter(|fate| fate.at() == "a").count();
    let dropped = fates
        .iter()
        .filter(|f| f.reason() == Some(DropReason::DeniedEgress));
    assert_eq!((told, dropped.count()), (100, 50));
}

#[test]
fn nobody_is_told_who_does_not_live_there() {
    // Whoever forges a source gets nobody else told.
    let mut bed = Bed::new();
    let peer = Peer::Cidr {
        prefix: Prefix::new(addr("10.0.1.10"), 128).expect("a host"),
        except: vec![],
    };
    bed.change(|_, policy| {
        let no = Rule {
            action: Action::Reject,
            ..rule("no", Direction::Egress, None, &[], vec![peer.clone()])
        };
        admin(policy, vec![no]);
    });
    let mut headers = Talk::new("b", "a").headers(&bed, false, Layer4::Udp { sport: 1, dport: 2 });
    headers.src = bed.place("c").ip(false);
    let fate = bed.send("b", &build(&headers, 8));
    assert_eq!(fate.reason(), Some(DropReason::Spoofed));
}
