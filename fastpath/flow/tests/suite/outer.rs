//! Frames from the underlay.

use penstock_flow::build::{Encap, Template};
use penstock_flow::packet::{Outer, parse, parse_outer, verify_l4_checksum};
use penstock_flow::{Addr, DropReason, Mac};

use super::frames::*;

#[test]
fn vxlan_over_both_families() {
    let inner = v6(6, &tcp(0x10, &[]));
    let tunnel = udp(50000, 4789, &vxlan(0xff, 0xabcdef, &inner));
    for (mut frame, src, dst, at) in [
        (v4(17, &tunnel), Addr::from_v4(A4), Addr::from_v4(B4), 50),
        (
            v6(17, &tunnel),
            Addr::from_octets(A6),
            Addr::from_octets(B6),
            70,
        ),
    ] {
        frame.extend([0; 7]); // padding
        let Ok(Outer::Vxlan(t)) = parse_outer(&frame) else {
            panic!("{:?}", parse_outer(&frame));
        };
        assert_eq!((t.src_vtep, t.dst_vtep, t.vni), (src, dst, 0xabcdef));
        assert_eq!((t.sport, t.tos, t.vlan, t.inner), (50000, 0xb8, 0, at));
        assert_eq!(frame[usize::from(t.inner)..usize::from(t.end)], inner);
    }
}

#[test]
fn what_is_not_a_tunnel() {
    let inner = v4(17, &udp(1, 2, b""));
    let no_i_bit = v4(17, &udp(1, 4789, &vxlan(0xf7, 1, &inner)));
    assert_eq!(parse_outer(&no_i_bit), Err(DropReason::Malformed));
    let short = v4(17, &udp(1, 4789, &[8, 0, 0, 0, 0, 0, 1]));
    assert_eq!(parse_outer(&short), Err(DropReason::Truncated));
    let mut piece = udp(1, 4789, &vxlan(8, 1, &inner));
    piece.truncate(piece.len() / 8 * 8);
    let fragment = V4 {
        flags_offset: 0x2000,
        payload: &piece,
        ..V4::default()
    };
    assert_eq!(parse_outer(&fragment.frame()), Err(DropReason::Fragment));
    let arp = arp(1, A4, B4);
    assert!(matches!(parse_outer(&arp), Ok(Outer::Neighbour(_))));
    let others = [v4(17, &udp(4789, 1, b"")), v4(6, &tcp(2, &[]))];
    for frame in others {
        assert!(matches!(parse_outer(&frame), Ok(Outer::Other(_))));
    }
}

#[test]
fn what_is_encapsulated_comes_out_again() {
    let inner = v4(6, &tcp(0x18, &[]));
    let v4_ends = (Addr::from_v4([192, 0, 2, 1]), Addr::from_v4([192, 0, 2, 2]));
    let v6_ends = (Addr::from_octets(A6), Addr::from_octets(B6));
    for ((src, dst), overhead) in [(v4_ends, 50), (v6_ends, 70)] {
        let encap = Encap {
            src_mac: Mac([2, 0, 0, 0, 1, 1]),
            dst_mac: Mac([2, 0, 0, 0, 1, 2]),
            src,
            dst,
            vni: 0x01_0203,
            ttl: 64,
        };
        let template = Template::new(&encap).expect("a template");
        assert_eq!(template.len(), overhead);
        for (tos, sport) in [(0, 0xc000), (0xff, 0xffff), (0xb9, 0xd123)] {
            let mut frame = vec![0xee; overhead];
            frame.extend(&inner);
            template.write(&mut frame, sport, tos).expect("room");
            let Ok(Outer::Vxlan(t)) = parse_outer(&frame) else {
                panic!("{:?}", parse_outer(&frame));
            };
            assert_eq!((t.src_mac, t.dst_mac), (encap.src_mac, encap.dst_mac));
            assert_eq!((t.src_vtep, t.dst_vtep, t.vni), (src, dst, 0x01_0203));
            assert_eq!((t.sport, t.tos), (sport, tos));
            assert_eq!(usize::from(t.end), frame.len());
            assert_eq!(frame[usize::from(t.inner)..], inner);
            assert!(parse(&frame[overhead..]).is_ok());
            if src.is_v4() {
                assert_eq!(frame[20], 0x40, "don't fragment");
                let outer = penstock_flow::packet::parse(&frame).expect("a packet");
                assert!(verify_l4_checksum(&frame, outer.ip().expect("IP")));
            }
        }
        assert!(template.write(&mut [0; 49], 1, 1).is_err());
        assert!(template.write(&mut vec![0; 65536], 1, 1).is_err());
        let mixed = Encap {
            src: v4_ends.0,
            dst: v6_ends.1,
            ..encap
        };
        assert!(Template::new(&mixed).is_err());
    }
}
