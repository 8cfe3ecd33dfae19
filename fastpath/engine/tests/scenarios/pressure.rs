//! Full tables: what is established goes on.

use penstock_engine::Config;
use penstock_flow::DropReason;

use crate::bed::frames::{Layer4, SYN};
use crate::bed::talk::Talk;
use crate::bed::{Bed, SECOND, capacities, config};

fn bed() -> Bed {
    Bed::with(
        Config {
            max_connections: 64,
            max_connections_per_port: 1000,
            ..config()
        },
        capacities(),
    )
}

fn nth(n: u16) -> Talk {
    Talk {
        sport: 10_000 + n,
        ..Talk::new("a", "c")
    }
}

#[test]
fn a_flood_of_syns_takes_the_place_of_half_open_ones_only() {
    let mut bed = bed();
    for n in 0..20 {
        nth(n).open(&mut bed);
    }
    for n in 0..2000 {
        let fate = nth(n + 100).syn(&mut bed);
        assert_eq!(fate.at(), "c", "{n}");
    }
    assert_eq!(bed.counters(0).connections.live, 64);
    assert!(bed.counters(0).connections.evicted >= 1900);
    for n in 0..20 {
        for back in [false, true] {
            assert!(!nth(n).data(&mut bed, back).at().is_empty(), "{n}");
        }
    }
}

#[test]
fn full_of_established_connections_refuses_new_ones_with_its_reason() {
    let mut bed = bed();
    for n in 0..64 {
        nth(n).open(&mut bed);
    }
    assert_eq!(nth(99).syn(&mut bed).reason(), Some(DropReason::TableFull));
    for n in 0..64 {
        assert_eq!(nth(n).data(&mut bed, false).at(), "c");
    }
    // Whoever closes makes room.
    nth(3).close(&mut bed);
    assert_eq!(nth(99).syn(&mut bed).at(), "c");
}

#[test]
fn idle_udp_goes_and_busy_udp_stays() {
    let mut bed = bed();
    for n in 0..64 {
        for back in [false, true] {
            nth(n).udp(&mut bed, back);
        }
    }
    assert_eq!(
        nth(99).udp(&mut bed, false).reason(),
        Some(DropReason::TableFull)
    );
    bed.wait(10 * SECOND);
    // What is in the NIC is not given up: only those the flow table had no
    // room for.
    assert_eq!(nth(99).udp(&mut bed, false).at(), "c");
}

#[test]
fn one_ports_share_is_bounded() {
    let mut bed = Bed::with(
        Config {
            max_connections_per_port: 10,
            ..config()
        },
        capacities(),
    );
    for n in 0..50 {
        let fate = nth(n).syn(&mut bed);
        assert_eq!(fate.reason().is_some(), n >= 10, "{n}");
    }
    Talk::new("b", "d").open(&mut bed);
    bed.wait(31 * SECOND);
    nth(0).open(&mut bed);
}

#[test]
fn opening_is_metered_and_what_is_open_is_not() {
    let mut bed = Bed::with(
        Config {
            opens_per_second: 5,
            ..config()
        },
        capacities(),
    );
    let refused = (0..20)
        .filter(|n| nth(*n).syn(&mut bed).reason() == Some(DropReason::RateLimited))
        .count();
    assert_eq!(refused, 15);
    bed.wait(SECOND);
    let talk = Talk {
        sport: 9,
        ..Talk::new("a", "c")
    };
    talk.open(&mut bed);
    for n in 20..60 {
        nth(n).syn(&mut bed);
        assert_eq!(talk.data(&mut bed, false).at(), "c");
    }
}

#[test]
fn a_packet_between_local_ports_needs_both_and_leaves_none_alone() {
    let mut bed = Bed::with(
        Config {
            max_connections: 3,
            ..config()
        },
        capacities(),
    );
    let first = Talk::new("a", "b");
    first.open(&mut bed);
    let second = Talk {
        sport: 2,
        ..Talk::new("a", "b")
    };
    let l4 = Layer4::Tcp {
        sport: 2,
        dport: 80,
        flags: SYN,
        seq: 1,
        ack: 0,
    };
    // One place is left, and what takes it may be given up for the other half.
    let fate = second.send(&mut bed, false, l4, 0);
    assert_eq!(fate.reason(), Some(DropReason::TableFull), "{fate:?}");
    assert_eq!(bed.counters(0).connections.live, 2);
}

#[test]
fn one_ports_denials_do_not_fill_the_record() {
    let mut bed = Bed::with(
        Config {
            drop_records_per_second: 5,
            ..config()
        },
        capacities(),
    );
    bed.change(|_, policy| {
        let closed = crate::bed::world::group(crate::bed::world::BLUE, true, true, vec![]);
        policy.groups.insert(7, closed);
        for id in [1, 2] {
            if let Some(port) = policy.ports.get_mut(&id) {
                port.groups = vec![7];
            }
        }
    });
    for n in 0..100 {
        assert_eq!(
            nth(n).syn(&mut bed).reason(),
            Some(DropReason::DeniedEgress)
        );
    }
    Talk::new("b", "c").syn(&mut bed);
    let ports: Vec<u32> = bed.nodes[0].engine.drops().map(|d| d.port).collect();
    assert_eq!(ports, [2, 1, 1, 1, 1, 1], "newest first");
    assert_eq!(bed.counters(0).dropped(DropReason::DeniedEgress), 101);
}
