//! Full tables: what is established goes on.

use penstock_engine::Config;
use penstock_engine::nic::{Entry, Op};
use penstock_flow::{DropReason, Prefix};

use crate::bed::frames::{ACK, Layer4, SYN};
use crate::bed::talk::Talk;
use crate::bed::{Bed, Fate, SECOND, capacities, config};

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
    let told = bed.nodes[0].engine.drops().next().expect("a record");
    let flow = (told.tuple.sport, told.port, told.ingress);
    assert_eq!(
        (told.event.name(), flow),
        ("table_full", (10_099, 1, false))
    );
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
fn a_port_that_is_bound_again_has_what_it_had() {
    let mut bed = Bed::with(
        Config {
            max_connections_per_port: 10,
            ..config()
        },
        capacities(),
    );
    for n in 0..10 {
        nth(n).open(&mut bed);
    }
    let a = bed.place("a");
    let vport = Entry::Vport {
        device_port: a.device_port(),
        vlan: a.vlan,
        port_id: a.id,
        vni: a.vni,
    };
    // Before anybody has looked at its connections.
    bed.write(0, Op::Delete, vport);
    bed.write(0, Op::Insert, vport);
    assert_eq!(nth(10).syn(&mut bed), Fate::full(0));
    bed.settle();
    assert_eq!(nth(10).syn(&mut bed), Fate::full(0));
    for n in 0..10 {
        nth(n).data(&mut bed, false);
        nth(n).data(&mut bed, true);
        nth(n).close(&mut bed);
    }
    bed.wait(200 * SECOND);
    assert_eq!(bed.counters(0).connections.live, 0);
    for n in 0..11 {
        assert_eq!(nth(n).syn(&mut bed).reason().is_some(), n == 10, "{n}");
    }
}

#[test]
fn what_finds_no_room_at_one_end_leaves_the_other_as_it_was() {
    let mut bed = Bed::with(
        Config {
            max_connections_per_port: 1,
            ..config()
        },
        capacities(),
    );
    let talk = Talk::new("a", "c");
    talk.udp(&mut bed, false);
    Talk::new("b", "d").open(&mut bed);
    // c's address comes to b, which has all that it may have.
    let (b, ip) = (bed.place("b"), talk.dst(&bed));
    bed.change(|_, policy| {
        for (id, port) in &mut policy.ports {
            port.ips.retain(|other| *other != ip);
            if *id == b.id {
                port.ips.push(ip);
            }
        }
    });
    let mapping = Entry::Mapping {
        vni: b.vni,
        dst: Prefix::new(ip, 128).expect("a host"),
        nexthop: b.id,
    };
    bed.write(0, Op::Modify, mapping);
    bed.settle();
    let seen = |bed: &Bed| {
        let mut seen = vec![];
        let engine = &bed.nodes[0].engine;
        engine.visit_flows(bed.now, Some(1), &mut |f| {
            seen.push((f.slow.packets, bed.now - f.idle_ns));
            true
        });
        seen
    };
    let before = seen(&bed);
    assert_eq!(before.len(), 1);
    bed.now += SECOND;
    assert_eq!(talk.udp(&mut bed, false), Fate::full(0));
    assert_eq!(seen(&bed), before);
}

#[test]
fn what_others_half_open_does_not_close_a_port() {
    let mut bed = Bed::with(
        Config {
            max_connections_per_port: 10,
            ..config()
        },
        capacities(),
    );
    let steady = Talk::new("b", "c");
    steady.open(&mut bed);
    let answers = |n| Talk {
        sport: 20_000 + n,
        ..Talk::new("c", "b")
    };
    answers(0).open(&mut bed);
    for n in 0..50 {
        nth(n).syn(&mut bed);
    }
    // c has what it may have, eight of them half open; the flood has ended at
    // its own port's limit.
    assert_eq!(bed.counters(1).connections.live, 10);
    assert_eq!(nth(50).syn(&mut bed), Fate::full(0));
    for n in 1..5 {
        answers(n).open(&mut bed);
        let other = Talk {
            sport: 30_000 + n,
            ..steady
        };
        if n < 3 {
            other.open(&mut bed);
        }
    }
    assert_eq!(bed.counters(1).connections.live, 10);
    for back in [false, true] {
        assert!(!steady.data(&mut bed, back).at().is_empty());
        assert!(!answers(0).data(&mut bed, back).at().is_empty());
    }
    // No half-open one is left but its own: established ones stay.
    for n in 5..9 {
        answers(n).syn(&mut bed);
    }
    assert_eq!(answers(9).syn(&mut bed), Fate::full(1));
}

#[test]
fn each_port_has_its_share_whatever_others_hold() {
    let mut bed = Bed::with(
        Config {
            max_connections: 64,
            max_connections_per_port: 64,
            reserved_connections: 32,
            ..config()
        },
        capacities(),
    );
    // Four ports on node 0: eight of the reserve each, and 32 for whoever comes.
    for n in 0..40 {
        nth(n).open(&mut bed);
    }
    assert_eq!(nth(40).syn(&mut bed), Fate::full(0));
    for (a, b) in [("b", "d"), ("x", "y")] {
        for n in 0..8 {
            let talk = Talk {
                sport: n,
                ..Talk::new(a, b)
            };
            talk.open(&mut bed);
        }
        assert_eq!(Talk::new(a, b).syn(&mut bed), Fate::full(0));
    }
    // What one gives up of the common part is another's.
    nth(0).close(&mut bed);
    bed.wait(130 * SECOND);
    Talk::new("x", "y").open(&mut bed);
    assert_eq!(nth(40).syn(&mut bed), Fate::full(0));
}

#[test]
fn a_port_beyond_its_share_pays_with_what_is_half_open_there() {
    let mut bed = Bed::with(
        Config {
            max_connections: 64,
            max_connections_per_port: 64,
            reserved_connections: 32,
            ..config()
        },
        capacities(),
    );
    for n in 0..8 {
        let half = Talk {
            sport: n,
            ..Talk::new("x", "y")
        };
        half.syn(&mut bed);
    }
    for n in 0..100 {
        assert_eq!(nth(n).syn(&mut bed).at(), "c", "{n}");
    }
    assert_eq!(bed.counters(0).connections.live, 48);
    // x's handshakes go on: they were within its share.
    for n in 0..8 {
        let half = Talk {
            sport: n,
            ..Talk::new("x", "y")
        };
        assert_eq!(half.tcp(&mut bed, true, SYN | ACK, 5000, 1001, 0).at(), "x");
    }
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
        crate::bed::world::put_group(policy, 7, closed);
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
