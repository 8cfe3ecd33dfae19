//! Silence ends connections; what the NIC carries is no silence.

use penstock_engine::nic::Table;

use crate::bed::talk::Talk;
use crate::bed::world::DEVICE;
use crate::bed::{Bed, SECOND};

fn live(bed: &Bed) -> [u64; 2] {
    [0, 1].map(|n| bed.counters(n).connections.live)
}

fn in_nic(bed: &Bed) -> [Option<u32>; 2] {
    [0, 1].map(|n| bed.nodes[n].engine.occupancy(DEVICE, Table::Flow))
}

#[test]
fn unanswered_replied_and_established_have_their_times() {
    let mut bed = Bed::new();
    let talk = Talk::new("a", "c");
    let later = Talk {
        sport: 40_001,
        ..talk
    };
    talk.syn(&mut bed);
    later.udp(&mut bed, false);
    later.udp(&mut bed, true);
    assert_eq!(live(&bed), [2, 2]);
    bed.wait(31 * SECOND);
    assert_eq!(live(&bed), [1, 1], "the SYN has had its 30 s");
    bed.wait(90 * SECOND);
    assert_eq!(live(&bed), [0, 0], "UDP has had its 120 s");
    assert_eq!(in_nic(&bed), [Some(0), Some(0)]);
    talk.open(&mut bed);
    bed.wait(7400 * SECOND);
    assert_eq!(live(&bed), [1, 1], "TCP lives for two hours");
    bed.wait(41 * SECOND);
    assert_eq!(live(&bed), [0, 0]);
    assert_eq!(in_nic(&bed), [Some(0), Some(0)]);
    assert_eq!(bed.counters(0).connections.expired, 3);
}

#[test]
fn idle_in_software_but_busy_in_the_nic_is_kept() {
    for pair in [("a", "c"), ("a", "b")] {
        let mut bed = Bed::new();
        let talk = Talk::new(pair.0, pair.1);
        for back in [false, true] {
            talk.udp(&mut bed, back);
        }
        let slow = bed.counters(0).slow;
        for i in 0..20 {
            bed.wait(60 * SECOND);
            assert!(!talk.udp(&mut bed, i % 2 == 0).at().is_empty(), "{i}");
        }
        assert_eq!(bed.counters(0).slow, slow, "all in the NIC");
        bed.wait(121 * SECOND);
        assert_eq!(bed.counters(0).connections.live, 0);
        assert_eq!(in_nic(&bed)[0], Some(0));
    }
}

#[test]
fn closed_connections_leave_and_their_ports_can_be_used_again() {
    let mut bed = Bed::new();
    let talk = Talk::new("a", "c");
    talk.open(&mut bed);
    talk.data(&mut bed, false);
    talk.data(&mut bed, true);
    talk.close(&mut bed);
    assert_eq!(live(&bed), [1, 1], "in TIME-WAIT");
    // A new SYN, beyond the last number: a new connection, not judged as old.
    let fate = talk.tcp(&mut bed, false, crate::bed::frames::SYN, 90_000, 0, 0);
    assert_eq!(fate.at(), "c");
    assert_eq!(live(&bed), [1, 1]);
    assert_eq!(bed.counters(0).connections.opened, 2);
    bed.wait(31 * SECOND);
    assert_eq!(live(&bed), [0, 0]);
}

#[test]
fn many_end_at_once_and_none_is_left() {
    let mut bed = Bed::new();
    for sport in 0..200 {
        Talk {
            sport: 1000 + sport,
            ..Talk::new("a", "c")
        }
        .syn(&mut bed);
    }
    assert_eq!(live(&bed), [200, 200]);
    bed.wait(40 * SECOND);
    assert_eq!(live(&bed), [0, 0]);
    Talk::new("a", "c").open(&mut bed);
}
