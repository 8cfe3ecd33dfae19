//! Packets in fragments: each piece goes where its packet would.

use penstock_engine::{Config, REMEMBERED};
use penstock_flow::{DropReason, Mac};
use penstock_rules::model::Direction;

use crate::bed::frames::{Headers, Layer4, SYN, build, read};
use crate::bed::pieces::{Cut, body, carried, evenly, piece};
use crate::bed::talk::Talk;
use crate::bed::world::{BLUE, UPLINK, gateway, group, put_group, rule};
use crate::bed::{Bed, Fate, MS, SECOND, capacities, config};

const UDP: Layer4 = Layer4::Udp {
    sport: 40_000,
    dport: 80,
};
const BACK: Layer4 = Layer4::Udp {
    sport: 80,
    dport: 40_000,
};

fn cut(begin: usize, end: usize, more: bool) -> Cut {
    Cut { begin, end, more }
}

fn packet(bed: &Bed, talk: &Talk, l4: Layer4, len: usize) -> Vec<u8> {
    let mut frame = build(&talk.headers(bed, false, l4), len);
    let from = frame.len() - len;
    for (i, byte) in frame[from..].iter_mut().enumerate() {
        *byte = (i / 8) as u8;
    }
    frame
}

/// Sends pieces and answers what arrived at `to`, in order of arrival.
fn arrived(bed: &mut Bed, from: &str, to: &str, pieces: &[Vec<u8>]) -> Vec<Cut> {
    let mut seen = Vec::new();
    let mut look = |fate: &Fate| {
        if fate.at() == to {
            seen.push(carried(fate.frame()).expect("a piece").0);
        }
    };
    for frame in pieces {
        look(&bed.send(from, frame));
        bed.released.drain(..).for_each(|fate| look(&fate));
    }
    seen
}

fn pieces(frame: &[u8], id: u32, cuts: &[Cut]) -> Vec<Vec<u8>> {
    cuts.iter().map(|c| piece(frame, id, *c)).collect()
}

/// Why the last of these is dropped.
fn reason(bed: &mut Bed, from: &str, pieces: &[Vec<u8>]) -> Option<DropReason> {
    let fates: Vec<Fate> = pieces.iter().map(|frame| bed.send(from, frame)).collect();
    fates.last().expect("some").reason()
}

#[test]
fn in_order_backwards_and_mixed_between_all_kinds_of_ends() {
    // One node; two; tagged; routed; another tenant.
    for (a, b) in [("a", "b"), ("a", "c"), ("b", "a"), ("b", "d"), ("x", "y")] {
        for v6 in [false, true] {
            let mut bed = Bed::new();
            let talk = Talk {
                v6,
                ..Talk::new(a, b)
            };
            let frame = packet(&bed, &talk, UDP, 5000);
            let cuts = evenly(&frame, 1000);
            assert_eq!(cuts.len(), 6);
            let orders = [[0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0], [3, 0, 5, 1, 2, 4]];
            for (id, order) in (1..).zip(orders) {
                let sent = order.map(|i| piece(&frame, id, cuts[i]));
                let mut seen = arrived(&mut bed, a, b, &sent);
                // Nothing passes before the first piece.
                assert_eq!(seen[0].begin, 0, "{seen:?}");
                seen.sort_by_key(|c| c.begin);
                assert_eq!(seen, cuts, "{talk:?} {order:?}");
            }
            let node = bed.place(a).node;
            assert_eq!(bed.counters(node).waiting, 0);
            assert_eq!(
                bed.counters(node).connections.opened,
                if a == "a" && b == "b" || b == "a" {
                    2
                } else {
                    1
                }
            );
        }
    }
}

#[test]
fn what_arrives_is_what_was_sent() {
    for v6 in [false, true] {
        let mut bed = Bed::new();
        let talk = Talk {
            v6,
            ..Talk::new("b", "d")
        };
        let frame = packet(&bed, &talk, UDP, 3000);
        let mut whole = vec![0; body(&frame).len()];
        let mut look = |fate: &Fate| {
            assert_eq!(fate.at(), "d", "{fate:?}");
            let (c, data) = carried(fate.frame()).expect("a piece");
            whole[c.begin..c.end].copy_from_slice(&data);
        };
        // The second waits, with its tag.
        let cuts = evenly(&frame, 1400);
        for i in [1, 0, 2] {
            let fate = bed.send("b", &piece(&frame, 9, cuts[i]));
            if !matches!(fate, Fate::Waits { node: 0 }) {
                look(&fate);
            }
            bed.released.drain(..).for_each(|fate| look(&fate));
        }
        assert_eq!(whole, body(&frame));
    }
}

#[test]
fn policy_judges_the_first_and_the_others_share_its_fate() {
    for v6 in [false, true] {
        let mut bed = Bed::new();
        bed.change(|_, policy| {
            let web = rule("web", Direction::Ingress, Some(17), &[(80, 80)], vec![]);
            put_group(policy, 7, group(BLUE, true, false, vec![web]));
            if let Some(port) = policy.ports.get_mut(&3) {
                port.groups = vec![7];
            }
        });
        let talk = Talk {
            v6,
            ..Talk::new("a", "c")
        };
        let other = Layer4::Udp {
            sport: 40_000,
            dport: 81,
        };
        for (id, l4, passes) in [(1, UDP, true), (2, other, false)] {
            let frame = packet(&bed, &talk, l4, 3000);
            for order in [[0, 1, 2], [2, 1, 0]] {
                let cuts = evenly(&frame, 1200);
                let sent = order.map(|i| piece(&frame, id, cuts[i]));
                let before = bed.counters(1).dropped(DropReason::DeniedIngress);
                let seen = arrived(&mut bed, "a", "c", &sent);
                let denied = bed.counters(1).dropped(DropReason::DeniedIngress) - before;
                if passes {
                    assert_eq!((seen.len(), denied), (3, 0));
                } else {
                    assert_eq!((seen.len(), denied), (0, 3), "{v6} {order:?}");
                }
            }
        }
        // One record, not three, for each packet that was refused.
        let records = bed.nodes[1].engine.drops().count();
        assert_eq!(records, 2);
    }
}

#[test]
fn a_later_piece_opens_nothing_and_outlives_no_permission() {
    let mut bed = Bed::new();
    let talk = Talk::new("a", "c");
    let frame = packet(&bed, &talk, UDP, 3000);
    let sent = pieces(&frame, 1, &evenly(&frame, 1200));
    assert_eq!(bed.send("a", &sent[2]), Fate::Waits { node: 0 });
    assert_eq!(bed.counters(0).connections.opened, 0);
    assert_eq!(arrived(&mut bed, "a", "c", &sent[..1]).len(), 2);
    bed.change(|node, policy| {
        if node == 0 {
            put_group(policy, 7, group(BLUE, false, true, vec![]));
            policy.ports.get_mut(&1).expect("a").groups = vec![7];
        }
    });
    let denied = Some(DropReason::DeniedEgress);
    assert_eq!(bed.send("a", &sent[1]).reason(), denied);
    assert_eq!(bed.counters(0).connections.live, 0);
}

#[test]
fn what_waits_is_judged_by_what_is_in_force_when_it_goes_on() {
    let mut bed = Bed::new();
    let talk = Talk::new("a", "c");
    let frame = packet(&bed, &talk, UDP, 2000);
    let sent = pieces(&frame, 1, &evenly(&frame, 1200));
    assert_eq!(bed.send("a", &sent[1]), Fate::Waits { node: 0 });
    bed.change(|node, policy| {
        if node == 0 {
            put_group(policy, 7, group(BLUE, false, true, vec![]));
            policy.ports.get_mut(&1).expect("a").groups = vec![7];
        }
    });
    let denied = Some(DropReason::DeniedEgress);
    assert_eq!(bed.send("a", &sent[0]).reason(), denied);
    assert_eq!(bed.released[0].reason(), denied);
}

#[test]
fn refused_pieces() {
    // What is sent before, and what then is refused, with all behind it.
    let cases: [(&str, &[Cut], Cut); 7] = [
        ("overlaps", &[cut(0, 1200, true)], cut(1192, 2000, true)),
        ("lies within", &[cut(0, 1200, true)], cut(8, 16, true)),
        (
            "covers",
            &[cut(0, 1200, true), cut(1600, 1608, true)],
            cut(1200, 2400, true),
        ),
        (
            "ends twice",
            &[cut(0, 1200, true), cut(2000, 2008, false)],
            cut(1200, 1208, false),
        ),
        (
            "ends before another",
            &[cut(0, 1200, true), cut(2000, 2400, true)],
            cut(1200, 1208, false),
        ),
        (
            "is behind the end",
            &[cut(0, 1200, true), cut(2000, 2104, false)],
            cut(2104, 2112, true),
        ),
        (
            "same, but the last",
            &[cut(0, 1200, true), cut(1200, 1304, true)],
            cut(1200, 1304, false),
        ),
    ];
    for v6 in [false, true] {
        for (what, before, bad) in cases {
            let mut bed = Bed::new();
            let talk = Talk {
                v6,
                ..Talk::new("a", "c")
            };
            let frame = packet(&bed, &talk, UDP, 5000);
            let sent = pieces(&frame, 1, before);
            let seen = arrived(&mut bed, "a", "c", &sent);
            assert_eq!(seen.len(), before.len(), "{what}");
            let bad = bed.send("a", &piece(&frame, 1, bad));
            assert_eq!(bad.reason(), Some(DropReason::Fragment), "{what}");
            for rest in [cut(3000, 3008, true), cut(0, 1200, true)] {
                let fate = bed.send("a", &piece(&frame, 1, rest));
                assert_eq!(fate.reason(), Some(DropReason::Fragment), "{what}");
            }
            // Another packet is not meant; and in time this one is forgotten.
            let other = pieces(&frame, 2, &evenly(&frame, 1200));
            assert_eq!(arrived(&mut bed, "a", "c", &other).len(), 5);
            bed.wait(REMEMBERED + 10 * MS);
            let again = pieces(&frame, 1, &evenly(&frame, 1200));
            assert_eq!(arrived(&mut bed, "a", "c", &again).len(), 5);
        }
    }
}

#[test]
fn an_overlap_among_what_waits_refuses_it_all() {
    let mut bed = Bed::new();
    let talk = Talk::new("a", "c");
    let frame = packet(&bed, &talk, UDP, 5000);
    for c in [cut(1200, 2400, true), cut(2400, 3600, true)] {
        let fate = bed.send("a", &piece(&frame, 1, c));
        assert_eq!(fate, Fate::Waits { node: 0 });
    }
    let bad = piece(&frame, 1, cut(2000, 2008, true));
    let refused = Some(DropReason::Fragment);
    assert_eq!(bed.send("a", &bad).reason(), refused);
    let fates: Vec<_> = bed.released.iter().map(Fate::reason).collect();
    assert_eq!(fates, [refused, refused]);
    let first = piece(&frame, 1, cut(0, 1200, true));
    assert_eq!(bed.send("a", &first).reason(), refused);
}

#[test]
fn duplicates_are_dropped_and_harm_nothing() {
    let mut bed = Bed::new();
    let talk = Talk::new("a", "c");
    let frame = packet(&bed, &talk, UDP, 3000);
    let sent = pieces(&frame, 1, &evenly(&frame, 1200));
    let order = [&sent[1], &sent[1], &sent[0], &sent[0], &sent[1], &sent[2]];
    let order = order.map(Clone::clone);
    assert_eq!(arrived(&mut bed, "a", "c", &order).len(), 3);
    let duplicates = bed.counters(0).dropped(DropReason::FragmentDuplicate);
    assert_eq!(duplicates, 3);
}

#[test]
fn first_pieces_have_their_whole_header_and_roce_has_none() {
    let tcp = Layer4::Tcp {
        sport: 40_000,
        dport: 80,
        flags: SYN,
        seq: 1,
        ack: 0,
    };
    let roce = Layer4::Udp {
        sport: 50_000,
        dport: 4791,
    };
    for v6 in [false, true] {
        let mut bed = Bed::new();
        let talk = Talk {
            v6,
            ..Talk::new("a", "c")
        };
        let cases = [
            (1, tcp, vec![cut(0, 8, true)]),
            (2, tcp, vec![cut(0, 16, true)]),
            (3, tcp, vec![cut(0, 24, true), cut(8, 16, true)]),
            (4, tcp, vec![cut(8, 16, true)]),
            (5, tcp, vec![cut(16, 24, true)]),
            (6, roce, vec![cut(0, 64, true)]),
            (7, roce, vec![cut(64, 128, true), cut(0, 64, true)]),
        ];
        for (id, l4, cuts) in cases {
            let frame = packet(&bed, &talk, l4, 1000);
            let sent = pieces(&frame, id, &cuts);
            let refused = Some(DropReason::Fragment);
            assert_eq!(reason(&mut bed, "a", &sent), refused, "{id}");
            for fate in bed.released.drain(..) {
                assert_eq!(fate.reason(), refused, "{id}");
            }
        }
        // The smallest that there may be.
        for (id, l4, first) in [(8, tcp, 24), (9, UDP, 8)] {
            let frame = packet(&bed, &talk, l4, 1000);
            let len = body(&frame).len();
            let sent = pieces(&frame, id, &[cut(0, first, true), cut(first, len, false)]);
            assert_eq!(arrived(&mut bed, "a", "c", &sent).len(), 2, "{id}");
        }
        // Pieces, and one too many.
        let frame = packet(&bed, &talk, UDP, 2000);
        let many: Vec<Cut> = (0..65).map(|i| cut(i * 8, i * 8 + 8, true)).collect();
        let sent = pieces(&frame, 10, &many);
        assert_eq!(reason(&mut bed, "a", &sent), Some(DropReason::Fragment));
    }
}

#[test]
fn a_first_piece_that_does_not_come_is_not_waited_for_long() {
    let mut bed = Bed::new();
    let talk = Talk::new("a", "c");
    let frame = packet(&bed, &talk, UDP, 3000);
    let sent = pieces(&frame, 1, &evenly(&frame, 1200));
    assert_eq!(bed.send("a", &sent[1]), Fate::Waits { node: 0 });
    bed.wait(900 * MS);
    assert_eq!(bed.send("a", &sent[2]), Fate::Waits { node: 0 });
    assert!(bed.released.is_empty());
    bed.wait(110 * MS);
    let late = Some(DropReason::FragmentTimeout);
    let fates: Vec<_> = bed.released.drain(..).map(|f| f.reason()).collect();
    assert_eq!(fates, [late, late]);
    // Then all of it comes again.
    assert_eq!(arrived(&mut bed, "a", "c", &sent).len(), 3);
    // And what has passed is remembered only so long.
    let again = pieces(&frame, 2, &evenly(&frame, 1200));
    assert_eq!(bed.send("a", &again[0]).at(), "c");
    bed.wait(REMEMBERED + 10 * MS);
    assert_eq!(bed.send("a", &again[1]), Fate::Waits { node: 0 });
}

#[test]
fn nothing_waits_that_may_not_come_from_there_or_go_there() {
    let mut bed = Bed::new();
    let talk = Talk::new("a", "c");
    let frame = packet(&bed, &talk, UDP, 3000);
    let at = evenly(&frame, 1200)[1];
    let mut spoofed = frame.clone();
    let b = bed.place("b").ip(false).v4_octets().expect("IPv4");
    spoofed[26..30].copy_from_slice(&b);
    let mut nowhere = frame.clone();
    nowhere[30..34].copy_from_slice(&[10, 0, 1, 99]);
    let mut to_gateway = frame.clone();
    let router = gateway(1, false).v4_octets().expect("IPv4");
    to_gateway[30..34].copy_from_slice(&router);
    let mut to_all = frame.clone();
    to_all[..6].copy_from_slice(&Mac::BROADCAST.0);
    for (frame, want) in [
        (spoofed, DropReason::Spoofed),
        (nowhere, DropReason::NoRoute),
        (to_gateway, DropReason::UnhandledControl),
        (to_all, DropReason::Multicast),
    ] {
        assert_eq!(bed.send("a", &piece(&frame, 1, at)).reason(), Some(want));
    }
    // From the wire: a source that lives elsewhere.
    let h = Headers {
        src: bed.place("d").ip(false),
        ..talk.headers(&bed, false, UDP)
    };
    let lie = piece(&build(&h, 3000), 1, at);
    let outer = crate::wire::from_node(0, &lie);
    let fate = bed.arrive(1, UPLINK, &outer);
    assert_eq!(fate.reason(), Some(DropReason::WrongVtep));
    assert_eq!(bed.counters(1).waiting, 0);
}

#[test]
fn pieces_that_do_not_fit_the_way() {
    for v6 in [false, true] {
        let mut bed = Bed::new();
        let talk = Talk {
            v6,
            ..Talk::new("a", "c")
        };
        let frame = packet(&bed, &talk, UDP, 5000);
        let (first, next) = (cut(0, 1480, true), cut(1480, 2960, true));
        // The sender is told about the first, and not of each.
        let sent = pieces(&frame, 1, &[next, first, cut(2960, 3000, true)]);
        assert_eq!(bed.send("a", &sent[0]), Fate::Waits { node: 0 });
        let told = bed.send("a", &sent[1]);
        assert_eq!(told.at(), "a", "{told:?}");
        assert_eq!(read(told.frame()).src, gateway(1, v6));
        let oversized = Some(DropReason::Oversized);
        assert_eq!(bed.released[0].reason(), oversized);
        assert_eq!(bed.send("a", &sent[2]).reason(), oversized);
        assert_eq!(bed.counters(0).connections.opened, 0);
        // A later one that is too large by itself.
        let sent = pieces(&frame, 2, &[cut(0, 1400, true), cut(1400, 2880, true)]);
        assert_eq!(bed.send("a", &sent[0]).at(), "c");
        assert_eq!(bed.send("a", &sent[1]).reason(), oversized);
    }
}

#[test]
fn one_sender_does_not_use_up_the_room_of_others() {
    let mut bed = Bed::with(
        Config {
            max_fragmented: 32,
            max_waiting_fragments: 16,
            ..config()
        },
        capacities(),
    );
    let (a, x) = (Talk::new("a", "c"), Talk::new("x", "y"));
    let flood = packet(&bed, &a, UDP, 3000);
    let honest = packet(&bed, &x, UDP, 3000);
    let cuts = evenly(&flood, 1200);
    let full = Some(DropReason::FragmentsFull);
    let mut refused = 0;
    for id in 0..1000_u32 {
        let fate = bed.send("a", &piece(&flood, id, cuts[1]));
        refused += u32::from(fate.reason() == full);
        assert!(bed.counters(0).waiting <= 4, "a quarter");
        if id % 10 == 0 {
            let seen: Vec<_> = [2, 1, 0].map(|i| piece(&honest, id, cuts[i])).to_vec();
            assert_eq!(arrived(&mut bed, "x", "y", &seen).len(), 3, "{id}");
        }
    }
    let of_flood = |f: &Fate| f.reason() == full;
    assert!(bed.released.iter().all(of_flood));
    assert!(refused > 0, "{refused}");
    bed.wait(SECOND);
    assert_eq!(bed.counters(0).waiting, 0);
}

#[test]
fn replies_and_pings_in_pieces() {
    for v6 in [false, true] {
        for b in ["b", "c"] {
            let mut bed = Bed::new();
            let talk = Talk {
                v6,
                ..Talk::new("a", b)
            };
            let ping = |reply| Layer4::Echo { id: 7, reply };
            for (l4, back) in [(UDP, BACK), (ping(false), ping(true))] {
                let there = packet(&bed, &talk, l4, 4000);
                let back = build(&talk.headers(&bed, true, back), 4000);
                for (id, (frame, from, to)) in (1..).zip([(there, "a", b), (back, b, "a")]) {
                    let sent = pieces(&frame, id, &evenly(&frame, 1400));
                    assert_eq!(arrived(&mut bed, from, to, &sent).len(), 3);
                }
            }
            // Both are in the NIC now, and pieces still pass.
            assert_eq!(bed.counters(0).offload.live, 2);
            let frame = packet(&bed, &talk, UDP, 4000);
            let sent = pieces(&frame, 9, &evenly(&frame, 1400));
            assert_eq!(arrived(&mut bed, "a", b, &sent).len(), 3);
        }
    }
}
