//! The parser against another one, on valid packets and damaged ones.

use ::etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice, VlanSlice};
use penstock_flow::packet::{L4, Packet, parse, verify_l4_checksum};
use penstock_flow::{Addr, DropReason};
use proptest::prelude::*;

/// Headers that they look behind and we do not.
const AH: u8 = 51;
const MOBILITY: u8 = 135;
const HIP: u8 = 139;
const SHIM6: u8 = 140;

/// What both parsers know of a packet.
#[derive(Debug, PartialEq)]
struct View {
    vlan: u16,
    src: Addr,
    dst: Addr,
    proto: u8,
    ttl: u8,
    tos: u8,
    fragment: bool,
    /// Ports, then sequence, acknowledgement, window and flags of TCP.
    ports: Option<(u16, u16)>,
    tcp: Option<(u32, u32, u16, u8, usize)>,
}

fn theirs(frame: &[u8]) -> Option<View> {
    let sliced = SlicedPacket::from_ethernet(frame).ok()?;
    let vlan = match sliced.vlan() {
        Some(VlanSlice::SingleVlan(tag)) => tag.vlan_identifier().value(),
        Some(VlanSlice::DoubleVlan(_)) => return None,
        None => 0,
    };
    let (src, dst, proto, ttl, tos, fragment) = match sliced.net.as_ref()? {
        NetSlice::Ipv4(ip) => {
            let header = ip.header();
            let tos = header.dcp().value() << 2 | header.ecn().value();
            (
                Addr::from_v4(header.source()),
                Addr::from_v4(header.destination()),
                ip.payload_ip_number().0,
                header.ttl(),
                tos,
                ip.is_payload_fragmented(),
            )
        }
        NetSlice::Ipv6(ip) => (
            Addr::from_octets(ip.header().source()),
            Addr::from_octets(ip.header().destination()),
            ip.payload().ip_number.0,
            ip.header().hop_limit(),
            ip.header().traffic_class(),
            ip.is_payload_fragmented(),
        ),
        NetSlice::Arp(_) => return None,
    };
    let (mut ports, mut tcp) = (None, None);
    match sliced.transport {
        Some(TransportSlice::Udp(udp)) => {
            ports = Some((udp.source_port(), udp.destination_port()));
        }
        Some(TransportSlice::Tcp(t)) => {
            ports = Some((t.source_port(), t.destination_port()));
            let flags = t.header_slice()[13];
            tcp = Some((
                t.sequence_number(),
                t.acknowledgment_number(),
                t.window_size(),
                flags,
                t.payload().len(),
            ));
        }
        _ => {}
    }
    Some(View {
        vlan,
        src,
        dst,
        proto,
        ttl,
        tos,
        fragment,
        ports,
        tcp,
    })
}

fn ours(packet: &Packet) -> Option<View> {
    let ip = packet.ip()?;
    let tuple = ip.tuple;
    let fragment = matches!(ip.l4_kind, L4::Fragment(_));
    let with_ports = !fragment && matches!(tuple.proto, 6 | 17);
    Some(View {
        vlan: packet.vlan,
        src: tuple.src,
        dst: tuple.dst,
        proto: tuple.proto,
        ttl: ip.ttl,
        tos: ip.tos,
        fragment,
        ports: with_ports.then_some((tuple.sport, tuple.dport)),
        tcp: match ip.l4_kind {
            L4::Tcp(t) => Some((t.seq, t.ack, t.window, t.flags, t.payload_len.into())),
            _ => None,
        },
    })
}

#[derive(Clone, Debug)]
struct Spec {
    vlan: Option<u16>,
    v6: bool,
    addresses: ([u8; 16], [u8; 16]),
    ttl: u8,
    transport: u8,
    ports: (u16, u16),
    numbers: (u32, u32, u16),
    flags: u8,
    payload: Vec<u8>,
}

prop_compose! {
    fn spec()(
        vlan in proptest::option::of(0_u16..0xfff),
        v6 in any::<bool>(),
        addresses in any::<([u8; 16], [u8; 16])>(),
        ttl in any::<u8>(),
        transport in 0_u8..3,
        ports in any::<(u16, u16)>(),
        numbers in any::<(u32, u32, u16)>(),
        flags in any::<u8>(),
        payload in proptest::collection::vec(any::<u8>(), 0..100),
    ) -> Spec {
        Spec { vlan, v6, addresses, ttl, transport, ports, numbers, flags, payload }
    }
}

fn frame(spec: &Spec) -> Vec<u8> {
    let ethernet = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let (src, dst) = spec.addresses;
    let four = |a: [u8; 16]| [a[0], a[1], a[2], a[3]];
    let vlan = |id: u16| id.try_into().expect("12 bits");
    let ip = match (spec.vlan, spec.v6) {
        (None, false) => ethernet.ipv4(four(src), four(dst), spec.ttl),
        (None, true) => ethernet.ipv6(src, dst, spec.ttl),
        (Some(id), false) => {
            let tagged = ethernet.single_vlan(vlan(id));
            tagged.ipv4(four(src), four(dst), spec.ttl)
        }
        (Some(id), true) => {
            let tagged = ethernet.single_vlan(vlan(id));
            tagged.ipv6(src, dst, spec.ttl)
        }
    };
    let mut bytes = Vec::new();
    let (sport, dport) = spec.ports;
    let (seq, ack, window) = spec.numbers;
    let written = match spec.transport {
        0 => {
            let mut tcp = ip.tcp(sport, dport, seq, window);
            tcp = if spec.flags & 1 != 0 { tcp.fin() } else { tcp };
            tcp = if spec.flags & 2 != 0 { tcp.syn() } else { tcp };
            tcp = if spec.flags & 4 != 0 { tcp.rst() } else { tcp };
            tcp = if spec.flags & 16 != 0 {
                tcp.ack(ack)
            } else {
                tcp
            };
            tcp.write(&mut bytes, &spec.payload)
        }
        1 => ip.udp(sport, dport).write(&mut bytes, &spec.payload),
        _ if spec.v6 => ip
            .icmpv6_echo_request(sport, dport)
            .write(&mut bytes, &spec.payload),
        _ => ip
            .icmpv4_echo_request(sport, dport)
            .write(&mut bytes, &spec.payload),
    };
    written.expect("a packet");
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn valid_packets(spec in spec()) {
        let frame = frame(&spec);
        let packet = parse(&frame).expect("a valid packet");
        prop_assert_eq!(ours(&packet), theirs(&frame));
        let ip = packet.ip().expect("IP");
        prop_assert!(verify_l4_checksum(&frame, ip));
        if spec.transport == 2 {
            prop_assert_eq!(ip.l4_kind, L4::Echo);
            prop_assert_eq!(ip.tuple.sport, spec.ports.0);
        }
        // Any single wrong byte behind the header is seen by the checksum.
        for at in usize::from(ip.l4)..usize::from(ip.end) {
            let mut damaged = frame.clone();
            damaged[at] ^= 0x10;
            let seen = !verify_l4_checksum(&damaged, ip);
            // UDP: checksum 0 means none, and the length says what is summed.
            prop_assert!(seen || ip.tuple.proto == 17, "{}", at);
        }
    }

    /// What we accept they accept, and both see the same.
    #[test]
    fn damaged_packets(
        spec in spec(),
        damage in proptest::collection::vec((0_usize..60, any::<u8>()), 1..4),
    ) {
        let mut frame = frame(&spec);
        for (at, value) in damage {
            let at = at.min(frame.len() - 1);
            frame[at] = value;
        }
        match parse(&frame) {
            // To us these are protocols: policy sees their own number.
            Ok(packet) if packet.ip().is_some_and(|ip| {
                matches!(ip.tuple.proto, AH | MOBILITY | HIP | SHIM6)
            }) => {}
            Ok(packet) if packet.ip().is_some() => {
                let (ours, theirs) = (ours(&packet), theirs(&frame));
                // They know the lengths of ICMP messages that we do not read.
                let icmp = ours.as_ref().is_some_and(|v| matches!(v.proto, 1 | 58));
                prop_assert!(ours == theirs || icmp && theirs.is_none(), "{:?}", packet);
            }
            // The other way round we refuse more, but never for lack of bytes
            // where they found enough. They do not know what ICMP quotes or how
            // long SCTP is, and take an IPv6 length of 0 for "all there is".
            Err(DropReason::Truncated) => {
                let theirs = theirs(&frame);
                let lenient = theirs.as_ref().is_none_or(|v| matches!(v.proto, 1 | 58 | 132));
                let l3 = if spec.vlan.is_some() { 18 } else { 14 };
                let jumbo = spec.v6 && frame[l3 + 4..l3 + 6] == [0, 0];
                prop_assert!(theirs.is_none() || lenient || jumbo, "{:?}", theirs);
            }
            _ => {}
        }
    }
}
