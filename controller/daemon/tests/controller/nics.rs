//! Eight NICs on one node: each has its own tables, its own status, its own trouble.

use p4runtime::pipeline::{Entry, Table, nexthop};
use penstock_api::v1;
use penstock_api::v1::condition::{State, Type};

use crate::controller::Controller;
use crate::fake::Worker;
use crate::samples::{VPC, ground, node, port, port_name, with_port};
use crate::waiting::until;

const NICS: u8 = 8;

/// Port N on NIC N of one node.
async fn bed(worker: &Worker) -> Controller {
    let controller = Controller::start().await;
    let mut resources = ground();
    resources.push(node("n1", 1, &worker.address, NICS));
    resources.extend((1..=NICS).map(|n| {
        let nic = u32::from(n);
        with_port(port(nic as u16, "n1"), move |it| it.nic = nic)
    }));
    controller.apply(resources).await.unwrap();
    controller
}

async fn status(controller: &Controller, name: &str) -> v1::Status {
    controller.get(name).await.unwrap().status.unwrap()
}

fn degraded(status: &v1::Status) -> Option<&v1::Condition> {
    let mut conditions = status.conditions.iter();
    conditions.find(|it| it.r#type() == Type::Degraded)
}

fn table(nic: &v1::NicStatus, table: Table) -> &v1::NicTable {
    let mut tables = nic.tables.iter();
    tables.find(|it| it.name == table.name()).unwrap()
}

#[tokio::test]
async fn a_node_says_what_each_of_its_nics_carries() {
    let worker = Worker::start("n1", 1, NICS).await;
    let controller = bed(&worker).await;
    controller.programmed("nodes/n1").await;
    let status = status(&controller, "nodes/n1").await;
    assert_eq!(degraded(&status), None);
    let nics = &status.nodes[0].nics;
    let ids: Vec<u32> = nics.iter().map(|nic| nic.device_id).collect();
    assert_eq!(ids, (1..=8).collect::<Vec<_>>());
    for nic in nics {
        assert!(nic.programmed && nic.reason.is_empty(), "{nic:?}");
        // One port here; the seven others are remote, each behind a VTEP of its own.
        for (of, count) in [
            (Table::Vport, 1),
            (Table::SpoofGuard, 1),
            (Table::Underlay, 7),
            (Table::Mapping, 8),
            (Table::Nexthop, 8),
        ] {
            let found = table(nic, of);
            assert_eq!((found.entries, found.wanted), (count, count), "{nic:?}");
            assert_eq!(worker.count(nic.device_id, of) as u64, count);
        }
        // Tunnels leave from the uplink's own MAC.
        for entry in worker.entries(nic.device_id).into_values() {
            if let Entry::Nexthop(hop) = entry
                && let nexthop::Action::ToVtep { src_mac, .. } = hop.action
            {
                assert_eq!(src_mac, [2, 0, 0, 0, 0, 1].into(), "{hop:?}");
            }
        }
    }
    controller.stop().await;
}

#[tokio::test]
async fn a_nic_that_is_full_says_so_and_the_others_do_not() {
    let worker = Worker::start("n1", 1, NICS).await;
    worker.state.lock().capacity.insert((3, Table::Mapping), 5);
    let controller = bed(&worker).await;
    let status = until("NIC 3 to be full", || async {
        let status = status(&controller, "nodes/n1").await;
        let wrong = status.nodes.first()?.nics.iter().any(|it| !it.programmed);
        wrong.then_some(status)
    })
    .await;
    controller.not_programmed("nodes/n1", "TableFull").await;
    let why = degraded(&status).unwrap();
    assert_eq!((why.state(), &*why.reason), (State::True, "TableFull"));
    assert!(why.message.starts_with("1 of 8 NICs; NIC 3: "), "{why:?}");
    for nic in &status.nodes[0].nics {
        assert_eq!(nic.programmed, nic.device_id != 3, "{nic:?}");
        let mapping = table(nic, Table::Mapping);
        let (entries, takes) = if nic.device_id == 3 { (5, 5) } else { (8, 0) };
        let found = (mapping.entries, mapping.wanted, mapping.capacity);
        assert_eq!(found, (entries, 8, takes), "{nic:?}");
    }
    let full = &status.nodes[0].nics[2];
    let words = "table mapping has 5 of 8 entries, it takes 5";
    assert!(full.reason.contains(words), "{}", full.reason);
    assert!(full.reason.contains("so 3 resources"), "{}", full.reason);
    // Room again.
    worker.state.lock().capacity.clear();
    controller.programmed("nodes/n1").await;
    controller.stop().await;
}

#[tokio::test]
async fn an_uplink_that_is_down_degrades_its_own_ports() {
    let worker = Worker::start("n1", 1, NICS).await;
    let controller = bed(&worker).await;
    controller.programmed("nodes/n1").await;
    let words = "interface u2 is down";
    worker.state.lock().uplink_errors.insert(2, words.into());
    let wait = |name: String, wrong: bool| {
        let controller = &controller;
        async move {
            until("the uplink's state to be told", || async {
                let status = status(controller, &name).await;
                (degraded(&status).is_some() == wrong).then_some(status)
            })
            .await
        }
    };
    let told = wait("nodes/n1".into(), true).await;
    let why = degraded(&told).unwrap();
    assert_eq!(why.reason, "UplinkDown");
    assert!(why.message.contains(words), "{}", why.message);
    for nic in &told.nodes[0].nics {
        assert!(nic.programmed, "its tables are as they should be: {nic:?}");
        assert_eq!(nic.reason.contains(words), nic.device_id == 2, "{nic:?}");
    }
    for number in 1..=8 {
        let told = wait(port_name(number), number == 2).await;
        assert!(told.nodes.iter().all(|node| node.nics.is_empty()));
    }
    worker.state.lock().uplink_errors.clear();
    wait("nodes/n1".into(), false).await;
    wait(port_name(2), false).await;
    controller.stop().await;
}

#[tokio::test]
async fn a_policy_that_the_worker_cannot_keep_degrades_its_node() {
    let worker = Worker::start("n1", 1, NICS).await;
    let controller = bed(&worker).await;
    controller.programmed("nodes/n1").await;
    let told = |wrong: bool| {
        let controller = &controller;
        async move {
            until("the worker's complaint to be told", || async {
                let status = status(controller, "nodes/n1").await;
                (degraded(&status).is_some() == wrong).then_some(status)
            })
            .await
        }
    };
    let words = "in force, but not on disk";
    worker.state.lock().complaint = words.into();
    let status = told(true).await;
    let why = degraded(&status).expect("it is");
    assert_eq!(
        (why.reason.as_str(), why.message.as_str()),
        ("NotKept", words)
    );
    worker.state.lock().complaint.clear();
    told(false).await;
    controller.stop().await;
}

#[tokio::test]
async fn uplinks_that_take_less_than_declared_degrade_their_node_alone() {
    let worker = Worker::start("n1", 1, NICS).await;
    worker.state.lock().uplink_mtu = 1500;
    let controller = bed(&worker).await;
    controller.programmed("nodes/n1").await;
    let told = |reason: &'static str| {
        let controller = &controller;
        async move {
            until("the node's trouble to be told", || async {
                let status = status(controller, "nodes/n1").await;
                degraded(&status).filter(|it| it.reason == reason).cloned()
            })
            .await
        }
    };
    let narrow = "NIC 1's uplink has MTU 1500, underlayMtu says 1600";
    let why = told("MtuTooSmall").await;
    assert!(why.message.starts_with(narrow), "{why:?}");
    // What is worse comes first, and hides nothing.
    let down = "interface u2 is down";
    worker.state.lock().uplink_errors.insert(2, down.into());
    let why = told("UplinkDown").await;
    let first = format!("1 of 8 NICs; NIC 2: its uplink carries nothing: {down}");
    assert!(why.message.starts_with(&first), "{why:?}");
    let also = format!("; MtuTooSmall: {narrow}");
    assert!(why.message.contains(&also), "{why:?}");
    for name in [port_name(1), format!("{VPC}/subnets/front")] {
        let status = status(&controller, &name).await;
        assert_eq!(degraded(&status), None, "{name}");
    }
    controller.stop().await;
}

#[tokio::test]
async fn a_program_that_is_not_proved_is_not_written() {
    let worker = Worker::start("n1", 1, NICS).await;
    let controller = bed(&worker).await;
    controller.programmed("nodes/n1").await;
    let before: Vec<_> = (1..=2).map(|id| worker.entries(id)).collect();
    // The worker says that a port is where NIC 1 has its uplink: its tunnels would be
    // taken for what the port sends.
    let uplink = 501;
    worker
        .state
        .lock()
        .interfaces
        .insert("veth1".to_owned(), uplink);
    let message = until("the node is degraded", async || {
        let status = status(&controller, "nodes/n1").await;
        let found = degraded(&status).cloned()?;
        (found.reason == "NotProved").then_some(found.message)
    })
    .await;
    assert!(message.contains("1 of 8 NICs"), "{message}");
    assert!(
        message.contains("table vport") && message.contains("no port of this NIC is there"),
        "{message}"
    );
    // What was proved is still there, and the other NICs are as they should be.
    assert_eq!(worker.entries(1), before[0]);
    assert_eq!(worker.entries(2), before[1]);
    // With the interface where it was, all is well again.
    worker
        .state
        .lock()
        .interfaces
        .insert("veth1".to_owned(), 1001);
    controller.programmed("nodes/n1").await;
    assert_eq!(degraded(&status(&controller, "nodes/n1").await), None);
    controller.stop().await;
}
