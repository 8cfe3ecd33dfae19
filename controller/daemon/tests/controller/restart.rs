//! What survives the controller.

use std::sync::Arc;

use penstock_daemon::server::{Error, Options, serve};
use penstock_daemon::store::{Batch, Memory, Store};
use tokio::net::TcpListener;

use p4runtime::pipeline::Table;

use crate::controller::Controller;
use crate::fake::Worker;
use crate::samples::{ground, node, port, port_name};
use crate::waiting::{soon, until};

#[tokio::test]
async fn a_restart_keeps_everything() {
    let directory = tempfile::tempdir().unwrap();
    let worker = Worker::start("n1", 1, 1).await;
    let controller = Controller::in_directory(directory.path()).await;
    let mut resources = ground();
    resources.push(node("n1", 1, &worker.address, 1));
    resources.extend([port(1, "n1"), port(2, "n1")]);
    controller.apply(resources).await.unwrap();
    controller.delete(&[&port_name(1)]).await.unwrap();
    // Programmed may still speak of the time before the deletion.
    until("the deleted port to be gone", || async {
        (worker.count(1, Table::Vport) == 1).then_some(())
    })
    .await;
    controller.programmed("nodes/n1").await;
    let strip = |mut list: Vec<penstock_api::v1::Resource>| {
        for resource in &mut list {
            resource.status = None;
        }
        list
    };
    let before = strip(controller.list("", "", 0).await);
    controller.stop().await;
    let (entries, writes) = (worker.entries(1), worker.state.lock().writes);
    let generation = worker.state.lock().generation;

    let controller = Controller::in_directory(directory.path()).await;
    assert_eq!(strip(controller.list("", "", 0).await), before);
    controller.programmed("nodes/n1").await;
    controller.programmed(&port_name(2)).await;
    // Ids are as they were: the node needed no change at all.
    assert_eq!(worker.entries(1), entries);
    assert_eq!(worker.state.lock().writes, writes);
    assert_eq!(worker.state.lock().generation, generation);
    // A new port gets an id that nobody had.
    controller.apply(vec![port(3, "n1")]).await.unwrap();
    controller.programmed(&port_name(3)).await;
    let ids: Vec<_> = worker.state.lock().policy.ports.keys().copied().collect();
    assert_eq!(ids, [2, 3]);
    worker.assert_no_faults();
    controller.stop().await;
}

async fn start_on(store: Memory) -> Error {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let never = std::future::pending();
    let started = serve(listener, Arc::new(store), Options::default(), never);
    soon("the start to fail", started).await.unwrap_err()
}

#[tokio::test]
async fn a_row_that_cannot_be_read_stops_the_start_and_is_named() {
    let good = Arc::new(Memory::default());
    let controller = Controller::with_store(good.clone(), crate::controller::LIMITS).await;
    controller.apply(ground()).await.unwrap();
    controller.stop().await;
    let rows = good.snapshot(b"").unwrap().1;

    for (key, value) in [
        ("resource/tenants/blue", b"\xff\xff\xff".to_vec()),
        ("resource/tenants/blue", vec![]),
        (
            "resource/tenants/red",
            rows.iter()
                .find(|it| it.0 == b"resource/tenants/blue")
                .unwrap()
                .1
                .clone(),
        ),
    ] {
        let store = Memory::default();
        let mut batch = Batch::default();
        for (key, value) in &rows {
            batch.put(key.clone(), value.clone());
        }
        batch.put(key, value);
        store.commit(&batch, 0).unwrap();
        let error = start_on(store).await;
        assert!(error.to_string().contains(key), "{error}");
    }
    // A parent that is missing is found by validation.
    let store = Memory::default();
    let mut batch = Batch::default();
    for (key, value) in &rows {
        batch.put(key.clone(), value.clone());
    }
    batch.delete("resource/tenants/blue");
    store.commit(&batch, 0).unwrap();
    let error = start_on(store).await;
    assert!(
        error.to_string().contains("tenants/blue/vpcs/main"),
        "{error}"
    );
}
