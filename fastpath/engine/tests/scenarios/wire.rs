//! What is taken from the wire, and from ports that lie.

use penstock_engine::nic::{Entry, Op};
use penstock_engine::{Frame, Outcome};
use penstock_flow::build::{Encap, Template};
use penstock_flow::{Addr, DropReason, Mac, Prefix};

use crate::bed::frames::{Headers, Layer4, SYN, build};
use crate::bed::talk::Talk;
use crate::bed::world::{BLUE, RED, UPLINK, hop_to, uplink_mac, vtep};
use crate::bed::{Bed, Fate};

/// `inner` in a tunnel to node 1.
fn tunnel(from: Addr, to: Addr, vni: u32, tos: u8, inner: &[u8]) -> Vec<u8> {
    let template = Template::new(&Encap {
        src_mac: uplink_mac(0),
        dst_mac: uplink_mac(1),
        src: from,
        dst: to,
        vni,
        ttl: 64,
    })
    .expect("one family");
    let mut frame = vec![0; template.len()];
    frame.extend(inner);
    template.write(&mut frame, 50_000, tos).expect("fits");
    frame
}

/// A frame of BLUE out of the other node's tunnel.
pub(crate) fn from_node(node: usize, inner: &[u8]) -> Vec<u8> {
    tunnel(vtep(node), vtep(1 - node), BLUE, 0, inner)
}

fn syn(bed: &Bed) -> Headers {
    let l4 = Layer4::Tcp {
        sport: 40_000,
        dport: 80,
        flags: SYN,
        seq: 1,
        ack: 0,
    };
    Talk::new("a", "c").headers(bed, false, l4)
}

#[test]
fn only_known_tunnels_and_inner_sources_that_live_there() {
    let mut bed = Bed::new();
    let good = syn(&bed);
    let (b6, c) = (bed.place("b"), bed.place("c"));
    let foreign = addr_of(&bed, "d");
    let other = vtep(7);
    let inner = |h: Headers| build(&h, 0);
    let vtep_of = |n| vtep(n);
    for (what, frame, want) in [
        (
            "good",
            tunnel(vtep_of(0), vtep_of(1), BLUE, 0, &inner(good)),
            None,
        ),
        (
            "stranger",
            tunnel(other, vtep_of(1), BLUE, 0, &inner(good)),
            Some(DropReason::UnknownTunnel),
        ),
        (
            "not to this VTEP",
            tunnel(vtep_of(0), other, BLUE, 0, &inner(good)),
            Some(DropReason::UnknownTunnel),
        ),
        (
            "unknown VNI",
            tunnel(vtep_of(0), vtep_of(1), 999, 0, &inner(good)),
            Some(DropReason::UnknownTunnel),
        ),
        (
            "the source lives here",
            tunnel(
                vtep_of(0),
                vtep_of(1),
                BLUE,
                0,
                &inner(Headers {
                    src: foreign,
                    ..good
                }),
            ),
            Some(DropReason::WrongVtep),
        ),
        (
            "nobody's source",
            tunnel(
                vtep_of(0),
                vtep_of(1),
                BLUE,
                0,
                &inner(Headers {
                    src: Addr::from_v4([10, 0, 1, 99]),
                    ..good
                }),
            ),
            Some(DropReason::WrongVtep),
        ),
        (
            "back to the wire",
            tunnel(
                vtep_of(0),
                vtep_of(1),
                BLUE,
                0,
                &inner(Headers {
                    dst: b6.ip(false),
                    ..good
                }),
            ),
            Some(DropReason::Reflected),
        ),
        (
            "to nobody",
            tunnel(
                vtep_of(0),
                vtep_of(1),
                BLUE,
                0,
                &inner(Headers {
                    dst: Addr::from_v4([10, 0, 1, 99]),
                    ..good
                }),
            ),
            Some(DropReason::NoRoute),
        ),
        (
            "tagged inside",
            tunnel(
                vtep_of(0),
                vtep_of(1),
                BLUE,
                0,
                &inner(Headers { vlan: 5, ..good }),
            ),
            Some(DropReason::Malformed),
        ),
        (
            "no tunnel",
            build(
                &Headers {
                    dst: vtep(1),
                    ..good
                },
                0,
            ),
            Some(DropReason::NotForUs),
        ),
    ] {
        let fate = bed.arrive(1, UPLINK, &frame);
        assert_eq!(fate.reason(), want, "{what}: {fate:?}");
        bed.check();
    }
    let _ = c;
}

fn addr_of(bed: &Bed, name: &str) -> Addr {
    bed.place(name).ip(false)
}

#[test]
fn another_network_on_the_same_wire_is_not_ours() {
    let mut bed = Bed::new();
    let inner = build(&syn(&bed), 0);
    let untagged = tunnel(vtep(0), vtep(1), BLUE, 0, &inner);
    let tagged = |vlan: u16| {
        let [hi, lo] = vlan.to_be_bytes();
        let mut frame = untagged.clone();
        frame.splice(12..12, [0x81, 0, hi, lo]);
        frame
    };
    let fate = bed.arrive(1, UPLINK, &tagged(7));
    assert_eq!(fate.reason(), Some(DropReason::NotForUs));
    // Tag 0 says a priority, and no network.
    assert_eq!(bed.arrive(1, UPLINK, &tagged(0)).at(), "c");
}

#[test]
fn an_error_comes_from_the_peer_or_from_where_its_sender_lives() {
    let mut bed = Bed::new();
    let talk = Talk::new("a", "c");
    let h = talk.headers(
        &bed,
        false,
        Layer4::Udp {
            sport: 40_000,
            dport: 80,
        },
    );
    talk.udp(&mut bed, false);
    talk.udp(&mut bed, true);
    // c's answer, quoted to c as undeliverable.
    let answer = build(
        &Headers {
            src: h.dst,
            dst: h.src,
            l4: Layer4::Udp {
                sport: 80,
                dport: 40_000,
            },
            ..h
        },
        0,
    );
    for (from, want) in [
        (h.src, None),
        (addr_of(&bed, "b"), None),
        (addr_of(&bed, "d"), Some(DropReason::WrongVtep)),
        (Addr::from_v4([10, 0, 1, 99]), Some(DropReason::WrongVtep)),
    ] {
        let octets = |addr: Addr| addr.v4_octets().expect("IPv4");
        let mut error = Vec::new();
        etherparse::PacketBuilder::ethernet2(h.src_mac.0, h.dst_mac.0)
            .ipv4(octets(from), octets(h.dst), 64)
            .icmpv4_raw(3, 3, [0; 4])
            .write(&mut error, &answer[14..])
            .expect("writes");
        let fate = bed.arrive(1, UPLINK, &tunnel(vtep(0), vtep(1), BLUE, 0, &error));
        assert_eq!(fate.reason(), want, "{from}: {fate:?}");
    }
}

#[test]
fn what_a_host_says_to_its_link_is_no_lie() {
    let mut bed = Bed::new();
    let c = bed.place("c");
    let local = Addr(0xfe80 << 112 | 0x1234);
    let group = Addr(0xff02 << 112 | 0x16);
    let report = Headers {
        src: local,
        dst: group,
        ..Talk {
            v6: true,
            ..Talk::new("a", "c")
        }
        .headers(&bed, false, Layer4::Udp { sport: 1, dport: 2 })
    };
    for (what, h, want) in [
        ("to a group", report, DropReason::Multicast),
        (
            "without address",
            Headers {
                src: Addr(0),
                ..report
            },
            DropReason::Multicast,
        ),
        (
            "to a host",
            Headers {
                dst: c.ip(true),
                ..report
            },
            DropReason::Spoofed,
        ),
        (
            "as another",
            Headers {
                src_mac: c.mac,
                ..report
            },
            DropReason::Spoofed,
        ),
        (
            "from another's address",
            Headers {
                src: c.ip(true),
                ..report
            },
            DropReason::Spoofed,
        ),
    ] {
        let fate = bed.send("a", &build(&h, 0));
        assert_eq!(fate.reason(), Some(want), "{what}: {fate:?}");
    }
}

#[test]
fn a_connection_may_change_its_path_but_not_begin_on_a_wrong_one() {
    // b's address is mapped to node 0; a second VTEP is known, too.
    let mut bed = Bed::new();
    let second = vtep(5);
    for vni in [BLUE, RED] {
        bed.write(
            1,
            Op::Insert,
            Entry::Underlay {
                src_vtep: second,
                dst_vtep: vtep(1),
                vni,
                decap_vni: vni,
            },
        );
    }
    let inner = build(&syn(&bed), 0);
    let frame = tunnel(second, vtep(1), BLUE, 0, &inner);
    let fate = bed.arrive(1, UPLINK, &frame);
    assert_eq!(fate.reason(), Some(DropReason::WrongVtep));
    Talk::new("a", "c").open(&mut bed);
    let l4 = Layer4::Tcp {
        sport: 40_000,
        dport: 80,
        flags: 16,
        seq: 1001,
        ack: 5001,
    };
    let inner = build(&Talk::new("a", "c").headers(&bed, false, l4), 10);
    let fate = bed.arrive(1, UPLINK, &tunnel(second, vtep(1), BLUE, 0, &inner));
    assert_eq!(fate.at(), "c");
}

#[test]
fn congestion_on_the_underlay_is_told_inside_or_dropped() {
    let mut bed = Bed::new();
    let mut inner = build(&syn(&bed), 0);
    let frame = tunnel(vtep(0), vtep(1), BLUE, 3, &inner);
    assert_eq!(
        bed.arrive(1, UPLINK, &frame).reason(),
        Some(DropReason::Congested)
    );
    // ECN-capable: ECT(0), with the checksum brought along.
    let old = u16::from_be_bytes([inner[14], inner[15]]);
    let sum = u16::from_be_bytes([inner[24], inner[25]]);
    inner[15] |= 2;
    let sum = penstock_flow::checksum::update(sum, old, old | 2);
    inner[24..26].copy_from_slice(&sum.to_be_bytes());
    let frame = tunnel(vtep(0), vtep(1), BLUE, 3, &inner);
    let fate = bed.arrive(1, UPLINK, &frame);
    crate::bed::frames::read(fate.frame());
    assert_eq!(fate.frame()[15] & 3, 3);
}

#[test]
fn a_port_speaks_for_itself_only() {
    let mut bed = Bed::new();
    let (a, c) = (bed.place("a"), bed.place("c"));
    let good = syn(&bed);
    for (what, h, want) in [
        ("good", good, None),
        (
            "c's IP",
            Headers {
                src: bed.place("b").ip(false),
                ..good
            },
            Some(DropReason::Spoofed),
        ),
        (
            "c's MAC",
            Headers {
                src_mac: c.mac,
                ..good
            },
            Some(DropReason::Spoofed),
        ),
        (
            "the other family's address",
            Headers {
                src: c.ip(true),
                dst: c.ip(true),
                ..good
            },
            Some(DropReason::Spoofed),
        ),
        (
            "another VLAN",
            Headers { vlan: 11, ..good },
            Some(DropReason::UnknownPort),
        ),
        (
            "to everyone",
            Headers {
                dst_mac: Mac::BROADCAST,
                ..good
            },
            Some(DropReason::Multicast),
        ),
        (
            "to a group",
            Headers {
                dst: Addr::from_v4([224, 0, 0, 251]),
                ..good
            },
            Some(DropReason::Multicast),
        ),
        (
            "to itself",
            Headers {
                dst: a.ip(false),
                ..good
            },
            Some(DropReason::NoRoute),
        ),
    ] {
        let fate = bed.send("a", &build(&h, 0));
        assert_eq!(fate.reason(), want, "{what}: {fate:?}");
    }
    let told: Vec<_> = bed.nodes[0].engine.drops().collect();
    let told: Vec<_> = told.iter().map(|d| (d.event.name(), d.port)).collect();
    assert_eq!(told, [("spoofed", 1); 3]);
    // A device port that nobody is bound to.
    let fate = bed.arrive(0, 33, &build(&good, 0));
    assert_eq!(fate.reason(), Some(DropReason::UnknownPort));
    let fate = bed.arrive(0, 9999, &build(&good, 0));
    assert_eq!(fate.reason(), Some(DropReason::UnknownPort));
}

#[test]
fn a_next_hop_that_is_gone_is_no_route_and_no_panic() {
    let mut bed = Bed::new();
    let talk = Talk::new("a", "c");
    talk.open(&mut bed);
    let id = hop_to(1) + BLUE;
    let mut hop = None;
    bed.nodes[0].engine.visit_entries(
        crate::bed::world::DEVICE,
        penstock_engine::nic::Table::Nexthop,
        &mut |e, _| {
            if let Entry::Nexthop { id: found, hop: h } = e
                && *found == id
            {
                hop = Some(*h);
            }
        },
    );
    let hop = hop.expect("was written");
    bed.write(0, Op::Delete, Entry::Nexthop { id, hop });
    assert_eq!(
        talk.data(&mut bed, false).reason(),
        Some(DropReason::NoRoute)
    );
    bed.write(0, Op::Insert, Entry::Nexthop { id, hop });
    bed.tick();
    assert_eq!(talk.data(&mut bed, false).at(), "c");
    let host = Prefix::new(addr_of(&bed, "c"), 128).expect("a host");
    let mapping = Entry::Mapping {
        vni: BLUE,
        dst: host,
        nexthop: id,
    };
    bed.write(0, Op::Delete, mapping);
    assert_eq!(
        talk.data(&mut bed, false),
        Fate::Dropped {
            node: 0,
            reason: DropReason::NoRoute
        }
    );
}

#[test]
fn udp_to_roces_port_is_roce_or_nothing() {
    let mut bed = Bed::new();
    let talk = Talk {
        dport: 4791,
        ..Talk::new("a", "c")
    };
    let h = talk.headers(
        &bed,
        false,
        Layer4::Udp {
            sport: 40_000,
            dport: 4791,
        },
    );
    // Opcode, flags and version, key, queue pair, sequence number, ICRC.
    let bth = |version: u8, queue_pair: u8| {
        let mut frame = build(&h, 16);
        frame[42..58].fill(0);
        frame[43] = version;
        frame[49] = queue_pair;
        frame
    };
    for (frame, want) in [
        (bth(0, 17), None),
        (bth(0, 1), None),
        (bth(1, 17), Some(DropReason::Malformed)),
        (build(&h, 15), Some(DropReason::Malformed)),
        (build(&h, 0), Some(DropReason::Malformed)),
    ] {
        let fate = bed.send("a", &frame);
        assert_eq!(fate.reason(), want, "{fate:?}");
    }
}

#[test]
fn a_mapping_into_another_vpc_leads_nowhere() {
    let mut bed = Bed::new();
    let x = bed.place("x");
    let mapping = Entry::Mapping {
        vni: BLUE,
        dst: Prefix::new(addr_of(&bed, "c"), 128).expect("a host"),
        nexthop: x.id,
    };
    bed.write(0, Op::Modify, mapping);
    let fate = Talk::new("a", "c").syn(&mut bed);
    assert_eq!(fate.reason(), Some(DropReason::NoRoute));
}

#[test]
fn without_headroom_nothing_is_begun() {
    let mut bed = Bed::new();
    let bytes = build(&syn(&bed), 0);
    let port = bed.place("a").device_port();
    for (room, want) in [
        (49, Outcome::Drop(DropReason::NoHeadroom)),
        (
            50,
            Outcome::Send {
                device_port: UPLINK,
            },
        ),
    ] {
        let mut buffer = vec![0; room + bytes.len()];
        buffer[room..].copy_from_slice(&bytes);
        let mut frame = Frame::new(&mut buffer, room, bytes.len()).expect("fits");
        let node = &mut bed.nodes[0];
        let outcome = node
            .engine
            .process(bed.now, port, &mut frame, &mut node.outbox);
        assert_eq!(outcome, want);
        let opened = u64::from(room == 50);
        assert_eq!(bed.counters(0).connections.opened, opened);
    }
}

#[test]
fn nobody_tunnels_inside_the_tunnel() {
    let mut bed = Bed::new();
    let (sport, dport) = (50_000, 4789);
    let h = Talk::new("a", "c").headers(&bed, false, Layer4::Udp { sport, dport });
    let inner = build(&h, 8);
    let port = bed.place("a").device_port();
    let before = bed.nodes[0]
        .engine
        .counters()
        .dropped(DropReason::NestedTunnel);
    assert_eq!(
        bed.arrive(0, port, &inner),
        Fate::Dropped {
            node: 0,
            reason: DropReason::NestedTunnel
        }
    );
    let wire = tunnel(vtep(0), vtep(1), BLUE, 0, &inner);
    assert_eq!(
        bed.arrive(1, UPLINK, &wire),
        Fate::Dropped {
            node: 1,
            reason: DropReason::NestedTunnel
        }
    );
    let after = bed.nodes[0]
        .engine
        .counters()
        .dropped(DropReason::NestedTunnel);
    assert_eq!(after, before + 1);
}

#[test]
fn a_client_may_send_from_the_tunnels_port_and_is_answered() {
    let mut bed = Bed::new();
    let talk = Talk::new("a", "c");
    for (back, node, from, to) in [(false, 0, "a", "c"), (true, 1, "c", "a")] {
        let (sport, dport) = if back { (53, 4789) } else { (4789, 53) };
        let h = talk.headers(&bed, back, Layer4::Udp { sport, dport });
        let port = bed.place(from).device_port();
        assert_eq!(bed.arrive(node, port, &build(&h, 8)).at(), to);
    }
}
