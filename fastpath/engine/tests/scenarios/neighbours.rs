//! ARP and ND on ports: answered, checked, never forwarded.

use etherparse::PacketBuilder;
use penstock_flow::packet::{self, ArpOp, Kind, L4};
use penstock_flow::{Addr, DropReason, Mac, build};

use crate::bed::world::{Place, addr, gateway};
use crate::bed::{Bed, Fate};

fn arp(from: &Place, mac: Mac, sender: Addr, target: Addr) -> Vec<u8> {
    let mut frame = vec![0; 60];
    build::arp_request(&mut frame, mac, sender, target, None).expect("fits");
    tagged(from, frame)
}

fn tagged(from: &Place, mut frame: Vec<u8>) -> Vec<u8> {
    if from.vlan != 0 {
        let tag = [0x81, 0, 0, from.vlan as u8];
        frame.splice(12..12, tag);
    }
    frame
}

/// A solicitation; from `::` without options, as duplicate detection sends it.
fn solicit(from: &Place, mac: Mac, sender: Addr, target: Addr) -> Vec<u8> {
    let group = Addr(0xff02_0000_0000_0000_0000_0001_ff00_0000 | target.0 & 0xff_ffff);
    let low = (group.0 as u32).to_be_bytes();
    let dst_mac = [0x33, 0x33, low[0], low[1], low[2], low[3]];
    let mut body = target.octets().to_vec();
    if sender != Addr(0) {
        body.extend([1, 1]);
        body.extend(mac.0);
    }
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(mac.0, dst_mac)
        .ipv6(sender.octets(), group.octets(), 255)
        .icmpv6_raw(135, 0, [0; 4])
        .write(&mut frame, &body)
        .expect("writes");
    tagged(from, frame)
}

/// Who the answer says has the address; `None`: no answer.
fn answer(bed: &Bed, fate: &Fate, asker: &str) -> Result<Option<Mac>, DropReason> {
    match fate {
        Fate::Delivered { port, frame } => {
            assert_eq!(*port, asker);
            let parsed = packet::parse(frame).expect("a good answer");
            assert_eq!(parsed.vlan, bed.place(asker).vlan);
            match parsed.kind {
                Kind::Arp(arp) => {
                    assert_eq!(arp.op, ArpOp::Reply);
                    assert_eq!(arp.sender_mac, parsed.src_mac);
                    Ok(Some(arp.sender_mac))
                }
                Kind::Ip(ip) => match ip.l4_kind {
                    L4::Neighbour(nd) => Ok(nd.target_mac),
                    other => panic!("{other:?}"),
                },
            }
        }
        Fate::Dropped { reason, .. } => Err(*reason),
        Fate::Consumed => Ok(None),
        Fate::Lost | Fate::Waits { .. } => panic!("left on the uplink, or waits"),
    }
}

#[test]
fn who_has() {
    let mut bed = Bed::new();
    let zero = |v6: bool| if v6 { Addr(0) } else { Addr::from_v4([0; 4]) };
    let mac_of = |bed: &Bed, name: &str| bed.place(name).mac;
    for v6 in [false, true] {
        for asker in ["a", "b"] {
            let me = bed.place(asker);
            let own = me.ip(v6);
            let nobody = if v6 {
                addr("fd00:1::99")
            } else {
                addr("10.0.1.99")
            };
            let c = bed.place("c");
            let d = bed.place("d");
            let stolen = c.ip(v6);
            for (what, mac, sender, target, want) in [
                (
                    "the gateway",
                    me.mac,
                    own,
                    gateway(1, v6),
                    Ok(Some(Mac::GATEWAY)),
                ),
                ("same subnet", me.mac, own, c.ip(v6), Ok(Some(c.mac))),
                (
                    "another subnet",
                    me.mac,
                    own,
                    d.ip(v6),
                    Ok(Some(Mac::GATEWAY)),
                ),
                (
                    "nobody",
                    me.mac,
                    own,
                    nobody,
                    Err(DropReason::UnknownNeighbour),
                ),
                ("itself", me.mac, own, own, Ok(None)),
                ("is mine free?", me.mac, zero(v6), own, Ok(None)),
                ("is c's free?", me.mac, zero(v6), c.ip(v6), Ok(Some(c.mac))),
                (
                    "is nobody's free?",
                    me.mac,
                    zero(v6),
                    nobody,
                    Err(DropReason::UnknownNeighbour),
                ),
                (
                    "as another",
                    me.mac,
                    stolen,
                    gateway(1, v6),
                    Err(DropReason::SpoofedNeighbour),
                ),
                (
                    "c's MAC",
                    mac_of(&bed, "c"),
                    own,
                    gateway(1, v6),
                    Err(DropReason::SpoofedNeighbour),
                ),
            ] {
                let frame = if v6 {
                    solicit(&me, mac, sender, target)
                } else {
                    arp(&me, mac, sender, target)
                };
                let fate = bed.send(asker, &frame);
                assert_eq!(answer(&bed, &fate, asker), want, "{asker} v6 {v6}: {what}");
            }
        }
    }
}

#[test]
fn tenants_see_their_own_neighbours_only() {
    let mut bed = Bed::new();
    let x = bed.place("x");
    let d = bed.place("d");
    let fate = bed.send("x", &arp(&x, x.mac, x.ip(false), d.ip(false)));
    assert_eq!(answer(&bed, &fate, "x"), Err(DropReason::UnknownNeighbour));
    // 10.0.1.12 is c in one and y in the other.
    let c = bed.place("c");
    let fate = bed.send("x", &arp(&x, x.mac, x.ip(false), c.ip(false)));
    assert_eq!(answer(&bed, &fate, "x"), Ok(Some(bed.place("y").mac)));
}

#[test]
fn announcements_are_taken_in_silence_and_lies_are_not() {
    let mut bed = Bed::new();
    let (a, c) = (bed.place("a"), bed.place("c"));
    let own = a.ip(false);
    let gratuitous = arp(&a, a.mac, own, own);
    assert_eq!(bed.send("a", &gratuitous), Fate::Consumed);
    let mut disguised = gratuitous.clone();
    disguised[6..12].copy_from_slice(&c.mac.0);
    assert_eq!(
        bed.send("a", &disguised).reason(),
        Some(DropReason::SpoofedNeighbour),
        "its Ethernet source is another's"
    );
    let lie = arp(&a, a.mac, c.ip(false), c.ip(false));
    assert_eq!(
        bed.send("a", &lie).reason(),
        Some(DropReason::SpoofedNeighbour)
    );
    let flags = build::NaFlags {
        router: false,
        override_cached: true,
    };
    let mut frame = vec![0; 86];
    for (target, want) in [
        (a.ip(true), None),
        (c.ip(true), Some(DropReason::SpoofedNeighbour)),
    ] {
        build::unsolicited_advertisement(&mut frame, a.mac, target, flags).expect("fits");
        assert_eq!(bed.send("a", &frame).reason(), want);
    }
}

#[test]
fn the_gateway_is_a_router_that_can_be_found() {
    let mut bed = Bed::new();
    let gateway = addr("fe80::5eff:fe00:1");
    for asker in ["a", "b"] {
        let me = bed.place(asker);
        let solicit_router = |sender: Addr, mac: Mac| {
            let mut body = vec![];
            if sender != Addr(0) {
                body.extend([1, 1]);
                body.extend(mac.0);
            }
            let mut frame = Vec::new();
            PacketBuilder::ethernet2(me.mac.0, [0x33, 0x33, 0, 0, 0, 2])
                .ipv6(sender.octets(), addr("ff02::2").octets(), 255)
                .icmpv6_raw(133, 0, [0; 4])
                .write(&mut frame, &body)
                .expect("writes");
            tagged(&me, frame)
        };
        for sender in [Addr(0), addr("fe80::7")] {
            let fate = bed.send(asker, &solicit_router(sender, me.mac));
            let frame = fate.frame();
            let parsed = packet::parse(frame).expect("a good answer");
            assert_eq!(parsed.vlan, me.vlan);
            let ip = parsed.ip().expect("IPv6");
            let L4::Neighbour(nd) = ip.l4_kind else {
                panic!("{ip:?}")
            };
            assert_eq!(nd.kind, packet::NdKind::RouterAdvertisement);
            assert_eq!((ip.tuple.src, nd.source_mac), (gateway, Some(Mac::GATEWAY)));
            let message = &frame[frame.len() - 64..];
            // DHCPv6 has the addresses.
            assert_eq!(message[5], 0xc0);
            assert_eq!(message[30..32], 1450_u16.to_be_bytes());
            // The prefix is on the link, and no address is made from it.
            let prefix = addr(&format!("fd00:{}::", me.subnet));
            assert_eq!(message[32..36], [3, 4, 64, 0x80]);
            assert_eq!(message[48..], prefix.octets());
        }
        let fate = bed.send(asker, &solicit_router(addr("fe80::7"), Mac::GATEWAY));
        assert_eq!(fate.reason(), Some(DropReason::SpoofedNeighbour));
        let fate = bed.send(asker, &solicit(&me, me.mac, addr("fe80::7"), gateway));
        assert_eq!(answer(&bed, &fate, asker), Ok(Some(Mac::GATEWAY)));
    }
}
