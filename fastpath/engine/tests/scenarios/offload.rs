//! What the NIC carries, and what it gives back.

use penstock_engine::nic::{Entry, FlowEntry, Op, Table};
use penstock_flow::Prefix;

use crate::bed::frames::{ACK, FIN, RST};
use crate::bed::talk::Talk;
use crate::bed::world::{BLUE, DEVICE, hop_to};
use crate::bed::{Bed, capacities, config};

fn nic(bed: &Bed) -> [u64; 2] {
    [0, 1].map(|n| bed.counters(n).nic.packets)
}

fn entries(bed: &Bed, node: usize) -> Vec<FlowEntry> {
    let mut entries = Vec::new();
    bed.nodes[node]
        .engine
        .visit_flow_entries(bed.now, DEVICE, &mut |e| entries.push(*e));
    entries.sort_by_key(|e| e.ingress);
    entries
}

/// A connection's bytes as `ListFlows` tells them: slow and NIC packets.
fn packets(bed: &Bed, node: usize, port: &str) -> Vec<(u64, u64, bool)> {
    let id = bed.place(port).id;
    let mut all = Vec::new();
    bed.nodes[node]
        .engine
        .visit_flows(bed.now, Some(id), &mut |f| {
            all.push((f.slow.packets, f.nic.packets, f.offloaded));
            true
        });
    all
}

#[test]
fn tcp_after_its_handshake_and_not_before() {
    let mut bed = Bed::new();
    let talk = Talk::new("a", "c");
    assert_eq!(entries(&bed, 0), []);
    talk.open(&mut bed);
    assert_eq!(nic(&bed), [0, 0]);
    for n in [0, 1] {
        let pair = entries(&bed, n);
        assert_eq!(pair.len(), 2, "both halves");
        let port = bed.place(if n == 0 { "a" } else { "c" }).id;
        assert_eq!([pair[0].ingress, pair[1].ingress], [0, port]);
    }
    for i in 0..100 {
        assert!(!talk.data(&mut bed, i % 3 == 0).at().is_empty());
    }
    assert_eq!(nic(&bed), [100, 100], "all later packets");
    assert_eq!(packets(&bed, 0, "a"), [(3, 100, true)]);
    assert_eq!(packets(&bed, 1, "c"), [(3, 100, true)]);
}

#[test]
fn udp_and_ping_after_a_reply() {
    for v6 in [false, true] {
        let mut bed = Bed::new();
        let talk = Talk {
            v6,
            ..Talk::new("a", "d")
        };
        for _ in 0..5 {
            talk.udp(&mut bed, false);
            talk.ping(&mut bed, false);
        }
        assert_eq!(nic(&bed), [0, 0], "nobody has answered");
        talk.udp(&mut bed, true);
        talk.ping(&mut bed, true);
        for back in [false, true, false] {
            talk.udp(&mut bed, back);
            talk.ping(&mut bed, back);
        }
        assert_eq!(nic(&bed), [6, 6]);
    }
}

#[test]
fn a_local_pair_has_two_entries_for_two_connections() {
    let mut bed = Bed::new();
    let talk = Talk::new("a", "b");
    talk.open(&mut bed);
    let ids = [bed.place("a").id, bed.place("b").id];
    let pair: Vec<u32> = entries(&bed, 0).iter().map(|e| e.ingress).collect();
    assert_eq!(pair, ids);
    for i in 0..10 {
        assert!(!talk.data(&mut bed, i % 2 == 0).at().is_empty());
    }
    assert_eq!(bed.counters(0).nic.packets, 10);
    for port in ["a", "b"] {
        assert_eq!(packets(&bed, 0, port), [(3, 10, true)], "{port}");
    }
    let fate = talk.tcp(&mut bed, false, FIN | ACK, 1101, 5001, 0);
    assert_eq!(fate.at(), "b");
    assert_eq!(entries(&bed, 0), []);
    for port in ["a", "b"] {
        assert_eq!(packets(&bed, 0, port), [(4, 10, false)], "{port}");
    }
}

#[test]
fn fin_and_rst_come_to_software_and_take_both_halves_out() {
    for reset in [false, true] {
        let mut bed = Bed::new();
        let talk = Talk::new("a", "c");
        talk.open(&mut bed);
        talk.data(&mut bed, false);
        if reset {
            assert_eq!(talk.rst(&mut bed).at(), "c");
        } else {
            talk.close(&mut bed);
        }
        for n in [0, 1] {
            assert_eq!(entries(&bed, n), [], "reset {reset} node {n}");
        }
        // What is still under way passes, in software.
        let before = nic(&bed);
        let late = talk.tcp(&mut bed, true, ACK, 5001, 1001, 10);
        assert_eq!(late.at(), "a");
        assert_eq!(nic(&bed), before);
    }
}

#[test]
fn a_forged_rst_neither_cuts_nor_frees() {
    let mut bed = Bed::new();
    let talk = Talk::new("a", "c");
    talk.open(&mut bed);
    let fate = talk.tcp(&mut bed, true, RST | ACK, 5001, 1001, 0);
    assert_eq!(fate.at(), "a");
    // Its alleged sender goes on.
    for i in 0..4 {
        let fate = talk.tcp(&mut bed, i % 2 == 0, ACK, 5001 + i, 1001 + i, 100);
        assert!(!fate.at().is_empty(), "{fate:?}");
    }
    assert_eq!(packets(&bed, 0, "a").len(), 1);
}

#[test]
fn a_full_flow_table_leaves_the_rest_in_software() {
    let mut small = capacities();
    small.flow = 4;
    let mut bed = Bed::with(config(), small);
    let talks: Vec<Talk> = (0..4)
        .map(|i| Talk {
            sport: 41_000 + i,
            ..Talk::new("a", "c")
        })
        .collect();
    for talk in &talks {
        talk.open(&mut bed);
    }
    for talk in &talks {
        for back in [false, true] {
            assert!(!talk.data(&mut bed, back).at().is_empty());
        }
    }
    assert_eq!(nic(&bed), [4, 4], "two of four connections");
    assert_eq!(bed.nodes[0].engine.occupancy(DEVICE, Table::Flow), Some(4));
    assert!(bed.counters(0).offload.table_full >= 2);
    // Room again: the next packet's offer is taken.
    talks[0].close(&mut bed);
    talks[2].data(&mut bed, false);
    let before = nic(&bed);
    talks[2].data(&mut bed, false);
    assert_eq!(nic(&bed), before.map(|n| n + 1));
}

#[test]
fn a_destination_that_moves_is_followed_at_its_next_packet() {
    // c comes to node 0, onto b's device port and VLAN for this test.
    let mut bed = Bed::new();
    let talk = Talk::new("a", "c");
    talk.open(&mut bed);
    talk.data(&mut bed, false);
    let (b, c) = (bed.place("b"), bed.place("c"));
    let host = Prefix::new(c.ip(false), 128).expect("a host");
    let mapping = |nexthop| Entry::Mapping {
        vni: BLUE,
        dst: host,
        nexthop,
    };
    bed.write(0, Op::Modify, mapping(b.id));
    assert_eq!(
        talk.data(&mut bed, false).reason(),
        Some(penstock_flow::DropReason::NoRoute),
        "not b's address"
    );
    bed.write(0, Op::Modify, mapping(hop_to(1) + BLUE));
    assert_eq!(talk.data(&mut bed, false).at(), "c");
    // Each change is fenced until its connections have been looked at.
    bed.settle();
    let before = nic(&bed);
    assert_eq!(talk.data(&mut bed, false).at(), "c");
    assert_eq!(nic(&bed), before.map(|n| n + 1), "in the NIC again");
}

#[test]
fn nearly_everything_of_a_long_connection_is_the_nics() {
    let mut bed = Bed::new();
    for (a, b) in [("a", "c"), ("a", "e"), ("x", "y")] {
        let talk = Talk::new(a, b);
        talk.open(&mut bed);
        for i in 0..200 {
            talk.data(&mut bed, i % 2 == 0);
            if i % 50 == 0 {
                bed.tick();
            }
        }
        talk.close(&mut bed);
    }
    let c = bed.counters(0);
    let share = c.nic.packets as f64 / (c.nic.packets + c.slow.packets) as f64;
    assert!(share >= 0.95, "{share}");
}
