//! Writes to the tables, and their refusals.

use penstock_engine::nic::{
    AclAction, AclKey, Entry, FenceKey, Hop, Op, Range, Table, TableError, Ternary, Update,
};
use penstock_flow::{Addr, DropReason, Mac, Prefix};

use crate::bed::talk::Talk;
use crate::bed::world::{BLUE, DEVICE, UPLINK, vtep};
use crate::bed::{Bed, capacities};

fn samples() -> Vec<Entry> {
    let mac = Mac([2, 0, 0, 0, 0, 9]);
    vec![
        Entry::Vport {
            device_port: 40,
            vlan: 3,
            port_id: 90,
            vni: BLUE,
        },
        Entry::Underlay {
            src_vtep: vtep(9),
            dst_vtep: vtep(0),
            vni: BLUE,
            decap_vni: BLUE,
        },
        Entry::SpoofGuard {
            port_id: 90,
            mac,
            ip: vtep(9),
        },
        Entry::Acl {
            key: AclKey::default(),
            priority: 1,
            action: AclAction::Ask,
        },
        Entry::Mapping {
            vni: BLUE,
            dst: Prefix::new(Addr::from_v4([10, 9, 0, 0]), 112).expect("a prefix"),
            nexthop: 4,
        },
        Entry::Nexthop {
            id: 4000,
            hop: Hop::ToPort {
                device_port: 40,
                vlan: 3,
                dst_mac: mac,
            },
        },
    ]
}

#[test]
fn every_table_tells_new_from_known_and_missing() {
    let mut bed = Bed::new();
    let engine = &mut bed.nodes[0].engine;
    let mut write = |op, entry| engine.write(DEVICE, &Update { op, entry });
    for entry in samples() {
        let table = entry.table();
        assert_eq!(write(Op::Modify, entry), Err(TableError::Missing(table)));
        assert_eq!(write(Op::Delete, entry), Err(TableError::Missing(table)));
        assert_eq!(write(Op::Insert, entry), Ok(()));
        assert_eq!(write(Op::Insert, entry), Err(TableError::Exists(table)));
        assert_eq!(write(Op::Modify, entry), Ok(()));
        assert_eq!(write(Op::Delete, entry), Ok(()));
        assert_eq!(write(Op::Delete, entry), Err(TableError::Missing(table)));
    }
    let unknown = engine.write(
        9,
        &Update {
            op: Op::Insert,
            entry: samples()[0],
        },
    );
    assert_eq!(unknown, Err(TableError::UnknownDevice(9)));
}

#[test]
fn a_full_table_names_itself_and_stays_readable() {
    let mut bed = Bed::new();
    let engine = &mut bed.nodes[0].engine;
    for priority in 1..=20 {
        let entry = Entry::Acl {
            key: AclKey::default(),
            priority,
            action: AclAction::Ask,
        };
        let update = Update {
            op: Op::Insert,
            entry,
        };
        let capacity = capacities().acl;
        let want = if priority <= capacity {
            Ok(())
        } else {
            let table = Table::Acl;
            Err(TableError::Full { table, capacity })
        };
        assert_eq!(engine.write(DEVICE, &update), want);
    }
    for table in Table::ALL {
        let mut seen = 0;
        engine.visit_entries(DEVICE, table, &mut |e, _| {
            assert_eq!(e.table(), table);
            seen += 1;
        });
        if table != Table::Flow {
            assert_eq!(engine.occupancy(DEVICE, table), Some(seen), "{table}");
        }
    }
}

#[test]
fn nonsense_is_refused_by_field() {
    let mut bed = Bed::new();
    let engine = &mut bed.nodes[0].engine;
    let vport = |device_port, vlan, port_id, vni| Entry::Vport {
        device_port,
        vlan,
        port_id,
        vni,
    };
    let acl = |key| Entry::Acl {
        key,
        priority: 1,
        action: AclAction::Drop,
    };
    for (entry, field) in [
        (vport(0, 0, 1, 1), "device_port"),
        (vport(64, 0, 1, 1), "device_port"),
        (vport(UPLINK, 0, 1, 1), "device_port"),
        (vport(40, 4095, 1, 1), "vlan"),
        (vport(40, 0, 0, 1), "port_id"),
        (vport(40, 0, 1, 0), "vpc"),
        (vport(40, 0, 1, 1 << 24), "vpc"),
        (
            acl(AclKey {
                vni: Ternary { value: 3, mask: 2 },
                ..AclKey::default()
            }),
            "vpc",
        ),
        (
            acl(AclKey {
                sport: Range { low: 5, high: 4 },
                ..AclKey::default()
            }),
            "sport",
        ),
        (
            Entry::Nexthop {
                id: 9,
                hop: Hop::ToFrontEnd {
                    device_port: 2,
                    src_mac: Mac::GATEWAY,
                    dst_mac: Mac::GATEWAY,
                },
            },
            "to_front_end.device_port",
        ),
    ] {
        let update = Update {
            op: Op::Insert,
            entry,
        };
        match engine.write(DEVICE, &update) {
            Err(TableError::Invalid { field: f, .. }) => assert_eq!(f, field, "{entry:?}"),
            other => panic!("{entry:?}: {other:?}"),
        }
    }
}

fn to(bed: &Bed, name: &str) -> Ternary<u128> {
    Ternary {
        value: bed.place(name).ip(false).0,
        mask: u128::MAX,
    }
}

#[test]
fn static_rules_answer_without_a_connection() {
    let mut bed = Bed::new();
    let entry = |dst, action| Entry::Acl {
        key: AclKey {
            dst,
            ..AclKey::default()
        },
        priority: 10,
        action,
    };
    let (c, d) = (to(&bed, "c"), to(&bed, "d"));
    for n in [0, 1] {
        bed.write(n, Op::Insert, entry(c, AclAction::Allow));
    }
    bed.write(0, Op::Insert, entry(d, AclAction::Drop));
    let allowed = Talk::new("a", "c");
    for _ in 0..3 {
        assert_eq!(allowed.udp(&mut bed, false).at(), "c");
    }
    assert_eq!(bed.counters(0).nic.packets, 3);
    assert_eq!(bed.counters(0).connections.opened, 0);
    let denied = Talk::new("a", "d").udp(&mut bed, false);
    assert_eq!(denied.reason(), Some(DropReason::DeniedAcl));
    // TCP's SYN is asked about whatever static rules say.
    allowed.open(&mut bed);
}

#[test]
fn fences_are_the_engines_own() {
    let mut bed = Bed::new();
    let engine = &mut bed.nodes[0].engine;
    for op in [Op::Insert, Op::Modify, Op::Delete] {
        let entry = Entry::Fence {
            key: FenceKey::default(),
            priority: 1,
        };
        let refused = engine.write(DEVICE, &Update { op, entry });
        assert_eq!(refused, Err(TableError::ReadOnly(Table::Fence)));
    }
}
