//! The writers, read back.

use penstock_flow::build::*;
use penstock_flow::packet::{ArpOp, IcmpError, Kind, L4, NdKind, parse, verify_l4_checksum};
use penstock_flow::{Addr, DropReason, Mac};

use super::frames::*;

const OWNER: Mac = Mac([2, 0, 0, 0, 0, 0x99]);
const FLAGS: NaFlags = NaFlags {
    router: true,
    override_cached: true,
};

#[test]
fn an_arp_request_becomes_its_reply() {
    for mut frame in [arp(1, A4, B4), tagged(9, 0x0806, &arp(1, A4, B4)[14..])] {
        let request = parse(&frame).expect("ARP");
        let len = arp_reply(&mut frame, &request, OWNER).expect("a request");
        assert_eq!(len, frame.len());
        let reply = parse(&frame).expect("ARP");
        let Kind::Arp(said) = reply.kind else {
            panic!("not ARP");
        };
        assert_eq!((reply.src_mac, reply.dst_mac), (OWNER, request.src_mac));
        assert_eq!((said.op, reply.vlan), (ArpOp::Reply, request.vlan));
        assert_eq!(
            (said.sender_mac, said.sender_ip),
            (OWNER, Addr::from_v4(B4))
        );
        assert_eq!(
            (said.target_mac, said.target_ip),
            (request.src_mac, Addr::from_v4(A4))
        );
        // A reply is not answered.
        let again = arp_reply(&mut frame, &reply, OWNER);
        assert_eq!(again, Err(BuildError::WrongPacket));
    }
}

#[test]
fn arp_requests() {
    let (a, b) = (Addr::from_v4(A4), Addr::from_v4(B4));
    for (to, want) in [(None, Mac::BROADCAST), (Some(Mac([4; 6])), Mac([4; 6]))] {
        let mut out = [0xee; 64];
        let len = arp_request(&mut out, OWNER, a, b, to).expect("room");
        assert_eq!(len, 42);
        let p = parse(&out[..len]).expect("ARP");
        let Kind::Arp(asked) = p.kind else {
            panic!("not ARP");
        };
        assert_eq!(
            (p.src_mac, p.dst_mac, asked.op),
            (OWNER, want, ArpOp::Request)
        );
        assert_eq!((asked.sender_mac, asked.sender_ip), (OWNER, a));
        assert_eq!((asked.target_mac, asked.target_ip), (Mac([0; 6]), b));
    }
    let room = arp_request(&mut [0; 41], OWNER, a, b, None);
    assert_eq!(room, Err(BuildError::NoRoom { need: 42, have: 41 }));
    let family = arp_request(&mut [0; 64], OWNER, a, Addr::from_octets(B6), None);
    assert_eq!(family, Err(BuildError::MixedFamilies));
}

fn nd(frame: &[u8]) -> (penstock_flow::packet::Packet, penstock_flow::packet::Nd) {
    let p = parse(frame).expect("ND");
    match p.ip().expect("IP").l4_kind {
        L4::Neighbour(nd) => (p, nd),
        other => panic!("not ND: {other:?}"),
    }
}

#[test]
fn a_solicitation_is_written_and_becomes_its_advertisement() {
    let (a, b) = (Addr::from_octets(A6), Addr::from_octets(B6));
    let from = Mac([2, 0, 0, 0, 0, 1]);
    let group = Mac([0x33, 0x33, 0xff, 0, 0, 2]);
    for (to, want) in [(None, group), (Some(Mac([4; 6])), Mac([4; 6]))] {
        let mut buffer = [0xee; 90];
        let len = neighbour_solicitation(&mut buffer, from, a, b, to).expect("room");
        assert_eq!(len, 86);
        let (asked, solicitation) = nd(&buffer[..len]);
        assert_eq!(
            (asked.dst_mac, solicitation.kind),
            (want, NdKind::NeighbourSolicitation)
        );
        assert_eq!(
            (solicitation.target, solicitation.source_mac),
            (b, Some(from))
        );

        let len = neighbour_advertisement(&mut buffer, &asked, OWNER, FLAGS).expect("room");
        assert_eq!(len, 86);
        let (said, advertisement) = nd(&buffer[..len]);
        assert_eq!((said.src_mac, said.dst_mac), (OWNER, from));
        let tuple = said.ip().expect("IP").tuple;
        assert_eq!((tuple.src, tuple.dst), (b, a));
        assert_eq!(advertisement.kind, NdKind::NeighbourAdvertisement);
        assert_eq!(
            (advertisement.target, advertisement.target_mac),
            (b, Some(OWNER))
        );
        assert_eq!(advertisement.flags, 0xe0);
    }
    let family = neighbour_solicitation(&mut [0; 90], from, a, Addr::from_v4(B4), None);
    assert_eq!(family, Err(BuildError::MixedFamilies));
}

#[test]
fn duplicate_address_detection_is_answered_to_all() {
    let mut solicited = [0; 16];
    (solicited[0], solicited[1], solicited[11]) = (0xff, 2, 1);
    (solicited[12], solicited[15]) = (0xff, 2);
    let probe = Icmp6 {
        kind: 135,
        code: 0,
        hops: 255,
        src: [0; 16],
        dst: solicited,
        body: &cat(&[&[0; 4], &B6]),
    }
    .frame();
    let request = parse(&probe).expect("a probe");
    let mut buffer = probe.clone();
    let room = neighbour_advertisement(&mut buffer, &request, OWNER, FLAGS);
    assert_eq!(room, Err(BuildError::NoRoom { need: 86, have: 78 }));
    assert_eq!(buffer, probe);
    buffer.resize(86, 0);
    let len = neighbour_advertisement(&mut buffer, &request, OWNER, FLAGS).expect("room");
    let (said, advertisement) = nd(&buffer[..len]);
    assert_eq!(said.dst_mac, Mac([0x33, 0x33, 0, 0, 0, 1]));
    assert_eq!(advertisement.flags, 0xa0, "not solicited");
    let all_nodes = "ff02::1".parse::<std::net::IpAddr>().expect("an address");
    assert_eq!(said.ip().expect("IP").tuple.dst, all_nodes.into());
}

#[test]
fn an_unsolicited_advertisement() {
    let b = Addr::from_octets(B6);
    let mut out = [0; 86];
    let len = unsolicited_advertisement(&mut out, OWNER, b, FLAGS).expect("room");
    let (said, advertisement) = nd(&out[..len]);
    assert_eq!((said.src_mac, advertisement.target), (OWNER, b));
    assert_eq!(
        (advertisement.flags, advertisement.target_mac),
        (0xa0, Some(OWNER))
    );
}

#[test]
fn macs_and_ttl() {
    let mut frame = v4(17, &udp(1, 2, b""));
    assert!(set_macs(&mut frame, Mac([4; 6]), OWNER));
    assert!(!set_macs(&mut [0; 11], OWNER, OWNER));
    let packet = parse(&frame).expect("a packet");
    assert_eq!((packet.dst_mac, packet.src_mac), (Mac([4; 6]), OWNER));
    // All the way down: the checksum must hold at every step.
    for frame in [&mut frame, &mut v6(17, &udp(1, 2, b""))] {
        for left in (1..64).rev() {
            let packet = parse(frame).expect("a packet");
            assert_eq!(decrement_ttl(frame, &packet), Ok(()));
            assert_eq!(parse(frame).expect("a packet").ip().expect("IP").ttl, left);
        }
        let packet = parse(frame).expect("a packet");
        assert_eq!(decrement_ttl(frame, &packet), Err(DropReason::TtlExceeded));
    }
    let arp = arp(1, A4, B4);
    let packet = parse(&arp).expect("ARP");
    assert_eq!(
        decrement_ttl(&mut arp.clone(), &packet),
        Err(DropReason::Truncated)
    );
}

#[test]
fn icmp_errors() {
    let gateway4 = Addr::from_v4([10, 0, 0, 254]);
    let gateway6 = Addr(0xfe80_u128 << 112 | 1);
    let big = vec![7; 2000];
    let cases = [
        (v4(17, &udp(1, 2, b"")), gateway4, 14 + 20 + 8 + 28),
        (v4(17, &udp(1, 2, &big)), gateway4, 14 + 576),
        (v6(17, &udp(1, 2, b"")), gateway6, 14 + 40 + 8 + 48),
        (v6(17, &udp(1, 2, &big)), gateway6, 14 + 1280),
    ];
    let kinds = [
        (IcmpErrorKind::TimeExceeded, [0x0b00, 0x0300], 0),
        (IcmpErrorKind::TooBig { mtu: 1450 }, [0x0304, 0x0200], 1450),
        (IcmpErrorKind::Prohibited, [0x030d, 0x0101], 0),
    ];
    for (frame, gateway, want) in &cases {
        let about = parse(frame).expect("a packet");
        let ip = about.ip().expect("IP");
        for (kind, type_code, mtu) in kinds {
            let mut out = [0xee; 1294];
            let len = icmp_error(&mut out, frame, &about, kind, *gateway, OWNER).expect("room");
            assert_eq!(len, *want);
            let error = parse(&out[..len]).expect("an error");
            assert_eq!((error.src_mac, error.dst_mac), (OWNER, about.src_mac));
            let error = error.ip().expect("IP");
            assert!(verify_l4_checksum(&out[..len], error));
            assert_eq!((error.tuple.src, error.tuple.dst), (*gateway, ip.tuple.src));
            assert_eq!(error.tuple.dport, type_code[usize::from(ip.v6)]);
            let inner = ip.tuple;
            assert_eq!(error.l4_kind, L4::IcmpError(IcmpError { inner, mtu }));
            // Errors are never about errors.
            let about = parse(&out[..len]).expect("an error");
            let mut again = [0; 1294];
            let second = icmp_error(&mut again, &out[..len], &about, kind, *gateway, OWNER);
            assert_eq!(second, Err(BuildError::WrongPacket));
        }
        let small = icmp_error(&mut [0; 60], frame, &about, kinds[0].0, *gateway, OWNER);
        assert!(matches!(small, Err(BuildError::NoRoom { have: 60, .. })));
        let other = if ip.v6 { gateway4 } else { gateway6 };
        let mixed = icmp_error(&mut [0; 1294], frame, &about, kinds[0].0, other, OWNER);
        assert_eq!(mixed, Err(BuildError::MixedFamilies));
    }

    let silent = [
        ("a group's MAC", 0, vec![0x01]),
        ("a multicast destination", 30, vec![239]),
        ("a multicast source", 26, vec![239]),
        ("no source", 26, vec![0; 4]),
        ("a later fragment", 20, vec![0x00, 0x03]),
    ];
    for (name, at, bytes) in silent {
        let mut frame = v4(17, &udp(1, 2, b""));
        frame[at..at + bytes.len()].copy_from_slice(&bytes);
        frame[24..26].fill(0);
        let sum = checksum(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum);
        let about = parse(&frame).expect("a packet");
        let kind = IcmpErrorKind::TimeExceeded;
        let error = icmp_error(&mut [0; 1294], &frame, &about, kind, gateway4, OWNER);
        assert_eq!(error, Err(BuildError::WrongPacket), "{name}");
    }
}
