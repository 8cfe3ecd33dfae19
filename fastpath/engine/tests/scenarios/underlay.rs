//! Neighbours on the underlay.

use penstock_engine::nic::{Entry, Hop, Op};
use penstock_flow::build::{self, NaFlags};
use penstock_flow::packet::{self, ArpOp, Kind};
use penstock_flow::{Addr, DropReason, Mac};

use crate::bed::frames::{Headers, Layer4, build as frame, read};
use crate::bed::talk::Talk;
use crate::bed::world::{BLUE, UPLINK, uplink_mac, vtep, vtep6};
use crate::bed::{Bed, Fate, SECOND, capacities, config};

#[test]
fn resolution_begins_with_the_next_hop_and_not_with_the_first_packet() {
    let mut bed = Bed::unresolved(config(), capacities());
    let talk = Talk::new("a", "c");
    assert_eq!(
        talk.syn(&mut bed).reason(),
        Some(DropReason::NeighbourUnresolved)
    );
    assert_eq!(bed.counters(0).connections.opened, 0);
    let mut bed = Bed::unresolved(config(), capacities());
    bed.tick();
    talk.open(&mut bed);
}

#[test]
fn a_neighbours_new_mac_is_in_force_for_all_next_hops_at_once() {
    let mut bed = Bed::new();
    let (blue, red) = (Talk::new("a", "c"), Talk::new("x", "y"));
    blue.open(&mut bed);
    red.open(&mut bed);
    bed.macs[1] = Mac([2, 0xbb, 0, 0, 0, 1]);
    assert_eq!(blue.data(&mut bed, false), Fate::Lost);
    let mut announcement = vec![0; 60];
    build::arp_request(&mut announcement, bed.macs[1], vtep(1), vtep(1), None).expect("fits");
    assert_eq!(bed.arrive(0, UPLINK, &announcement), Fate::Consumed);
    assert_eq!(blue.data(&mut bed, false).at(), "c");
    assert_eq!(red.data(&mut bed, false).at(), "y");
}

#[test]
fn the_same_over_an_ipv6_underlay() {
    let mut bed = Bed::over_v6();
    let (blue, red) = (Talk::new("a", "c"), Talk::new("x", "y"));
    blue.open(&mut bed);
    red.open(&mut bed);
    bed.macs[1] = Mac([2, 0xbb, 0, 0, 0, 1]);
    assert_eq!(blue.data(&mut bed, false), Fate::Lost);
    let mut announcement = vec![0; 86];
    let flags = NaFlags {
        router: false,
        override_cached: true,
    };
    build::unsolicited_advertisement(&mut announcement, bed.macs[1], vtep6(1), flags)
        .expect("fits");
    assert_eq!(bed.arrive(0, UPLINK, &announcement), Fate::Consumed);
    assert_eq!(blue.data(&mut bed, false).at(), "c");
    assert_eq!(red.data(&mut bed, false).at(), "y");
}

#[test]
fn known_neighbours_are_asked_again_before_they_grow_old() {
    let mut bed = Bed::new();
    let before = bed.counters(1).answered;
    for _ in 0..40 {
        bed.wait(SECOND);
    }
    let asked = bed.counters(1).answered - before;
    assert!((1..=6).contains(&asked), "{asked}");
    Talk::new("a", "c").open(&mut bed);
}

#[test]
fn the_vtep_is_answered_for_and_nobody_else() {
    let mut bed = Bed::new();
    let stranger = Mac([2, 0xcc, 0, 0, 0, 9]);
    let peer = Addr::from_v4([192, 0, 2, 9]);
    let mut request = vec![0; 60];
    build::arp_request(&mut request, stranger, peer, vtep(0), None).expect("fits");
    let (_, answer) = bed.process(0, UPLINK, &request);
    match packet::parse(&answer).expect("good").kind {
        Kind::Arp(arp) => {
            assert_eq!((arp.op, arp.sender_ip), (ArpOp::Reply, vtep(0)));
            assert_eq!((arp.sender_mac, arp.target_mac), (uplink_mac(0), stranger));
        }
        other => panic!("{other:?}"),
    }
    build::arp_request(&mut request, stranger, peer, peer, None).expect("fits");
    build::arp_request(&mut request, stranger, peer, vtep(6), None).expect("fits");
    let fate = bed.arrive(0, UPLINK, &request);
    assert_eq!(fate.reason(), Some(DropReason::NotForUs));
    let ping = Headers {
        src_mac: stranger,
        dst_mac: uplink_mac(0),
        vlan: 0,
        src: peer,
        dst: vtep(0),
        ttl: 64,
        l4: Layer4::Echo {
            id: 1,
            reply: false,
        },
    };
    let (_, answer) = bed.process(0, UPLINK, &frame(&ping, 32));
    let seen = read(&answer);
    assert_eq!((seen.src, seen.dst, seen.what), (vtep(0), peer, 0));
    bed.check();
}

#[test]
fn a_vtep_beyond_the_prefix_needs_a_gateway() {
    let mut bed = Bed::new();
    let far = Addr::from_v4([198, 51, 100, 1]);
    let entry = Entry::Nexthop {
        id: 77,
        hop: Hop::ToVtep {
            src_vtep: vtep(0),
            dst_vtep: far,
            src_mac: uplink_mac(0),
            dst_mac: Mac::default(),
            vni: BLUE,
            mtu: 1450,
            device_port: UPLINK,
        },
    };
    let update = penstock_engine::nic::Update {
        op: Op::Insert,
        entry,
    };
    let refused = bed.nodes[0].engine.write(1, &update).expect_err("no way");
    assert!(refused.to_string().contains("gateway"), "{refused}");
}

#[test]
fn what_one_lcore_has_received_another_learns() {
    let mut bed = Bed::unresolved(config(), capacities());
    let mut reply = vec![0; 60];
    build::arp_request(&mut reply, uplink_mac(1), vtep(1), vtep(1), None).expect("fits");
    bed.nodes[0].engine.observe(bed.now, UPLINK, &reply);
    let fate = Talk::new("a", "c").syn(&mut bed);
    assert_eq!(fate.at(), "c");
}

/// "Fragmentation needed" from a router on the underlay, about `outer`.
fn too_big(outer: &[u8], mtu: u16) -> Vec<u8> {
    let [hi, lo] = mtu.to_be_bytes();
    let mut frame = Vec::new();
    etherparse::PacketBuilder::ethernet2([2, 0xdd, 0, 0, 0, 1], uplink_mac(0).0)
        .ipv4([192, 0, 2, 254], [192, 0, 2, 1], 64)
        .icmpv4_raw(3, 4, [0, 0, hi, lo])
        .write(&mut frame, &outer[14..14 + 28])
        .expect("writes");
    frame
}

#[test]
fn what_the_way_does_not_carry_is_told_to_the_senders() {
    let mut bed = Bed::new();
    let talk = Talk::new("a", "c");
    talk.open(&mut bed);
    let udp = Layer4::Udp { sport: 1, dport: 2 };
    let large = frame(&talk.headers(&bed, false, udp), 1400);
    assert_eq!(bed.send("a", &large).at(), "c");
    let port = bed.place("a").device_port();
    let (_, outer) = bed.process(0, port, &large);
    assert_eq!(
        bed.arrive(0, UPLINK, &too_big(&outer, 1400)),
        Fate::Consumed
    );
    let answer = bed.send("a", &large);
    assert_eq!((answer.at(), read(answer.frame()).what), ("a", 0x0304));
    assert_eq!(answer.frame()[40..42], 1350_u16.to_be_bytes());
    assert_eq!(talk.data(&mut bed, false).at(), "c", "small ones go on");
    // Not about a tunnel of ours.
    let (_, mut other) = bed.process(0, port, &frame(&talk.headers(&bed, false, udp), 10));
    other[30] ^= 1;
    let fate = bed.arrive(0, UPLINK, &too_big(&other, 1300));
    assert_eq!(fate.at(), "", "{fate:?}");
    // Absurd claims stop at what IPv6 promises, and are not believed for ever.
    bed.arrive(0, UPLINK, &too_big(&outer, 68));
    let answer = bed.send("a", &large);
    assert_eq!(answer.frame()[40..42], 1280_u16.to_be_bytes());
    bed.wait(601 * SECOND);
    assert_eq!(bed.send("a", &large).at(), "c");
}
