//! Whatever happens on the way, in the end the tables are what they should be.

use std::collections::BTreeSet;

use p4runtime::pipeline::Table;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::controller::Controller;
use crate::fake::Worker;
use crate::samples::{ground, group, node, port, port_name};
use crate::waiting::until;

#[derive(Clone, Copy, Debug)]
enum Event {
    Add(u16, u8),
    Remove(u16),
    Rule(u16),
    Pause(u8),
    Resume(u8),
    Forget(u8),
    FailWrites(u8),
    FailReads(u8),
    Resync(u8),
    Corrupt(u8),
    Wait(u8),
}

fn event() -> impl Strategy<Value = Event> {
    let node = 0_u8..2;
    prop_oneof![
        4 => (1_u16..9, node.clone()).prop_map(|(port, node)| Event::Add(port, node)),
        3 => (1_u16..9).prop_map(Event::Remove),
        2 => (1_u16..9).prop_map(Event::Rule),
        1 => node.clone().prop_map(Event::Pause),
        2 => node.clone().prop_map(Event::Resume),
        1 => node.clone().prop_map(Event::Forget),
        1 => node.clone().prop_map(Event::FailWrites),
        1 => node.clone().prop_map(Event::FailReads),
        1 => node.clone().prop_map(Event::Resync),
        2 => node.prop_map(Event::Corrupt),
        3 => (0_u8..30).prop_map(Event::Wait),
    ]
}

#[test]
fn the_tables_end_as_declared() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut runner = TestRunner::new(Config {
        cases: 12,
        max_shrink_iters: 20,
        failure_persistence: None,
        ..Config::default()
    });
    runner
        .run(&proptest::collection::vec(event(), 1..40), |events| {
            runtime.block_on(run(events));
            Ok(())
        })
        .unwrap();
}

async fn run(events: Vec<Event>) {
    let names = ["n1", "n2"];
    let mut workers = [
        Worker::start(names[0], 1, 1).await,
        Worker::start(names[1], 2, 1).await,
    ];
    let mut up = [true, true];
    let controller = Controller::start().await;
    let mut resources = ground();
    for (index, worker) in workers.iter().enumerate() {
        let number = u8::try_from(index).unwrap() + 1;
        resources.push(node(names[index], number, &worker.address, 1));
    }
    controller.apply(resources).await.unwrap();
    let mut ports: BTreeSet<(u16, usize)> = BTreeSet::new();
    for event in events {
        match event {
            Event::Add(number, at) => {
                let at = usize::from(at);
                ports.retain(|(other, _)| *other != number);
                ports.insert((number, at));
                controller
                    .apply(vec![port(number, names[at])])
                    .await
                    .unwrap();
            }
            Event::Remove(number) => {
                if ports.iter().any(|(other, _)| *other == number) {
                    ports.retain(|(other, _)| *other != number);
                    controller.delete(&[&port_name(number)]).await.unwrap();
                }
            }
            Event::Rule(number) => {
                controller
                    .apply(vec![group("web", &[number.into()])])
                    .await
                    .unwrap();
            }
            Event::Pause(at) => {
                workers[usize::from(at)].pause();
                up[usize::from(at)] = false;
            }
            Event::Resume(at) => {
                if !up[usize::from(at)] {
                    workers[usize::from(at)].resume().await;
                    up[usize::from(at)] = true;
                }
            }
            Event::Forget(at) => {
                // A worker forgets only when it dies.
                if !up[usize::from(at)] {
                    workers[usize::from(at)].forget();
                }
            }
            Event::FailWrites(at) => workers[usize::from(at)].state.lock().fail_writes = 1,
            Event::FailReads(at) => workers[usize::from(at)].state.lock().fail_reads = 1,
            Event::Resync(at) => workers[usize::from(at)].state.lock().resync_next = 1,
            Event::Corrupt(at) => {
                let mut state = workers[usize::from(at)].state.lock();
                let entries = &mut state.nics.get_mut(&1).unwrap().entries;
                // Not a next hop that a mapping needs: the fake watches those.
                let victim = entries
                    .keys()
                    .find(|it| it.table() != Table::Nexthop)
                    .cloned();
                if let Some(key) = victim {
                    entries.remove(&key);
                }
            }
            Event::Wait(millis) => {
                tokio::time::sleep(std::time::Duration::from_millis(millis.into())).await;
            }
        }
    }
    for (at, worker) in workers.iter_mut().enumerate() {
        if !up[at] {
            worker.resume().await;
        }
    }
    for at in 0..2 {
        let here = ports.iter().filter(|(_, node)| *node == at).count();
        let there = ports.iter().any(|(_, node)| *node != at);
        // A VPC is on a node if one of its ports is.
        let all = if here > 0 { ports.len() } else { 0 };
        let expected = [
            (Table::Vport, here),
            (Table::SpoofGuard, here),
            (Table::Mapping, all),
            (Table::Nexthop, all),
            (Table::Underlay, usize::from(here > 0 && there)),
        ];
        // Twice: a worker that has not begun yet may look as if it had ended.
        for _ in 0..2 {
            until(&format!("{} to hold {expected:?}", names[at]), || async {
                let tables = expected
                    .iter()
                    .all(|(table, count)| workers[at].count(1, *table) == *count);
                let policy = workers[at].state.lock().policy.clone();
                let policy = (policy.ports.len(), policy.endpoints.len()) == (here, all);
                (tables && policy).then_some(())
            })
            .await;
            controller.programmed(&format!("nodes/{}", names[at])).await;
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
        workers[at].assert_no_faults();
    }
    for (number, _) in &ports {
        controller.programmed(&port_name(*number)).await;
    }
    controller.stop().await;
}
