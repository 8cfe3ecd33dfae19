//! Random batches against a map, and the engine's own count of its entries.

use std::collections::BTreeMap;

use p4runtime::pipeline::{self, Entry, Key, mapping, nexthop, vport};
use p4runtime::{Bits, Lpm, update};
use penstock_engine::nic::{Capacities, Table};
use penstock_engine::{Config, Engine, NicConfig};
use penstock_flow::{Addr, Mac, Prefix};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::lcore::{self, Clock};
use crate::mailbox;

const DEVICE: u32 = 1;
const UPLINK: u32 = 1;
/// Small enough to be filled by chance.
const ROOM: u32 = 3;
const LCORES: usize = 3;

/// An engine with so much room for mappings.
fn core(room: u32) -> Core {
    let mut engine = Engine::new(Config {
        max_connections: 64,
        ..Config::default()
    });
    let capacities = Capacities {
        vport: ROOM,
        mapping: room,
        nexthop: ROOM,
        ..Capacities::default()
    };
    engine
        .attach_nic(NicConfig {
            device_id: DEVICE,
            vtep: Addr::from_v4([192, 0, 2, 1]),
            uplink_port: UPLINK,
            uplink_mac: Mac([2, 0, 0, 0, 0, 1]),
            underlay: Prefix::new(Addr::from_v4([192, 0, 2, 0]), 120).expect("a prefix"),
            gateway: None,
            mtu: 1500,
            capacities,
            entry_write_ns: 0,
        })
        .expect("attaches");
    Core::new(engine, Clock::start(), None, 1024).0
}

/// One of a few keys, with one of a few actions; some that only the engine, only the
/// agent, or nobody takes.
fn any_entry() -> impl Strategy<Value = Entry> {
    let vpc = Bits::from(7_u8);
    let hop = (1_u32..6, 16_u32..19).prop_map(|(nexthop_id, port)| {
        // Device port 16 stands for one beyond the engine's.
        let device_port = if port == 16 { 9999 } else { port };
        let key = nexthop::Key { nexthop_id };
        let action = nexthop::Action::ToPort {
            device_port,
            vlan: Bits::from(0_u8),
            dst_mac: Bits::from([2, 0, 0, 0, 0, 9]),
        };
        nexthop::Entry { key, action }.into()
    });
    let route = (1_u128..6, 0_u32..3).prop_map(move |(dst, nexthop_id)| {
        let dst = Lpm::exact(0xffff_0a00_0000 + dst);
        let key = mapping::Key { vpc, dst };
        let action = mapping::Action::SetNexthop { nexthop_id };
        mapping::Entry { key, action }.into()
    });
    let port = (1_u32..6, 0_u32..4).prop_map(move |(device_port, port_id)| {
        let vlan = Bits::from(0_u8);
        let key = vport::Key { device_port, vlan };
        let action = match port_id {
            3 => vport::Action::SetUplink,
            port_id => vport::Action::SetPort { port_id, vpc },
        };
        let meter = None;
        vport::Entry { key, action, meter }.into()
    });
    prop_oneof![hop, route, port]
}

fn any_update() -> impl Strategy<Value = v1::Update> {
    (any_entry(), 0..3).prop_map(|(entry, kind)| match kind {
        0 => update::insert(&entry),
        1 => update::modify(&entry),
        _ => update::delete(&entry.key()),
    })
}

fn entries(tables: &Tables) -> BTreeMap<Key, Entry> {
    tables.iter().map(|e| (e.key(), e.clone())).collect()
}

/// What a map makes of one update, if the server took it.
fn follow(model: &mut BTreeMap<Key, Entry>, update: &v1::Update, taken: bool) -> bool {
    let Ok(change) = Change::decode(update) else {
        return !taken;
    };
    let there = model.contains_key(&change.key());
    // Whether it may have been taken.
    let possible = there != matches!(change, Change::Insert(_));
    if taken {
        match change {
            Change::Insert(entry) | Change::Modify(entry) => model.insert(entry.key(), entry),
            Change::Delete(key) => model.remove(&key),
        };
    }
    possible || !taken
}

fn count(model: &BTreeMap<Key, Entry>, table: pipeline::Table) -> u32 {
    let in_engine = |e: &&Entry| {
        e.key().table() == table
            && !matches!(e, Entry::Vport(v) if v.action == vport::Action::SetUplink)
    };
    model.values().filter(in_engine).count() as u32
}

async fn check(
    lcores: &Lcores,
    batches: Vec<(Vec<v1::Update>, Atomicity)>,
) -> Result<(), TestCaseError> {
    let writer = Writer {
        device_id: DEVICE,
        uplink: UPLINK,
        lcores,
    };
    let mut tables = Tables::default();
    let mut model = BTreeMap::new();
    for (updates, atomicity) in batches {
        let outcomes = writer
            .write(&mut tables, &updates, atomicity.into())
            .await
            .map_err(|status| TestCaseError::fail(status.to_string()))?;
        prop_assert_eq!(outcomes.len(), updates.len());
        if atomicity == Atomicity::ContinueOnError {
            for (update, outcome) in updates.iter().zip(&outcomes) {
                let followed = follow(&mut model, update, outcome.is_ok());
                prop_assert!(followed, "{:?}: {:?}", update, outcome);
            }
        } else if outcomes.iter().all(Result::is_ok) {
            for update in &updates {
                prop_assert!(follow(&mut model, update, true), "{:?}", update);
            }
        } else {
            // One is to blame, and it says why; the others are not made.
            let blamed = |outcome: &&Outcome| matches!(outcome, Err(refusal) if refusal.code != Code::Aborted);
            let count = outcomes.iter().filter(blamed).count();
            prop_assert_eq!(count, 1, "{:?}", outcomes);
            prop_assert!(outcomes.iter().all(Result::is_err));
        }
        prop_assert_eq!(&entries(&tables), &model);
        for (ours, theirs) in [
            (pipeline::Table::Vport, Table::Vport),
            (pipeline::Table::Mapping, Table::Mapping),
            (pipeline::Table::Nexthop, Table::Nexthop),
        ] {
            let used = lcores
                .each(move |core| core.engine.occupancy(DEVICE, theirs))
                .await;
            prop_assert_eq!(used, Ok(vec![Some(count(&model, ours)); LCORES]));
            prop_assert!(count(&model, ours) <= ROOM);
        }
    }
    Ok(())
}

fn any_batch() -> impl Strategy<Value = (Vec<v1::Update>, Atomicity)> {
    let atomicity = prop_oneof![
        Just(Atomicity::ContinueOnError),
        Just(Atomicity::RollbackOnError),
        Just(Atomicity::DataplaneAtomic),
    ];
    // Two updates of one key in a batch have no order in P4Runtime, but here they do.
    (vec(any_update(), 0..6), atomicity)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    // The last engine may have less room than the others: what it refuses is
    // refused, and taken back where it was done.
    #[test]
    fn agent_engines_and_model_hold_the_same(
        batches in vec(any_batch(), 1..12),
        last_room in 1..=ROOM,
    ) {
        let (handles, threads): (Vec<_>, Vec<_>) = (1..=LCORES)
            .map(|lcore| {
                let (handle, receiver) = mailbox::channel();
                let room = if lcore == LCORES { last_room } else { ROOM };
                let thread = std::thread::spawn(move || {
                    let mut core = core(room);
                    core.longest_sleep = std::time::Duration::from_micros(50);
                    lcore::run(core, receiver)
                });
                (handle, thread)
            })
            .unzip();
        let lcores = Lcores::new(handles);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let checked = runtime.block_on(async {
            let checked = check(&lcores, batches).await;
            lcores.stop().await;
            checked
        });
        for thread in threads {
            thread.join().expect("ends");
        }
        checked?;
    }
}
