//! The reconciler against fake workers.

use std::collections::BTreeSet;

use p4runtime::pipeline::{Entry, Key, Table, mapping, nexthop, vport};
use p4runtime::{Bits, Lpm};
use penstock_api::v1::condition::{State, Type};

use crate::controller::{Controller, LIMITS};
use crate::fake::{Step, Worker};
use crate::samples::{VPC, ground, group, node, port, port_name, vpc, with_port};
use crate::waiting::until;

async fn bed(workers: &[&Worker], ports: &[(u16, &str)]) -> Controller {
    let controller = Controller::start().await;
    let mut resources = ground();
    for (index, worker) in (1_u8..).zip(workers) {
        let (name, nics) = {
            let state = worker.state.lock();
            (state.node.clone(), u8::try_from(state.vteps.len()).unwrap())
        };
        resources.push(node(&name, index, &worker.address, nics));
    }
    resources.extend(ports.iter().map(|(number, node)| port(*number, node)));
    controller.apply(resources).await.unwrap();
    controller
}

/// Lets a few periods pass.
async fn periods(count: u32) {
    tokio::time::sleep(LIMITS.period * count).await;
}

#[tokio::test]
async fn a_new_node_gets_policy_and_tables() {
    let one = Worker::start("n1", 1, 1).await;
    let two = Worker::start("n2", 2, 1).await;
    let controller = bed(&[&one, &two], &[(1, "n1"), (2, "n2")]).await;
    for name in [&port_name(1), VPC, "nodes/n1", "nodes/n2", "tenants/blue"] {
        controller.programmed(name).await;
    }
    {
        let state = one.state.lock();
        assert_eq!(state.snapshots, 1);
        assert_eq!(state.policy.ports.len(), 1);
        assert_eq!(state.policy.endpoints.len(), 2);
        assert_eq!(state.policy.vteps.len(), 1);
        assert_eq!(state.commits, 1);
        // Policy before any table, next hops before mappings.
        assert!(matches!(state.history[0], Step::Policy { .. }));
        let place = |table| {
            state
                .history
                .iter()
                .position(|it| *it == Step::Write(table))
        };
        assert!(place(Table::Nexthop) < place(Table::Mapping));
    }
    for (table, count) in [
        (Table::Vport, 1),
        (Table::SpoofGuard, 1),
        (Table::Underlay, 1),
        (Table::Mapping, 2),
        (Table::Nexthop, 2),
        (Table::Acl, 0),
    ] {
        assert_eq!(one.count(1, table), count, "{table:?}");
    }
    let key = nexthop::Key { nexthop_id: 2 };
    let Some(Entry::Nexthop(hop)) = one.entries(1).get(&Key::Nexthop(key)).cloned() else {
        panic!("no next hop to the other node");
    };
    assert!(matches!(
        hop.action,
        nexthop::Action::ToVtep { device_port: 501, dst_mac, .. } if dst_mac.get() == 0
    ));
    // n of m, and what each node has.
    let status = controller.get(&port_name(1)).await.unwrap().status.unwrap();
    assert_eq!(status.nodes.len(), 2);
    assert!(
        status
            .nodes
            .iter()
            .all(|it| it.programmed && it.generation > 0)
    );
    assert_eq!(status.nodes[0].nic_entries, 4);
    assert_eq!(status.nodes[1].nic_entries, 2);
    one.assert_no_faults();
    two.assert_no_faults();
    controller.stop().await;
}

#[tokio::test]
async fn nothing_changed_nothing_written() {
    let worker = Worker::start("n1", 1, 2).await;
    let on_second = with_port(port(2, "n1"), |it| it.nic = 2);
    let controller = bed(&[&worker], &[(1, "n1")]).await;
    controller.apply(vec![on_second]).await.unwrap();
    controller.programmed(&port_name(2)).await;
    controller.programmed("nodes/n1").await;
    let before = {
        let state = worker.state.lock();
        (state.writes, state.snapshots, state.deltas, state.reads)
    };
    periods(4).await;
    {
        let state = worker.state.lock();
        assert_eq!(
            (state.writes, state.snapshots, state.deltas),
            (before.0, before.1, before.2)
        );
        assert!(state.reads >= before.3 + 4, "it did look");
    }
    // A change that does not concern this node costs it nothing either.
    controller
        .apply(vec![crate::samples::tenant("red")])
        .await
        .unwrap();
    controller.programmed("nodes/n1").await;
    assert_eq!(worker.state.lock().writes, before.0);
    let condition = controller.programmed("nodes/n1").await;
    assert!(
        condition.message.contains("0 repairs"),
        "{}",
        condition.message
    );
    controller.stop().await;
}

#[tokio::test]
async fn drift_is_repaired_and_reported() {
    let worker = Worker::start("n1", 1, 1).await;
    let controller = bed(&[&worker], &[(1, "n1"), (2, "n1")]).await;
    controller.programmed("nodes/n1").await;
    let wanted = worker.entries(1);
    {
        let mut state = worker.state.lock();
        let nic = state.nics.get_mut(&1).unwrap();
        // One gone, one changed, one too many.
        let gone = nic
            .entries
            .keys()
            .find(|it| it.table() == Table::SpoofGuard);
        let gone = gone.unwrap().clone();
        nic.entries.remove(&gone);
        let changed = nic.entries.iter().find_map(|(key, entry)| match entry {
            Entry::Mapping(entry) => Some((key.clone(), entry.clone())),
            _ => None,
        });
        let (key, mut entry) = changed.unwrap();
        let mapping::Action::SetNexthop { nexthop_id } = entry.action;
        entry.action = mapping::Action::SetNexthop {
            nexthop_id: 3 - nexthop_id,
        };
        nic.entries.insert(key, entry.into());
        let stranger: Entry = mapping::Entry {
            key: mapping::Key {
                vpc: Bits::from(9_u8),
                dst: Lpm::exact(77),
            },
            action: mapping::Action::SetNexthop { nexthop_id: 1 },
        }
        .into();
        nic.entries.insert(stranger.key(), stranger);
    }
    until("the tables to be repaired", || async {
        (worker.entries(1) == wanted).then_some(())
    })
    .await;
    until("the repair to be reported", || async {
        let condition = controller.programmed("nodes/n1").await;
        condition
            .message
            .contains("3 repairs of drift")
            .then_some(())
    })
    .await;
    worker.assert_no_faults();
    controller.stop().await;
}

/// The worker fills in the MAC of a neighbour: that is no drift.
#[tokio::test]
async fn a_resolved_neighbour_is_left_alone() {
    let one = Worker::start("n1", 1, 1).await;
    let two = Worker::start("n2", 2, 1).await;
    let controller = bed(&[&one, &two], &[(1, "n1"), (2, "n2")]).await;
    controller.programmed("nodes/n1").await;
    let writes = {
        let mut state = one.state.lock();
        let nic = state.nics.get_mut(&1).unwrap();
        for entry in nic.entries.values_mut() {
            if let Entry::Nexthop(hop) = entry
                && let nexthop::Action::ToVtep { dst_mac, .. } = &mut hop.action
            {
                *dst_mac = Bits::from([2, 0, 0, 0, 0, 9]);
            }
        }
        state.writes
    };
    periods(3).await;
    assert_eq!(one.state.lock().writes, writes);
    controller.stop().await;
}

#[tokio::test]
async fn changes_travel_as_deltas_and_policy_goes_first() {
    let worker = Worker::start("n1", 1, 1).await;
    let controller = bed(&[&worker], &[(1, "n1"), (2, "n1")]).await;
    controller.programmed("nodes/n1").await;
    worker.state.lock().history.clear();
    controller.delete(&[&port_name(1)]).await.unwrap();
    until("the port to be gone", || async {
        (worker.count(1, Table::Vport) == 1).then_some(())
    })
    .await;
    {
        let state = worker.state.lock();
        assert_eq!((state.snapshots, state.deltas), (1, 1));
        let Step::Policy { ports, .. } = &state.history[0] else {
            panic!("tables before policy: {:?}", state.history);
        };
        assert_eq!(*ports, BTreeSet::from([2]));
        assert!(
            state.history[1..]
                .iter()
                .all(|it| matches!(it, Step::Delete(_)))
        );
    }
    // A rule: policy only, no table is touched.
    let writes = worker.state.lock().writes;
    controller.apply(vec![group("web", &[443])]).await.unwrap();
    controller
        .programmed(&format!("{VPC}/securityGroups/web"))
        .await;
    {
        let state = worker.state.lock();
        assert_eq!((state.deltas, state.writes), (2, writes));
        assert!(
            state
                .policy
                .lists
                .values()
                .any(|it| it.rules[0].ports[0].first == 443)
        );
    }
    worker.assert_no_faults();
    controller.stop().await;
}

#[tokio::test]
async fn another_vni_is_another_vpc_to_a_node() {
    let one = Worker::start("n1", 1, 1).await;
    let two = Worker::start("n2", 2, 1).await;
    let controller = bed(&[&one, &two], &[(1, "n1"), (2, "n2")]).await;
    controller.programmed("nodes/n1").await;
    controller.programmed("nodes/n2").await;
    one.state.lock().history.clear();
    controller.apply(vec![vpc(VPC, 7009)]).await.unwrap();
    controller.programmed(VPC).await;
    for worker in [&one, &two] {
        let state = worker.state.lock();
        let policy = &state.policy;
        assert_eq!(policy.vpcs.keys().collect::<Vec<_>>(), [&7009]);
        assert!(policy.ports.values().all(|it| it.vni == 7009));
        assert!(policy.subnets.values().all(|it| it.vni == 7009));
        assert!(policy.groups.values().all(|it| it.vni == 7009));
        let keys: Vec<_> = policy.endpoints.keys().map(|(vni, _)| *vni).collect();
        assert_eq!(keys, [7009, 7009]);
        assert_eq!((state.snapshots, state.deltas), (1, 1));
    }
    assert!(matches!(one.state.lock().history[0], Step::Policy { .. }));
    // No entry is left of the old one.
    for (table, count) in [
        (Table::Vport, 1),
        (Table::Underlay, 1),
        (Table::Mapping, 2),
        (Table::Nexthop, 2),
    ] {
        assert_eq!(one.count(1, table), count, "{table:?}");
    }
    for entry in one.entries(1).into_values() {
        let vni = match entry {
            Entry::Vport(it) => match it.action {
                vport::Action::SetPort { vpc, .. } => vpc,
                other => panic!("{other:?}"),
            },
            Entry::Underlay(it) => it.key.vni,
            Entry::Mapping(it) => it.key.vpc,
            Entry::Nexthop(it) => match it.action {
                nexthop::Action::ToVtep { vni, .. } => vni,
                _ => continue,
            },
            _ => continue,
        };
        assert_eq!(vni.get(), 7009);
    }
    one.assert_no_faults();
    two.assert_no_faults();
    controller.stop().await;
}

#[tokio::test]
async fn resync_is_answered_with_a_snapshot() {
    let worker = Worker::start("n1", 1, 1).await;
    let controller = bed(&[&worker], &[(1, "n1")]).await;
    controller.programmed("nodes/n1").await;
    worker.state.lock().resync_next = 1;
    controller.apply(vec![port(2, "n1")]).await.unwrap();
    controller.programmed(&port_name(2)).await;
    {
        let state = worker.state.lock();
        assert_eq!((state.snapshots, state.deltas), (2, 1));
        assert_eq!(state.policy.ports.len(), 2);
    }
    controller.stop().await;
}

#[tokio::test]
async fn a_refused_policy_is_reported_and_tried_again() {
    let worker = Worker::start("n1", 1, 1).await;
    worker.state.lock().refuse_next = u64::MAX;
    let controller = bed(&[&worker], &[(1, "n1")]).await;
    let condition = controller
        .not_programmed(&port_name(1), "PolicyRefused")
        .await;
    assert!(
        condition.message.contains("refused by the test"),
        "{}",
        condition.message
    );
    // No table is written for a policy that is not in force.
    assert_eq!(worker.state.lock().writes, 0);
    worker.state.lock().refuse_next = 0;
    controller.programmed(&port_name(1)).await;
    controller.stop().await;
}

#[tokio::test]
async fn a_missing_attachment_is_told_and_found_later() {
    let worker = Worker::start("n1", 1, 1).await;
    worker.state.lock().interfaces.remove("veth2");
    let controller = bed(&[&worker], &[(1, "n1"), (2, "n1")]).await;
    controller.programmed(&port_name(1)).await;
    let condition = controller
        .not_programmed(&port_name(2), "AttachmentNotFound")
        .await;
    assert!(
        condition
            .message
            .contains("\"veth2\" is not found on nodes/n1"),
        "{}",
        condition.message
    );
    controller
        .condition(&port_name(2), Type::Resolved, State::False)
        .await;
    controller
        .condition("nodes/n1", Type::Programmed, State::False)
        .await;
    assert_eq!(worker.count(1, Table::Vport), 1);
    assert_eq!(worker.count(1, Table::Mapping), 1);

    worker
        .state
        .lock()
        .interfaces
        .insert("veth2".to_owned(), 1002);
    controller.programmed(&port_name(2)).await;
    controller
        .condition(&port_name(2), Type::Resolved, State::True)
        .await;
    assert_eq!(worker.count(1, Table::Vport), 2);
    controller.stop().await;
}

#[tokio::test]
async fn a_dead_node_is_told_and_comes_back() {
    let mut worker = Worker::start("n1", 1, 1).await;
    let controller = bed(&[&worker], &[(1, "n1")]).await;
    controller.programmed("nodes/n1").await;
    let writes = worker.state.lock().writes;
    worker.pause();
    controller
        .not_programmed("nodes/n1", "NodeUnreachable")
        .await;
    let condition = controller
        .condition(&port_name(1), Type::Programmed, State::Unknown)
        .await;
    assert_eq!(condition.reason, "NodeUnreachable");
    // It kept everything: nothing to write.
    worker.resume().await;
    controller.programmed("nodes/n1").await;
    assert_eq!(worker.state.lock().writes, writes);
    // It has lost everything: all of it is written again.
    let wanted = worker.entries(1);
    worker.pause();
    worker.forget();
    controller
        .not_programmed("nodes/n1", "NodeUnreachable")
        .await;
    worker.resume().await;
    controller.programmed("nodes/n1").await;
    assert_eq!(worker.entries(1), wanted);
    assert_eq!(worker.state.lock().policy.ports.len(), 1);
    worker.assert_no_faults();
    controller.stop().await;
}

#[tokio::test]
async fn the_wrong_worker_is_not_touched() {
    let worker = Worker::start("n2", 1, 1).await;
    let controller = Controller::start().await;
    let mut resources = ground();
    resources.push(node("n1", 1, &worker.address, 1));
    resources.push(port(1, "n1"));
    controller.apply(resources).await.unwrap();
    let condition = controller
        .not_programmed("nodes/n1", "NodeUnreachable")
        .await;
    assert!(
        condition.message.contains("is \"n2\""),
        "{}",
        condition.message
    );
    {
        let state = worker.state.lock();
        assert_eq!((state.snapshots, state.writes, state.streams), (0, 0, 0));
    }
    controller.stop().await;
}

#[tokio::test]
async fn a_nic_that_is_not_as_declared_is_not_programmed() {
    let worker = Worker::start("n1", 1, 1).await;
    let controller = Controller::start().await;
    let mut resources = ground();
    resources.push(node("n1", 1, &worker.address, 2));
    resources.extend([port(1, "n1"), with_port(port(2, "n1"), |it| it.nic = 2)]);
    controller.apply(resources).await.unwrap();
    controller.not_programmed("nodes/n1", "NicNotFound").await;
    controller
        .not_programmed(&port_name(2), "NicNotFound")
        .await;
    until("NIC 1 to be programmed", || async {
        (worker.count(1, Table::Vport) == 1).then_some(())
    })
    .await;
    // Another VTEP than the worker has.
    controller
        .apply(vec![node("n1", 9, &worker.address, 2)])
        .await
        .unwrap();
    controller.not_programmed("nodes/n1", "NicMismatch").await;
    controller.stop().await;
}

#[tokio::test]
async fn a_full_table_is_told_of_the_resource_and_tried_again() {
    let worker = Worker::start("n1", 1, 1).await;
    worker.state.lock().capacity.insert((1, Table::Vport), 2);
    let controller = bed(&[&worker], &[(1, "n1"), (2, "n1"), (3, "n1")]).await;
    let victim = until("one of three ports not to fit", || async {
        for number in 1..=3 {
            let resource = controller.get(&port_name(number)).await.ok()?;
            let mut conditions = resource.status?.conditions.into_iter();
            if conditions.any(|it| it.reason == "TableFull" && it.message.contains("vport")) {
                return Some(number);
            }
        }
        None
    })
    .await;
    // The others are not drawn in.
    for number in (1..=3).filter(|it| *it != victim) {
        controller.programmed(&port_name(number)).await;
    }
    controller.not_programmed("nodes/n1", "TableFull").await;
    // Room again, by another resource's end.
    let other = victim % 3 + 1;
    controller.delete(&[&port_name(other)]).await.unwrap();
    controller.programmed(&port_name(victim)).await;
    controller.programmed("nodes/n1").await;
    controller.stop().await;
}

#[tokio::test]
async fn one_bad_update_among_many_is_told_of_its_resource_only() {
    let worker = Worker::start("n1", 1, 1).await;
    let ports: Vec<_> = (1..=60).map(|number| (number, "n1")).collect();
    // The id of a port is its place in the request, from 1.
    worker
        .state
        .lock()
        .poisoned
        .insert(Key::SpoofGuard(p4runtime::pipeline::spoof_guard::Key {
            port_id: 57,
            src_mac: [2, 0, 0, 0, 0, 57].into(),
            src_ip: 0xffff_0a01_0043,
        }));
    let controller = bed(&[&worker], &ports).await;
    let condition = controller.not_programmed(&port_name(57), "Refused").await;
    assert!(
        condition.message.contains("poisoned by the test"),
        "{}",
        condition.message
    );
    for number in (1..=60).filter(|it| *it != 57) {
        controller.programmed(&port_name(number)).await;
    }
    worker.state.lock().poisoned.clear();
    controller.programmed("nodes/n1").await;
    worker.assert_no_faults();
    controller.stop().await;
}

#[tokio::test]
async fn failed_reads_and_writes_cause_no_storm_and_heal() {
    let worker = Worker::start("n1", 1, 1).await;
    let controller = bed(&[&worker], &[(1, "n1"), (2, "n1")]).await;
    controller.programmed("nodes/n1").await;
    let (wanted, writes) = (worker.entries(1), worker.state.lock().writes);
    worker.state.lock().fail_reads = 3;
    controller.not_programmed("nodes/n1", "NicFailed").await;
    controller.programmed("nodes/n1").await;
    assert_eq!(
        worker.state.lock().writes,
        writes,
        "a failed read writes nothing"
    );
    // Half a batch is applied, and nobody says which half.
    worker.state.lock().fail_writes = 3;
    controller.apply(vec![port(3, "n1")]).await.unwrap();
    controller.programmed(&port_name(3)).await;
    assert_eq!(worker.entries(1).len(), wanted.len() + 4);
    worker.assert_no_faults();
    controller.stop().await;
}

#[tokio::test]
async fn two_controllers_do_not_fight() {
    let worker = Worker::start("n1", 1, 1).await;
    let first = bed(&[&worker], &[(1, "n1")]).await;
    first.programmed("nodes/n1").await;
    // A second one, on a store of its own: the newer takes over, for good.
    let second = bed(&[&worker], &[(1, "n1")]).await;
    second.programmed("nodes/n1").await;
    let condition = first.not_programmed("nodes/n1", "NotPrimary").await;
    assert!(
        condition.message.contains("another controller"),
        "{}",
        condition.message
    );
    let before = {
        let state = worker.state.lock();
        (state.nics[&1].primary, state.policy_streams, state.writes)
    };
    periods(5).await;
    {
        let state = worker.state.lock();
        let after = (state.nics[&1].primary, state.policy_streams, state.writes);
        assert_eq!(after, before);
    }
    // When it goes, the first one is there.
    second.stop().await;
    first.programmed("nodes/n1").await;
    first.stop().await;
}

#[tokio::test]
async fn a_controller_with_an_old_store_still_becomes_primary() {
    let worker = Worker::start("n1", 1, 1).await;
    worker.state.lock().nics.get_mut(&1).unwrap().highest = p4runtime::election::Id(77 << 64 | 5);
    let controller = bed(&[&worker], &[(1, "n1")]).await;
    controller.programmed("nodes/n1").await;
    assert!(worker.state.lock().nics[&1].highest.0 >> 64 >= 78);
    worker.assert_no_faults();
    controller.stop().await;
}

#[tokio::test]
async fn a_foreign_pipeline_is_replaced_once() {
    let worker = Worker::start("n1", 1, 1).await;
    worker.state.lock().nics.get_mut(&1).unwrap().cookie = Some(1);
    let controller = bed(&[&worker], &[(1, "n1")]).await;
    controller.programmed("nodes/n1").await;
    assert_eq!(worker.state.lock().commits, 1);
    controller.stop().await;
}

#[tokio::test]
async fn a_node_that_moves_is_followed() {
    let mut old = Worker::start("n1", 1, 1).await;
    let controller = bed(&[&old], &[(1, "n1")]).await;
    controller.programmed("nodes/n1").await;
    let new = Worker::start("n1", 1, 1).await;
    controller
        .apply(vec![node("n1", 1, &new.address, 1)])
        .await
        .unwrap();
    until("the new worker to be programmed", || async {
        (new.count(1, Table::Vport) == 1).then_some(())
    })
    .await;
    old.pause();
    controller.programmed("nodes/n1").await;
    // And one that goes is let go.
    controller
        .delete(&[&port_name(1), "nodes/n1"])
        .await
        .unwrap();
    until("the session to end", || async {
        new.state.lock().nics[&1].primary.is_none().then_some(())
    })
    .await;
    controller.stop().await;
}
