//! ICMP errors that others send: who gets them, and who does not.

use etherparse::PacketBuilder;
use penstock_flow::{DropReason, checksum};

use crate::bed::frames::{Headers, Layer4, SYN, build};
use crate::bed::pieces::{Cut, evenly, piece};
use crate::bed::talk::Talk;
use crate::bed::world::{BLUE, UPLINK, group, put_group};
use crate::bed::{Bed, Fate, SECOND};

const UDP: Layer4 = Layer4::Udp {
    sport: 40_000,
    dport: 80,
};

/// Type, code, and the last field of the header.
type Message = (u8, u8, u16);

/// An error from one port to another that quotes the first `len` bytes of a packet.
pub(crate) fn error(
    bed: &Bed,
    from: &str,
    to: &str,
    v6: bool,
    (kind, code, field): Message,
    quoted: &[u8],
    len: usize,
) -> Vec<u8> {
    let (from, to) = (bed.place(from), bed.place(to));
    let mut quote = quoted.to_vec();
    quote.resize(len, 0);
    let [hi, lo] = field.to_be_bytes();
    let rest = [0, 0, hi, lo];
    let near = from.subnet == to.subnet;
    let mac = if near {
        to.mac
    } else {
        penstock_flow::Mac::GATEWAY
    };
    let ether = PacketBuilder::ethernet2(from.mac.0, mac.0);
    let mut out = Vec::new();
    let (src, dst) = (from.ip(v6), to.ip(v6));
    match (src.v4_octets(), dst.v4_octets()) {
        (Some(src), Some(dst)) => ether
            .ipv4(src, dst, 64)
            .icmpv4_raw(kind, code, rest)
            .write(&mut out, &quote),
        _ => ether
            .ipv6(src.octets(), dst.octets(), 64)
            .icmpv6_raw(kind, code, rest)
            .write(&mut out, &quote),
    }
    .expect("writes");
    if from.vlan != 0 {
        let [hi, lo] = from.vlan.to_be_bytes();
        out.splice(12..12, [0x81, 0, hi, lo]);
    }
    out
}

/// Replaces the IPv4 source of an untagged frame.
pub(crate) fn set_source(frame: &mut [u8], to: [u8; 4]) {
    frame[26..30].copy_from_slice(&to);
    frame[24..26].fill(0);
    let sum = checksum::Sum::default().bytes(&frame[14..34]).finish();
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
}

const V4: [Message; 6] = [
    (3, 1, 0),
    (3, 3, 0),
    (3, 4, 1200),
    (3, 13, 0),
    (11, 0, 0),
    (12, 0, 0),
];
const V6: [Message; 4] = [(1, 4, 0), (2, 0, 1280), (3, 0, 0), (4, 1, 0)];

fn messages(v6: bool) -> &'static [Message] {
    if v6 { &V6 } else { &V4 }
}

fn tcp_syn() -> Layer4 {
    Layer4::Tcp {
        sport: 40_000,
        dport: 80,
        flags: SYN,
        seq: 1,
        ack: 0,
    }
}

#[test]
fn every_error_about_every_kind_of_flow_that_is_known() {
    let ping = Layer4::Echo {
        id: 7,
        reply: false,
    };
    for (a, b) in [("a", "b"), ("a", "c"), ("b", "d"), ("x", "y")] {
        for v6 in [false, true] {
            for l4 in [UDP, tcp_syn(), ping] {
                let mut bed = Bed::new();
                let talk = Talk {
                    v6,
                    ..Talk::new(a, b)
                };
                let h = talk.headers(&bed, false, l4);
                let frame = build(&h, 64);
                let l3 = if h.vlan == 0 { 14 } else { 18 };
                let quoted = &frame[l3..];
                for message in messages(v6) {
                    let report = error(&bed, b, a, v6, *message, quoted, 100);
                    let early = bed.send(b, &report).reason();
                    assert_eq!(early, Some(DropReason::UnrelatedError), "{message:?}");
                }
                assert_eq!(bed.send(a, &frame).at(), b);
                // As little as RFC 792 promises, or all.
                let least = if v6 { 48 } else { 28 };
                for message in messages(v6) {
                    for len in [least, quoted.len()] {
                        let report = error(&bed, b, a, v6, *message, quoted, len);
                        let fate = bed.send(b, &report);
                        assert_eq!(fate.at(), a, "{talk:?} {l4:?} {message:?} {fate:?}");
                    }
                }
                // They belong to the flow and open nothing.
                let ends = if bed.place(a).node == bed.place(b).node {
                    2
                } else {
                    1
                };
                assert_eq!(bed.counters(0).connections.opened, ends);
            }
        }
    }
}

#[test]
fn errors_about_a_flow_in_the_nic_and_about_answers() {
    for v6 in [false, true] {
        let mut bed = Bed::new();
        let talk = Talk {
            v6,
            ..Talk::new("a", "c")
        };
        for back in [false, true, false, true] {
            talk.udp(&mut bed, back);
        }
        assert_eq!(bed.counters(0).offload.live, 1);
        let there = build(&talk.headers(&bed, false, UDP), 64);
        let answer = Layer4::Udp {
            sport: 80,
            dport: 40_000,
        };
        let back = build(&talk.headers(&bed, true, answer), 64);
        for (from, to, sent) in [("c", "a", &there), ("a", "c", &back)] {
            for message in messages(v6) {
                let report = error(&bed, from, to, v6, *message, &sent[14..], 80);
                assert_eq!(bed.send(from, &report).at(), to, "{message:?}");
            }
        }
        assert_eq!(bed.counters(0).offload.live, 1);
    }
}

#[test]
fn errors_about_flows_that_are_over_or_forbidden() {
    let mut bed = Bed::new();
    let talk = Talk::new("a", "c");
    let sent = talk.udp(&mut bed, false).frame().to_vec();
    let report = error(&bed, "c", "a", false, (3, 4, 1200), &sent[14..], 28);
    assert_eq!(bed.send("c", &report).at(), "a");
    bed.change(|node, policy| {
        if node == 0 {
            put_group(policy, 7, group(BLUE, false, true, vec![]));
            policy.ports.get_mut(&1).expect("a").groups = vec![7];
        }
    });
    let fate = bed.send("c", &report);
    assert_eq!(fate.reason(), Some(DropReason::DeniedEgress), "revoked");
    let fate = bed.send("c", &report);
    assert_eq!(fate.reason(), Some(DropReason::UnrelatedError), "gone");

    let mut bed = Bed::new();
    talk.udp(&mut bed, false);
    bed.wait(200 * SECOND);
    assert_eq!(bed.counters(0).connections.live, 0);
    let fate = bed.send("c", &report);
    assert_eq!(fate.reason(), Some(DropReason::UnrelatedError), "silent");
}

#[test]
fn redirects_and_what_quotes_nonsense_are_no_errors_of_a_flow() {
    let mut bed = Bed::new();
    let talk = Talk::new("a", "c");
    let sent = talk.udp(&mut bed, false).frame().to_vec();
    // A redirect is a message of its own, which policy may let through; here the
    // quoted flow must not let it pass.
    bed.change(|node, policy| {
        if node == 0 {
            put_group(policy, 7, group(BLUE, true, false, vec![]));
            policy.ports.get_mut(&1).expect("a").groups = vec![7];
        }
    });
    let redirect = error(&bed, "c", "a", false, (5, 1, 0), &sent[14..], 28);
    let fate = bed.send("c", &redirect);
    assert_eq!(fate.reason(), Some(DropReason::DeniedIngress));
    let good = error(&bed, "c", "a", false, (3, 3, 0), &sent[14..], 28);
    assert_eq!(bed.send("c", &good).at(), "a");
    for len in [0, 19, 20, 23] {
        let short = error(&bed, "c", "a", false, (3, 3, 0), &sent[14..14 + len], len);
        let fate = bed.send("c", &short);
        assert_eq!(fate.reason(), Some(DropReason::Truncated), "{len}");
    }
}

#[test]
fn errors_about_fragments() {
    for v6 in [false, true] {
        let mut bed = Bed::new();
        let talk = Talk {
            v6,
            ..Talk::new("a", "c")
        };
        let frame = build(&talk.headers(&bed, false, UDP), 3000);
        let cuts: Vec<Cut> = evenly(&frame, 1200);
        let sent: Vec<_> = cuts.iter().map(|c| piece(&frame, 7, *c)).collect();
        for frame in &sent {
            assert_eq!(bed.send("a", frame).at(), "c");
        }
        let message = messages(v6)[2];
        // The first names its flow. The others do not: nobody tells with errors about
        // them whose they are.
        let first = error(&bed, "c", "a", v6, message, &sent[0][14..], 100);
        assert_eq!(bed.send("c", &first).at(), "a");
        let later = error(&bed, "c", "a", v6, message, &sent[1][14..], 100);
        let fate = bed.send("c", &later);
        assert_eq!(fate.reason(), Some(DropReason::UnrelatedError));
        // And no error comes in fragments.
        let parts = evenly(&first, 48);
        let fate = bed.send("c", &piece(&first, 8, parts[0]));
        assert_eq!(fate.reason(), Some(DropReason::Fragment));
    }
}

#[test]
fn no_error_goes_back_to_the_wire_or_to_another_tenant() {
    let mut bed = Bed::new();
    let talk = Talk::new("a", "c");
    let sent = talk.udp(&mut bed, false).frame().to_vec();
    // Out of the tunnel, for a port that lives behind one.
    let report = error(&bed, "d", "c", false, (3, 4, 1200), &sent[14..], 28);
    let outer = crate::wire::from_node(1, &report);
    let fate = bed.arrive(0, UPLINK, &outer);
    assert_eq!(fate.reason(), Some(DropReason::Reflected));
    // The same addresses of another tenant: it has no such flow.
    let other = error(&bed, "y", "x", false, (3, 4, 1200), &sent[14..], 28);
    let fate = bed.send("y", &other);
    assert_eq!(fate.reason(), Some(DropReason::UnrelatedError));
    // A third port has nothing to say about it, under its own name or another's.
    let third = error(&bed, "d", "a", false, (3, 4, 1200), &sent[14..], 28);
    let fate = bed.send("d", &third);
    assert_eq!(fate.reason(), Some(DropReason::UnrelatedError));
    let h = Headers {
        src: bed.place("b").ip(false),
        ..talk.headers(&bed, true, UDP)
    };
    let mut forged = error(&bed, "c", "a", false, (3, 4, 1200), &sent[14..], 28);
    set_source(&mut forged, h.src.v4_octets().expect("IPv4"));
    let fate = bed.arrive(0, UPLINK, &crate::wire::from_node(1, &forged));
    assert_eq!(
        fate,
        Fate::Dropped {
            node: 0,
            reason: DropReason::WrongVtep
        }
    );
}
