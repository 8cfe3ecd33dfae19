//! What must hold for any bytes at all. One body, two drivers: the property
//! tests here run it briefly, the fuzz targets run it for as long as one likes.
#![allow(
    clippy::panic,
    unreachable_pub,
    reason = "assertions, shared by two test programs"
)]

use penstock_flow::build::{self, IcmpErrorKind, NaFlags};
use penstock_flow::dhcp::{v4, v6};
use penstock_flow::packet::{
    self, ArpOp, Dhcp, IcmpError, Ip, Kind, L4, NdKind, Outer, Packet, verify_l4_checksum,
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

/// For what a port asks its gateway: a frame, or else a DHCP message by itself.
pub fn control(bytes: &[u8]) {
    if let Ok(packet) = packet::parse(bytes)
        && let Some(ip) = packet.ip()
    {
        match ip.l4_kind {
            L4::Dhcp(Dhcp::V4) => return answer_dhcp4(bytes, ip),
            L4::Dhcp(Dhcp::V6) => return answer_dhcp6(bytes, &packet, ip),
            _ => {}
        }
    }
    let message = bytes.get(..1400).unwrap_or(bytes);
    for v6 in [false, true] {
        let frame = asked(v6, message);
        let packet = packet::parse(&frame).expect("a good frame");
        let ip = packet.ip().expect("IP");
        if v6 {
            answer_dhcp6(&frame, &packet, ip);
        } else {
            answer_dhcp4(&frame, ip);
        }
    }
}

/// `message` from a DHCP client.
fn asked(v6: bool, message: &[u8]) -> Vec<u8> {
    let len = (message.len() + 8) as u16;
    let mut frame = [[0xff; 6], OWNER.0].concat();
    if v6 {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend(len.to_be_bytes());
        frame.extend([17, 1]);
        frame.extend((0xfe80_u128 << 112 | 1).to_be_bytes());
        frame.extend((0xff02_u128 << 112 | 0x1_0002).to_be_bytes());
        frame.extend([2, 0x22, 2, 0x23]);
    } else {
        let [l0, l1] = (len + 20).to_be_bytes();
        let mut ip = [
            0x45, 0, l0, l1, 0, 0, 0, 0, 64, 17, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255,
        ];
        let sum = penstock_flow::checksum::Sum::default().bytes(&ip).finish();
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        frame.extend([0x08, 0]);
        frame.extend(ip);
        frame.extend([0, 68, 0, 67]);
    }
    frame.extend(len.to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(message);
    frame
}

fn answer_dhcp4(frame: &[u8], ip: &Ip) {
    let Ok(message) = v4::parse(frame, ip) else {
        return;
    };
    assert_eq!(v4::parse(frame, ip), Ok(message));
    let (own, gateway) = (Addr::from_v4([10, 0, 0, 9]), Addr::from_v4([10, 0, 0, 1]));
    for say in [
        v4::Say::Offer(own),
        v4::Say::Ack(own),
        v4::Say::Informed,
        v4::Say::Nak,
    ] {
        for prefix_len in [0, 24, 32] {
            let network = v4::Network {
                gateway,
                gateway_mac: OWNER,
                prefix_len,
                mtu: 1500,
            };
            let mut out = [0xaa; 700];
            let len = v4::answer(&mut out, &message, say, &network).expect("room");
            let parsed = packet::parse(&out[..len]).expect("our own answer");
            let answer = parsed.ip().expect("IP");
            assert_eq!(answer.l4_kind, L4::Dhcp(Dhcp::Server));
            assert!(verify_l4_checksum(&out[..len], answer));
            assert!(v4::answer(&mut out[..len - 1], &message, say, &network).is_err());
            let identified = message
                .client
                .is_none_or(|id| out[..len].windows(id.len()).any(|at| at == id));
            assert!(identified);
        }
    }
}

fn answer_dhcp6(frame: &[u8], packet: &Packet, ip: &Ip) {
    let Ok(message) = v6::parse(frame, ip) else {
        return;
    };
    assert!(message.addresses().count() * 28 <= frame.len());
    let own = [Addr::from_v4([10, 0, 0, 9]), Addr(0xfd << 120 | 9)];
    let ends = v6::Ends {
        server_mac: OWNER,
        server: Addr(0xfe80 << 112 | 1),
        client_mac: packet.src_mac,
        client: ip.tuple.src,
    };
    let status = v6::Say::Status(v6::Status::Success);
    for say in [v6::Say::Advertise, v6::Say::Reply, status, v6::Say::Nothing] {
        // Each four bytes of a question cost few of an answer.
        let mut out = vec![0xaa; 400 + frame.len() * 4];
        let len = v6::answer(&mut out, &message, say, &ends, &own).expect("room");
        assert!(v6::answer(&mut out[..len - 1], &message, say, &ends, &own).is_err());
        let parsed = packet::parse(&out[..len]).expect("our own answer");
        let answer = parsed.ip().expect("IP");
        assert_eq!(answer.l4_kind, L4::Dhcp(Dhcp::Server));
        assert!(verify_l4_checksum(&out[..len], answer));
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
    if let L4::Fragment(piece) = ip.l4_kind {
        assert!(piece.len > 0 && (!piece.more || piece.len % 8 == 0));
        let first = packet::first_piece(frame, ip);
        assert!(piece.offset == 0 || first.is_err());
        if let Ok(first) = first {
            assert!(!matches!(first.l4_kind, L4::Fragment(_)));
            assert_eq!((first.tuple, first.end), (ip.tuple, ip.end));
        }
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
