//! What must hold for any bytes at all. One body, two drivers: the property
//! tests here run it briefly, the fuzz targets run it for as long as one likes.
#![allow(
    clippy::panic,
    unreachable_pub,
    reason = "assertions, shared by two test programs"
)]

use penstock_flow::build::{self, IcmpErrorKind, NaFlags};
use penstock_flow::packet::{
    self, ArpOp, IcmpError, Ip, Kind, L4, NdKind, Outer, Packet, verify_l4_checksum,
};
use penstock_flow::{Addr, DropReason, Key, Mac};

const OWNER: Mac = Mac([2, 0, 0, 0, 0, 0x99]);

/// For [`packet::parse`].
pub fn parse(frame: &[u8]) {
    let result = packet::parse(frame);
    let Ok(parsed) = result else { return };
    // Deterministic, and blind to what follows the packet.
    assert_eq!(packet::parse(frame), Ok(parsed));
    assert!(!parsed.src_mac.is_multicast());
    assert!(parsed.vlan < 0xfff);
    assert!(matches!(parsed.l3, 14 | 18));
    match parsed.kind {
        Kind::Arp(arp) => {
            assert!(arp.sender_ip.is_v4() && arp.target_ip.is_v4());
            answer_arp(frame, &parsed, arp.op);
        }
        Kind::Ip(ip) => ip_packet(frame, &parsed, &ip),
    }
}

/// For [`packet::parse_outer`].
pub fn parse_outer(frame: &[u8]) {
    match packet::parse_outer(frame) {
        Ok(Outer::Vxlan(tunnel)) => {
            assert!(tunnel.vni < 1 << 24);
            assert!(tunnel.inner <= tunnel.end);
            assert!(usize::from(tunnel.end) <= frame.len());
            assert_eq!(tunnel.src_vtep.is_v4(), tunnel.dst_vtep.is_v4());
            parse(&frame[usize::from(tunnel.inner)..usize::from(tunnel.end)]);
        }
        Ok(Outer::Neighbour(packet) | Outer::Other(packet)) => {
            assert_eq!(packet::parse(frame), Ok(packet));
        }
        Err(DropReason::Fragment) => assert!(packet::parse(frame).is_ok()),
        Err(_) => {}
    }
}

fn ip_packet(frame: &[u8], parsed: &Packet, ip: &Ip) {
    let header = if ip.v6 { 40 } else { 20 };
    assert!(parsed.l3 + header <= ip.l4);
    assert!(ip.l4 <= ip.end);
    assert!(usize::from(ip.end) <= frame.len());
    assert_eq!(ip.options, ip.l4 != parsed.l3 + header);
    assert_eq!(ip.tuple.src.is_v4(), !ip.v6);
    assert_eq!(ip.tuple.dst.is_v4(), !ip.v6);
    // Padding does not matter.
    assert_eq!(packet::parse(&frame[..usize::from(ip.end)]), Ok(*parsed));

    let (key, orientation) = Key::new(1, &ip.tuple);
    assert_eq!(key.tuple(orientation), ip.tuple);
    if let Some(reply) = ip.tuple.reply() {
        assert_eq!(Key::new(1, &reply).0, key);
    }
    let checksum = verify_l4_checksum(frame, ip);
    if let L4::Neighbour(nd) = ip.l4_kind {
        assert!(checksum);
        answer_nd(frame, parsed, nd.kind);
    }
    forward(frame, parsed, ip);
    report(frame, parsed, ip);
}

fn answer_arp(frame: &[u8], parsed: &Packet, op: ArpOp) {
    let mut reply = frame.to_vec();
    let built = build::arp_reply(&mut reply, parsed, OWNER);
    assert_eq!(built.is_ok(), op == ArpOp::Request);
    let Ok(len) = built else {
        assert_eq!(reply, frame, "nothing is written on failure");
        return;
    };
    let answer = packet::parse(&reply[..len]).expect("our own reply");
    assert_eq!((answer.src_mac, answer.dst_mac), (OWNER, parsed.src_mac));
    let (Kind::Arp(asked), Kind::Arp(said)) = (parsed.kind, answer.kind) else {
        panic!("not ARP: {answer:?}");
    };
    assert_eq!(said.op, ArpOp::Reply);
    assert_eq!((said.sender_ip, said.sender_mac), (asked.target_ip, OWNER));
    assert_eq!(
        (said.target_ip, said.target_mac),
        (asked.sender_ip, asked.sender_mac)
    );
}

fn answer_nd(frame: &[u8], parsed: &Packet, kind: NdKind) {
    let mut buffer = frame.to_vec();
    buffer.resize(frame.len().max(90), 0xaa);
    let flags = NaFlags {
        router: true,
        override_cached: true,
    };
    let built = build::neighbour_advertisement(&mut buffer, parsed, OWNER, flags);
    assert_eq!(built.is_ok(), kind == NdKind::NeighbourSolicitation);
    let Ok(len) = built else { return };
    // The asker's address may be one nobody can answer to; then so be it.
    let asker = parsed.ip().map(|ip| ip.tuple.src);
    if asker.is_some_and(Addr::is_multicast) {
        return;
    }
    let answer = packet::parse(&buffer[..len]).expect("our own advertisement");
    let L4::Neighbour(said) = answer.ip().expect("IP").l4_kind else {
        panic!("not ND: {answer:?}");
    };
    assert_eq!(said.kind, NdKind::NeighbourAdvertisement);
    assert_eq!(said.target_mac, Some(OWNER));
}

/// One hop: only TTL and checksum change, and the checksum stays right.
fn forward(frame: &[u8], parsed: &Packet, ip: &Ip) {
    let mut forwarded = frame.to_vec();
    match build::decrement_ttl(&mut forwarded, parsed) {
        Ok(()) => {
            let after = packet::parse(&forwarded).map(|p| p.kind);
            let want = Ip {
                ttl: ip.ttl - 1,
                ..*ip
            };
            match ip.l4_kind {
                // Neighbour discovery must not be forwarded.
                L4::Neighbour(_) => assert_eq!(after, Err(DropReason::Malformed)),
                _ => assert_eq!(after, Ok(Kind::Ip(want))),
            }
        }
        Err(reason) => {
            assert_eq!((reason, ip.ttl <= 1), (DropReason::TtlExceeded, true));
            assert_eq!(forwarded, frame);
        }
    }
}

/// An error about the packet leads back to the packet.
fn report(frame: &[u8], parsed: &Packet, ip: &Ip) {
    let gateway = if ip.v6 {
        Addr(0xfe80_u128 << 112 | 1)
    } else {
        Addr::from_v4([169, 254, 0, 1])
    };
    let mut out = [0; 1294];
    let kind = IcmpErrorKind::TooBig { mtu: 1400 };
    let Ok(len) = build::icmp_error(&mut out, frame, parsed, kind, gateway, OWNER) else {
        return;
    };
    let error = packet::parse(&out[..len]);
    // Eight bytes of transport are always quoted; an IPv6 packet whose
    // extension headers fill the quotation has none.
    let Ok(error) = error else {
        assert!(ip.options, "{error:?} about {parsed:?}");
        return;
    };
    let error = error.ip().expect("IP");
    assert!(verify_l4_checksum(&out[..len], error));
    assert_eq!(error.tuple.dst, ip.tuple.src);
    let L4::IcmpError(IcmpError { inner, mtu }) = error.l4_kind else {
        panic!("not an error: {error:?}");
    };
    assert_eq!(mtu, 1400);
    assert_eq!(inner, ip.tuple);
}
