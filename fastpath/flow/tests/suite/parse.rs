//! Every header kind, well-formed and not.

use penstock_flow::packet::{ArpOp, Dhcp, Fragment, Ip, Kind, L4, NdKind, parse, parse_inner};
use penstock_flow::{Addr, DropReason, Mac};

use super::frames::*;

fn ip(frame: &[u8]) -> Ip {
    match parse(frame) {
        Ok(packet) => *packet.ip().expect("IP"),
        Err(reason) => panic!("{reason:?}: {frame:02x?}"),
    }
}

/// Ports, transport without its details, offsets relative to the IP header.
fn shape(frame: &[u8]) -> (u8, u16, u16, &'static str, u16, u16) {
    let ip = ip(frame);
    let kind = match ip.l4_kind {
        L4::Tcp(_) => "tcp",
        L4::Udp => "udp",
        L4::Dhcp(Dhcp::V4) => "dhcp4",
        L4::Dhcp(Dhcp::V6) => "dhcp6",
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
        (v4(17, &udp(67, 68, b"")), (17, 67, 68, "udp", 20, 28)),
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
fn fragments() {
    let v4_fragment = |flags_offset, payload: &[u8]| {
        V4 {
            flags_offset,
            payload,
            ..V4::default()
        }
        .frame()
    };
    let body = udp(7, 8, &[0; 16]);
    let v6_fragment = |offset_more: u16, body: &[u8]| {
        let [o0, o1] = offset_more.to_be_bytes();
        v6(44, &cat(&[&[17, 0, o0, o1, 0, 0, 0x12, 0x34], body]))
    };
    let part = |offset, more| Fragment {
        id: 0x1234,
        offset,
        more,
    };
    let cases = [
        (v4_fragment(0x2000, &body), part(0, true), (7, 8)),
        (v4_fragment(0x2003, &body), part(24, true), (0, 0)),
        (v4_fragment(0x0003, &body), part(24, false), (0, 0)),
        (v4_fragment(0x2000, &body[..3]), part(0, true), (0, 0)),
        (v6_fragment(1, &body), part(0, true), (7, 8)),
        (v6_fragment(24 | 1, &body), part(24, true), (0, 0)),
        (v6_fragment(24, &body), part(24, false), (0, 0)),
        (v6_fragment(0xfff8, &[]), part(0xfff8, false), (0, 0)),
    ];
    for (frame, want, ports) in cases {
        let ip = ip(&frame);
        assert_eq!(ip.l4_kind, L4::Fragment(want), "{frame:02x?}");
        assert_eq!((ip.tuple.sport, ip.tuple.dport), ports);
        assert_eq!(ip.tuple.proto, 17);
    }
    // "Atomic": a whole packet that says it might have been cut.
    let atomic = ip(&v6_fragment(0, &body));
    assert_eq!((atomic.l4_kind, atomic.tuple.dport), (L4::Udp, 8));
    assert!(atomic.options);
}

#[test]
fn ipv6_extension_headers() {
    let pad = |next: u8| [next, 0, 1, 4, 0, 0, 0, 0];
    let routing = |next: u8, kind: u8, left: u8| [next, 0, kind, left, 0, 0, 0, 0];
    let datagram = udp(1, 2, b"z");
    let all = v6(
        0,
        &cat(&[
            &pad(43),
            &routing(60, 4, 0),
            &[17, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &datagram,
        ]),
    );
    assert_eq!(shape(&all), (17, 1, 2, "udp", 40 + 32, 40 + 41));
    let chain = |n: usize| {
        let mut body = pad(60).repeat(n - 1);
        body.extend(pad(17));
        body.extend(&datagram);
        v6(60, &body)
    };
    assert_eq!(ip(&chain(8)).l4_kind, L4::Udp);
    let fragment = |next: u8| [next, 0, 0, 1, 0, 0, 0, 9];
    let bad = [
        (chain(9), DropReason::Malformed),
        (
            v6(60, &cat(&[&pad(0), &pad(17), &datagram])),
            DropReason::Malformed,
        ),
        (
            v6(44, &cat(&[&fragment(44), &fragment(17), &datagram])),
            DropReason::Malformed,
        ),
        (
            v6(43, &cat(&[&routing(17, 4, 1), &datagram])),
            DropReason::UnknownProtocol,
        ),
        (
            v6(43, &cat(&[&routing(17, 0, 0), &datagram])),
            DropReason::UnknownProtocol,
        ),
        (v6(60, &[17, 1, 0, 0, 0, 0, 0, 0]), DropReason::Truncated),
        (v6(0, &[]), DropReason::Truncated),
    ];
    for (frame, reason) in bad {
        assert_eq!(parse(&frame), Err(reason), "{frame:02x?}");
    }
}

#[test]
fn ipv4_options() {
    let with = |options: &[u8]| {
        V4 {
            options,
            payload: &udp(1, 2, b""),
            ..V4::default()
        }
        .frame()
    };
    let good: [&[u8]; 4] = [
        &[0x94, 4, 0, 0],
        &[1, 1, 1, 0],
        &[0, 0xff, 0xff, 0xff],
        &[7, 7, 4, 0, 0, 0, 0, 0],
    ];
    for options in good {
        let ip = ip(&with(options));
        assert!(ip.options);
        assert_eq!(ip.l4, 34 + options.len() as u16);
    }
    let bad: [(&[u8], DropReason); 5] = [
        (&[0x94, 0, 0, 0], DropReason::Malformed),
        (&[0x94, 5, 0, 0], DropReason::Malformed),
        (&[1, 1, 1, 0x94], DropReason::Malformed),
        (&[131, 3, 4, 0], DropReason::UnknownProtocol),
        (&[137, 3, 4, 0], DropReason::UnknownProtocol),
    ];
    for (options, reason) in bad {
        assert_eq!(parse(&with(options)), Err(reason), "{options:?}");
    }
}

#[test]
fn refused() {
    let good = v4(6, &tcp(0x10, &[]));
    let damage = |at: usize, value: u8, fix: bool| {
        let mut frame = good.clone();
        frame[at] = value;
        if fix {
            frame[24..26].fill(0);
            let sum = checksum(&frame[14..34]);
            frame[24..26].copy_from_slice(&sum);
        }
        frame
    };
    let mut mapped_src = A6;
    mapped_src[..12].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]);
    let mut short_udp = v4(17, &udp(1, 2, b"abc"));
    short_udp[39] = 7;
    let mut long_udp = v4(17, &udp(1, 2, b"abc"));
    long_udp[39] = 12;
    let mut version4_as_6 = good.clone();
    version4_as_6[12..14].copy_from_slice(&[0x86, 0xdd]);
    version4_as_6.resize(80, 0);
    let cases = [
        ("empty", vec![], DropReason::Truncated),
        (
            "IPv4 TTL damaged",
            damage(22, 63, false),
            DropReason::BadChecksum,
        ),
        (
            "header length 4 words",
            damage(14, 0x44, true),
            DropReason::Malformed,
        ),
        ("version 5", damage(14, 0x55, true), DropReason::Malformed),
        (
            "total below header",
            damage(17, 19, true),
            DropReason::Malformed,
        ),
        (
            "total beyond frame",
            damage(17, 43, true),
            DropReason::Truncated,
        ),
        (
            "data offset 4 words",
            damage(46, 0x40, false),
            DropReason::Malformed,
        ),
        (
            "data offset beyond",
            damage(46, 0x60, false),
            DropReason::Truncated,
        ),
        (
            "source is a group",
            damage(6, 3, false),
            DropReason::Malformed,
        ),
        ("LLC", damage(12, 0, false), DropReason::UnknownEthertype),
        (
            "MPLS",
            ethernet(0x8847, &[0; 60]),
            DropReason::UnknownEthertype,
        ),
        ("UDP length 7", short_udp, DropReason::Malformed),
        ("UDP beyond IP", long_udp, DropReason::Truncated),
        ("IPv4 in IPv6's type", version4_as_6, DropReason::Malformed),
        (
            "ICMPv6 in IPv4",
            v4(58, &[128, 0, 0, 0, 0, 0, 0, 0]),
            DropReason::UnknownProtocol,
        ),
        (
            "ICMP in IPv6",
            v6(1, &[8, 0, 0, 0, 0, 0, 0, 0]),
            DropReason::UnknownProtocol,
        ),
        (
            "mapped source",
            ethernet(0x86dd, &v6_packet(17, 64, mapped_src, B6, &udp(1, 2, b""))),
            DropReason::Malformed,
        ),
        (
            "mapped destination",
            ethernet(0x86dd, &v6_packet(17, 64, A6, mapped_src, &udp(1, 2, b""))),
            DropReason::Malformed,
        ),
        (
            "error quoting nothing",
            v4(1, &icmp(3, 4, &[0; 4])),
            DropReason::Truncated,
        ),
        (
            "error quoting 7 bytes of UDP's 8",
            v4(
                1,
                &icmp(3, 4, &cat(&[&[0; 4], &v4(17, &udp(1, 2, b""))[14..37]])),
            ),
            DropReason::Truncated,
        ),
        (
            "echo without identifier",
            v4(1, &icmp(8, 0, &[])),
            DropReason::Truncated,
        ),
        ("oversized", vec![0; 65536], DropReason::Oversized),
    ];
    for (name, frame, reason) in cases {
        assert_eq!(parse(&frame), Err(reason), "{name}");
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

#[test]
fn a_tunnel_inside_a_tunnel() {
    let inner = v4(17, &udp(1, 4789, &vxlan(8, 5, &[])));
    assert!(parse(&inner).is_ok());
    assert_eq!(parse_inner(&inner), Err(DropReason::NestedTunnel));
    let reply = v4(17, &udp(4789, 1, b""));
    assert!(parse_inner(&reply).is_ok());
}
