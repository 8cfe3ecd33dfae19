//! Every transport and control message.

use penstock_flow::packet::{ArpOp, Dhcp, Ip, Kind, L4, NdKind, parse};
use penstock_flow::{Addr, DropReason, Mac};

use super::frames::*;

pub(crate) fn ip(frame: &[u8]) -> Ip {
    match parse(frame) {
        Ok(packet) => *packet.ip().expect("IP"),
        Err(reason) => panic!("{reason:?}: {frame:02x?}"),
    }
}

/// Ports, transport without its details, offsets relative to the IP header.
pub(crate) fn shape(frame: &[u8]) -> (u8, u16, u16, &'static str, u16, u16) {
    let ip = ip(frame);
    let kind = match ip.l4_kind {
        L4::Tcp(_) => "tcp",
        L4::Udp => "udp",
        L4::Dhcp(Dhcp::V4) => "dhcp4",
        L4::Dhcp(Dhcp::V6) => "dhcp6",
        L4::Dhcp(Dhcp::Server) => "dhcp server",
        L4::Echo => "echo",
        L4::IcmpError(_) => "error",
        L4::Neighbour(_) => "nd",
        L4::Fragment(_) => "fragment",
        L4::Other => "other",
    };
    let t = ip.tuple;
    (t.proto, t.sport, t.dport, kind, ip.l4 - 14, ip.end - 14)
}

#[test]
fn every_transport() {
    let ns = Icmp6 {
        kind: 135,
        code: 0,
        hops: 255,
        src: A6,
        dst: B6,
        body: &cat(&[&[0; 4], &B6, &[1, 1, 2, 0, 0, 0, 0, 1]]),
    };
    let error4 = cat(&[&[0, 0, 5, 0x78], &v4(6, &tcp(0x10, &[]))[14..42]]);
    let error6 = cat(&[&[0, 0, 5, 0], &v6(17, &udp(5, 6, b""))[14..]]);
    let sctp = [0x13, 0x88, 0x13, 0x89, 0, 0, 0, 1, 0, 0, 0, 0];
    let cases = [
        (v4(6, &tcp(0x10, &[])), (6, 40000, 80, "tcp", 20, 42)),
        (v6(6, &tcp(0x10, &[])), (6, 40000, 80, "tcp", 40, 62)),
        (v4(17, &udp(1, 53, b"q")), (17, 1, 53, "udp", 20, 29)),
        (v6(17, &udp(1, 53, b"q")), (17, 1, 53, "udp", 40, 49)),
        (v4(17, &udp(68, 67, b"")), (17, 68, 67, "dhcp4", 20, 28)),
        (v6(17, &udp(546, 547, b"")), (17, 546, 547, "dhcp6", 40, 48)),
        // Of the other family, or from the server: not a client's message.
        (v6(17, &udp(68, 67, b"")), (17, 68, 67, "udp", 40, 48)),
        (
            v4(17, &udp(67, 68, b"")),
            (17, 67, 68, "dhcp server", 20, 28),
        ),
        (
            v6(17, &udp(9, 546, b"")),
            (17, 9, 546, "dhcp server", 40, 48),
        ),
        (v4(17, &udp(67, 67, b"")), (17, 67, 67, "udp", 20, 28)),
        (
            v4(1, &icmp(8, 0, &[0, 7, 0, 1])),
            (1, 7, 0x0800, "echo", 20, 28),
        ),
        (
            v4(1, &icmp(0, 0, &[0, 7, 0, 1])),
            (1, 7, 0x0000, "echo", 20, 28),
        ),
        (
            v4(1, &icmp(8, 1, &[0, 7, 0, 1])),
            (1, 0, 0x0801, "other", 20, 28),
        ),
        (
            v4(1, &icmp(13, 0, &[0, 7, 0, 1])),
            (1, 0, 0x0d00, "other", 20, 28),
        ),
        (v4(1, &icmp(5, 1, &[0; 4])), (1, 0, 0x0501, "other", 20, 28)),
        (
            v6(58, &[128, 0, 0, 0, 0, 9, 0, 1]),
            (58, 9, 0x8000, "echo", 40, 48),
        ),
        (
            v6(58, &[129, 0, 0, 0, 0, 9, 0, 1]),
            (58, 9, 0x8100, "echo", 40, 48),
        ),
        (v4(1, &icmp(3, 4, &error4)), (1, 0, 0x0304, "error", 20, 56)),
        (
            v6(58, &cat(&[&[2, 0, 0, 0], &error6])),
            (58, 0, 0x0200, "error", 40, 96),
        ),
        (ns.frame(), (58, 0, 0x8700, "nd", 40, 72)),
        (v4(132, &sctp), (132, 5000, 5001, "other", 20, 32)),
        (v4(47, &[0; 4]), (47, 0, 0, "other", 20, 24)),
        (v6(59, &[]), (59, 0, 0, "other", 40, 40)),
    ];
    for (frame, want) in cases {
        assert_eq!(shape(&frame), want, "{frame:02x?}");
        // Padding to the least Ethernet length changes nothing.
        let mut padded = frame.clone();
        padded.resize(frame.len() + 33, 0x5a);
        assert_eq!(parse(&padded), parse(&frame));
        // A packet cut anywhere is Truncated, but for the Ethernet header's
        // own EtherType.
        for len in 0..frame.len() {
            assert_eq!(parse(&frame[..len]), Err(DropReason::Truncated), "{len}");
        }
    }
}

#[test]
fn addresses_and_header_fields() {
    let p = parse(&v4(6, &tcp(0x10, &[]))).expect("a packet");
    assert_eq!(p.src_mac, Mac([2, 0, 0, 0, 0, 1]));
    assert_eq!(p.dst_mac, Mac([2, 0, 0, 0, 0, 2]));
    assert_eq!((p.vlan, p.l3), (0, 14));
    let four = p.ip().expect("IP");
    assert_eq!((four.tos, four.ttl, four.v6), (0xb8, 64, false));
    assert_eq!(four.tuple.src, Addr::from_v4(A4));
    assert_eq!(four.tuple.dst, Addr::from_v4(B4));
    let six = ip(&v6(6, &tcp(0x10, &[])));
    assert_eq!((six.tos, six.ttl, six.v6), (0xb8, 64, true));
    assert_eq!(six.tuple.src, Addr::from_octets(A6));
    assert!(!six.options && six.dont_fragment);
}

#[test]
fn tcp_fields_and_window_scale() {
    let cases: [(u8, &[u8], Option<u8>); 8] = [
        (0x02, &[2, 4, 5, 0xb4, 1, 3, 3, 7], Some(7)),
        (0x12, &[3, 3, 20, 0], Some(14)),
        (0x10, &[1, 3, 3, 7], None), // not a SYN
        (0x02, &[0, 3, 3, 7], None), // after the end
        (0x02, &[8, 0, 3, 3], None), // a length of 0
        (0x02, &[8, 9, 3, 3], None), // beyond the header
        (0x02, &[3, 2, 7, 0], None), // of the wrong length
        (0x02, &[], None),
    ];
    for (flags, options, wscale) in cases {
        let L4::Tcp(t) = ip(&v4(6, &tcp(flags, options))).l4_kind else {
            panic!("not TCP");
        };
        assert_eq!((t.flags, t.seq, t.ack), (flags, 1000, 2000));
        assert_eq!((t.window, t.payload_len), (0x8000, 2));
        assert_eq!(t.wscale, wscale, "{options:?}");
    }
}

#[test]
fn vlan_tags() {
    let packet = &v4(17, &udp(1, 2, b""))[14..];
    for (tci, vlan) in [(0x0064, 100), (0x2064, 100), (0x6000, 0)] {
        let p = parse(&tagged(tci, 0x0800, packet)).expect("a packet");
        assert_eq!((p.vlan, p.l3), (vlan, 18));
        assert_eq!(p.ip().expect("IP").l4, 38);
    }
    let reserved = tagged(0x0fff, 0x0800, packet);
    assert_eq!(parse(&reserved), Err(DropReason::Malformed));
    for second in [0x8100, 0x88a8, 0x9100] {
        let double = tagged(5, second, &cat(&[&[0, 6, 8, 0], packet]));
        assert_eq!(parse(&double), Err(DropReason::UnknownEthertype));
    }
}

#[test]
fn arp_messages() {
    let p = parse(&arp(1, A4, B4)).expect("ARP");
    let Kind::Arp(a) = p.kind else {
        panic!("not ARP");
    };
    assert_eq!((a.op, a.sender_mac), (ArpOp::Request, p.src_mac));
    assert_eq!(
        (a.sender_ip, a.target_ip),
        (Addr::from_v4(A4), Addr::from_v4(B4))
    );
    // Every field that says "Ethernet and IPv4", and the operation.
    for at in [14, 15, 16, 17, 18, 19, 20, 21] {
        let mut frame = arp(1, A4, B4);
        frame[at] ^= 8;
        assert_eq!(parse(&frame), Err(DropReason::UnhandledControl), "{at}");
    }
}

#[test]
fn neighbour_discovery() {
    let all_routers = {
        let mut a = [0; 16];
        (a[0], a[1], a[15]) = (0xff, 2, 2);
        a
    };
    let link_local = {
        let mut a = [0; 16];
        (a[0], a[1], a[15]) = (0xfe, 0x80, 1);
        a
    };
    let solicited = {
        let mut a = [0; 16];
        (a[0], a[1], a[11], a[12], a[15]) = (0xff, 2, 1, 0xff, 2);
        a
    };
    let unspecified = [0; 16];
    const SOURCE: [u8; 8] = [1, 1, 2, 0, 0, 0, 0, 1];
    const TARGET: [u8; 8] = [2, 1, 2, 0, 0, 0, 0, 2];
    const MTU: [u8; 8] = [5, 1, 0, 0, 0, 0, 5, 0xdc];
    let message = |kind, src, dst, body: &[u8]| {
        Icmp6 {
            kind,
            code: 0,
            hops: 255,
            src,
            dst,
            body,
        }
        .frame()
    };
    let ns = |src, dst, options: &[u8]| message(135, src, dst, &cat(&[&[0; 4], &B6, options]));

    let good = [
        (ns(A6, B6, &SOURCE), NdKind::NeighbourSolicitation),
        (ns(A6, solicited, &[]), NdKind::NeighbourSolicitation),
        (
            ns(unspecified, solicited, &[]),
            NdKind::NeighbourSolicitation,
        ),
        (
            message(136, A6, B6, &cat(&[&[0xe0, 0, 0, 0], &A6, &TARGET])),
            NdKind::NeighbourAdvertisement,
        ),
        (
            message(133, link_local, all_routers, &cat(&[&[0; 4], &SOURCE])),
            NdKind::RouterSolicitation,
        ),
        (
            message(
                134,
                link_local,
                all_routers,
                &cat(&[&[0; 12], &MTU, &SOURCE]),
            ),
            NdKind::RouterAdvertisement,
        ),
        (
            message(137, link_local, B6, &cat(&[&[0; 4], &A6, &B6])),
            NdKind::Redirect,
        ),
    ];
    for (frame, kind) in &good {
        let L4::Neighbour(nd) = ip(frame).l4_kind else {
            panic!("not ND: {frame:02x?}");
        };
        assert_eq!(nd.kind, *kind);
        if nd.kind == NdKind::NeighbourAdvertisement {
            assert_eq!((nd.flags, nd.target), (0xe0, Addr::from_octets(A6)));
            assert_eq!(nd.target_mac, Some(Mac([2, 0, 0, 0, 0, 2])));
        }
        // A router on the way, a damaged checksum, a code.
        for (at, reason) in [
            (21, DropReason::Malformed),
            (56, DropReason::BadChecksum),
            (55, DropReason::Malformed),
        ] {
            let mut bad = frame.clone();
            bad[at] ^= 1;
            assert_eq!(parse(&bad), Err(reason), "{at}");
        }
    }

    let bad = [
        (ns(unspecified, solicited, &SOURCE), DropReason::Malformed),
        (ns(unspecified, B6, &[]), DropReason::Malformed),
        (
            message(135, A6, B6, &cat(&[&[0; 4], &all_routers])),
            DropReason::Malformed,
        ),
        (ns(A6, B6, &[1, 0, 0, 0, 0, 0, 0, 0]), DropReason::Malformed),
        (ns(A6, B6, &[1, 2, 0, 0, 0, 0, 0, 0]), DropReason::Truncated),
        (ns(A6, B6, &[1]), DropReason::Truncated),
        (message(134, A6, B6, &[0; 12]), DropReason::Malformed),
        (
            // Solicited, to everyone.
            message(136, A6, all_routers, &cat(&[&[0x40, 0, 0, 0], &A6])),
            DropReason::Malformed,
        ),
        (
            message(133, unspecified, all_routers, &cat(&[&[0; 4], &SOURCE])),
            DropReason::Malformed,
        ),
    ];
    for (frame, reason) in bad {
        assert_eq!(parse(&frame), Err(reason), "{frame:02x?}");
    }
}

#[test]
fn errors_name_the_packet_inside() {
    let inside = v4(17, &udp(1111, 53, b"query"));
    for (kind, code, mtu) in [(3, 4, 1400), (3, 1, 0), (11, 0, 0), (12, 0, 0)] {
        let frame = v4(
            1,
            &icmp(kind, code, &cat(&[&[0, 0, 5, 0x78], &inside[14..42]])),
        );
        let L4::IcmpError(error) = ip(&frame).l4_kind else {
            panic!("not an error");
        };
        assert_eq!(error.mtu, mtu);
        assert_eq!(error.inner, ip(&inside).tuple);
    }
}
