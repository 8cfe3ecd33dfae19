//! IP headers beyond the simple ones, and everything that is refused.

use penstock_flow::DropReason;
use penstock_flow::packet::{Fragment, L4, first_piece, parse};

use super::frames::*;
use super::parse::{ip, shape};

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
        len: 24,
        more,
    };
    let cases = [
        (v4_fragment(0x2000, &body), part(0, true), (7, 8)),
        (v4_fragment(0x2003, &body), part(24, true), (0, 0)),
        (v4_fragment(0x0003, &body), part(24, false), (0, 0)),
        (v6_fragment(1, &body), part(0, true), (7, 8)),
        (v6_fragment(24 | 1, &body), part(24, true), (0, 0)),
        (v6_fragment(24, &body), part(24, false), (0, 0)),
    ];
    for (frame, want, ports) in cases {
        let ip = ip(&frame);
        assert_eq!(ip.l4_kind, L4::Fragment(want), "{frame:02x?}");
        assert_eq!((ip.tuple.sport, ip.tuple.dport), ports);
        assert_eq!(ip.tuple.proto, 17);
    }
    // Empty, not a multiple of eight, beyond what a packet can be.
    for bad in [
        v4_fragment(0x2000, &[]),
        v4_fragment(0x0003, &[]),
        v4_fragment(0x2000, &body[..12]),
        v4_fragment(0x1ffd, &body[..4]),
        v6_fragment(0xfff8, &[]),
        v6_fragment(1, &body[..12]),
        v6_fragment(0xfff8, &body[..8]),
    ] {
        assert_eq!(parse(&bad), Err(DropReason::Malformed), "{bad:02x?}");
    }
    for most in [
        v4_fragment(0x1ffd, &body[..3]),
        v6_fragment(0xfff8, &body[..7]),
    ] {
        assert!(parse(&most).is_ok(), "{most:02x?}");
    }
    // "Atomic": a whole packet that says it might have been cut.
    let atomic = ip(&v6_fragment(0, &body));
    assert_eq!((atomic.l4_kind, atomic.tuple.dport), (L4::Udp, 8));
    assert!(atomic.options);
}

#[test]
fn first_pieces() {
    let piece = |v6_: bool, protocol: u8, data: &[u8]| {
        let frame = if v6_ {
            v6(44, &cat(&[&[protocol, 0, 0, 1, 0, 0, 0, 9], data]))
        } else {
            V4 {
                flags_offset: 0x2000,
                proto: protocol,
                payload: data,
                ..V4::default()
            }
            .frame()
        };
        first_piece(&frame, &ip(&frame)).map(|ip| (ip.tuple.sport, ip.tuple.dport, ip.l4_kind))
    };
    let segment = |len: usize| {
        let mut bytes = tcp(0x18, &[2, 4, 5, 0xb4]);
        bytes.resize(len, 7);
        bytes
    };
    for family in [false, true] {
        // The whole datagram is longer than what is here.
        let mut long = udp(7, 8, &[0; 16]);
        long[4..6].copy_from_slice(&60_000_u16.to_be_bytes());
        assert_eq!(piece(family, 17, &long), Ok((7, 8, L4::Udp)));
        let (_, _, kind) = piece(family, 6, &segment(32)).expect("its header is whole");
        assert!(
            matches!(kind, L4::Tcp(t) if t.flags == 0x18 && t.payload_len == 8),
            "{kind:?}"
        );
        // Its options are cut off, or even its fixed part is.
        for short in [16, 8] {
            assert_eq!(piece(family, 6, &segment(short)), Err(DropReason::Fragment));
        }
        let (echo, own, other) = if family { (128, 58, 1) } else { (8, 1, 58) };
        let message = [echo, 0, 0, 0, 0x12, 0x34, 0, 1];
        let dport = u16::from(echo) << 8;
        assert_eq!(piece(family, own, &message), Ok((0x1234, dport, L4::Echo)));
        assert_eq!(piece(family, other, &message), Err(DropReason::Fragment));
        // Errors, neighbour discovery, DHCP; SCTP with half of its header.
        let error = [if family { 1 } else { 3 }, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(piece(family, own, &error), Err(DropReason::Fragment));
        let (client, server) = if family { (546, 547) } else { (68, 67) };
        for (from, to) in [(client, server), (server, client)] {
            let dhcp = udp(from, to, &[0; 8]);
            assert_eq!(piece(family, 17, &dhcp), Err(DropReason::Fragment));
        }
        assert_eq!(piece(family, 132, &[0; 8]), Err(DropReason::Fragment));
        assert_eq!(piece(family, 99, &[0; 8]), Ok((0, 0, L4::Other)));
    }
    assert_eq!(
        piece(true, 58, &[135, 0, 0, 0, 0, 0, 0, 0]),
        Err(DropReason::Fragment)
    );
    // Neither a later one nor a whole packet.
    let later = V4 {
        flags_offset: 3,
        payload: &[0; 16],
        ..V4::default()
    };
    for frame in [later.frame(), v4(17, &udp(1, 2, b""))] {
        assert_eq!(first_piece(&frame, &ip(&frame)), Err(DropReason::Fragment));
    }
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
fn a_tenants_own_tunnel_is_payload() {
    assert!(parse(&v4(17, &udp(1, 4789, &vxlan(8, 5, &[])))).is_ok());
}
