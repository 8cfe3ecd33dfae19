//! TCP resets, built from segments that another library writes.

use ::etherparse::PacketBuilder;
use penstock_flow::Mac;
use penstock_flow::build::{BuildError, tcp_reset};
use penstock_flow::packet::{L4, parse, tcp_flags, verify_l4_checksum};

const GATEWAY: Mac = Mac([2, 0, 0x5e, 0, 0, 1]);
const SEQ: u32 = u32::MAX - 1;

/// SYN, FIN, RST, ACK's number.
type Flags = (bool, bool, bool, Option<u32>);
/// Sequence number, acknowledgement number, whether it counts.
type Answer = (u32, u32, bool);

/// A segment from port 4000 to port 80.
fn segment(v6: bool, flags: Flags, payload: &[u8]) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let builder = if v6 {
        builder.ipv6([0xfd; 16], [0xfc; 16], 9)
    } else {
        builder.ipv4([10, 0, 0, 1], [10, 0, 0, 2], 9)
    };
    let (syn, fin, rst, ack) = flags;
    let mut tcp = builder.tcp(4000, 80, SEQ, 1000);
    tcp = if syn { tcp.syn() } else { tcp };
    tcp = if fin { tcp.fin() } else { tcp };
    tcp = if rst { tcp.rst() } else { tcp };
    tcp = match ack {
        Some(number) => tcp.ack(number),
        None => tcp,
    };
    let mut frame = Vec::new();
    tcp.write(&mut frame, payload).expect("room");
    frame
}

/// RFC 9293, section 3.10.7.1: with ACK the reset takes its number and says no more;
/// without, it acknowledges everything, a SYN or FIN being one byte long.
#[test]
fn a_segment_gets_the_reset_of_a_closed_port() {
    let cases: [(Flags, &[u8], Answer); 6] = [
        (
            (true, false, false, None),
            b"",
            (0, SEQ.wrapping_add(1), true),
        ),
        (
            (true, false, false, None),
            b"fast open",
            (0, SEQ.wrapping_add(10), true),
        ),
        ((true, false, false, Some(77)), b"", (77, 0, false)),
        ((false, false, false, Some(5)), b"data", (5, 0, false)),
        (
            (false, true, false, None),
            b"xy",
            (0, SEQ.wrapping_add(3), true),
        ),
        ((false, false, false, None), b"", (0, SEQ, true)),
    ];
    for v6 in [false, true] {
        for (flags, payload, (seq, ack, acks)) in cases {
            let frame = segment(v6, flags, payload);
            let packet = parse(&frame).expect("a segment");
            let mut out = [0xee; 80];
            let len = tcp_reset(&mut out, &packet, GATEWAY).expect("a reset");
            let reset = parse(&out[..len]).expect("a packet");
            let ip = reset.ip().expect("IP");
            assert!(verify_l4_checksum(&out[..len], ip), "{flags:?}");
            assert_eq!((reset.src_mac, reset.dst_mac), (GATEWAY, packet.src_mac));
            let asked = packet.ip().expect("IP").tuple;
            assert_eq!(Some(ip.tuple), asked.reply());
            let L4::Tcp(tcp) = ip.l4_kind else {
                panic!("not TCP: {reset:?}");
            };
            assert_eq!(
                (tcp.seq, tcp.ack, tcp.payload_len),
                (seq, ack, 0),
                "{flags:?}"
            );
            let want = tcp_flags::RST | if acks { tcp_flags::ACK } else { 0 };
            assert_eq!(tcp.flags, want, "{flags:?}");
            // The other library agrees that it is one.
            let theirs = ::etherparse::SlicedPacket::from_ethernet(&out[..len]).expect("valid");
            assert!(matches!(
                theirs.transport,
                Some(::etherparse::TransportSlice::Tcp(t)) if t.rst() && t.ack() == acks
            ));
        }
    }
}

#[test]
fn what_is_never_answered() {
    let mut out = [0; 80];
    let rst = segment(false, (false, false, true, Some(1)), b"");
    let mut many = segment(false, (true, false, false, None), b"");
    many[0] = 1;
    let udp = {
        let mut frame = Vec::new();
        PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
            .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 9)
            .udp(1, 2)
            .write(&mut frame, b"")
            .expect("room");
        frame
    };
    for frame in [rst, many, udp] {
        let packet = parse(&frame).expect("a packet");
        let answer = tcp_reset(&mut out, &packet, GATEWAY);
        assert_eq!(answer, Err(BuildError::WrongPacket));
    }
    let syn = segment(true, (true, false, false, None), b"");
    let packet = parse(&syn).expect("a packet");
    let answer = tcp_reset(&mut out[..73], &packet, GATEWAY);
    assert_eq!(answer, Err(BuildError::NoRoom { need: 74, have: 73 }));
}
