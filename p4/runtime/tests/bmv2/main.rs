//! The P4 program on bmv2, frame by frame: what comes in where, and whether it
//! leaves, is asked about or dropped. Skipped where there is no bmv2, and says so.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    unreachable_pub,
    reason = "helpers of tests"
)]

mod bench;
mod cases;
mod frames;
mod tables;

use std::collections::BTreeMap;

use bench::{Bench, Cpu};
use cases::{Case, Expected};
use p4runtime::pipeline::{CPU_PORT, ENVELOPE, Entry, Key, PacketIn};
use p4runtime::update::{Step, plan};
use p4runtime::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime::v1::stream_message_response::Update;
use p4runtime::{Bits, punt};

macro_rules! switch_or_skip {
    () => {
        match bench::switch() {
            Some(binary) => binary,
            None => {
                eprintln!(
                    "SKIPPED, NOT PASSED: no simple_switch_grpc in $SIMPLE_SWITCH_GRPC, $PATH \
                     or /opt/bmv2/bin"
                );
                return;
            }
        }
    };
}

#[tokio::test]
async fn frames_go_where_the_tables_say() {
    let binary = switch_or_skip!();
    let cases = cases::all();
    let frames: Vec<_> = cases
        .iter()
        .map(|case| (case.at, case.frame.clone()))
        .collect();
    let mut bench = Bench::start(&binary, Cpu::Interface, &frames).await;
    bench.commit(Action::VerifyAndCommit).await.unwrap();
    bench.apply(&plan(&tables::all(), &[])).await;
    bench.assert_in_time();

    let mut expected: BTreeMap<u32, Vec<(&str, Vec<u8>)>> = BTreeMap::new();
    let mut drops: BTreeMap<&str, i64> = BTreeMap::new();
    for Case {
        name,
        at,
        frame,
        expected: outcome,
    } in cases
    {
        match outcome {
            Expected::Out(port, frame) => expected.entry(port).or_default().push((name, frame)),
            Expected::Ask(reason, ingress, vpc) => {
                let header = PacketIn {
                    envelope: ENVELOPE,
                    reason: reason.number(),
                    nic: 0,
                    device_port: at,
                    ingress,
                    vpc: Bits::truncate(vpc.into()),
                };
                let punted = [&header.to_bytes(), frame.as_slice()].concat();
                expected.entry(CPU_PORT).or_default().push((name, punted));
            }
            Expected::Drop(reason) => *drops.entry(reason.name()).or_default() += 1,
        }
    }
    let count = expected.values().map(Vec::len).sum();
    let mut found = bench.output(count).await;
    let mut wrong = Vec::new();
    for port in bench::PORTS {
        let found = found.remove(&port).unwrap_or_default();
        let expected = expected.remove(&port).unwrap_or_default();
        compare(port, &expected, &found, &mut wrong);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(bench.drops().await, drops);
}

/// Frames leave a port in the order in which they came in.
fn compare(port: u32, expected: &[(&str, Vec<u8>)], found: &[Vec<u8>], wrong: &mut Vec<String>) {
    let mut rest = found.iter().peekable();
    for (name, frame) in expected {
        if rest.next_if(|found| *found == frame).is_some() {
            continue;
        }
        // Nothing else may come out instead, unless it is for a later case.
        let later = expected
            .iter()
            .any(|(_, frame)| Some(&frame) == rest.peek());
        let instead = if later { None } else { rest.next() };
        wrong.push(format!(
            "port {port}: {name}\n  wanted {}\n  found  {}",
            hex(frame),
            instead.map_or("nothing".to_owned(), |frame| hex(frame)),
        ));
    }
    for frame in rest {
        wrong.push(format!("port {port}: nobody expected {}", hex(frame)));
    }
}

fn hex(frame: &[u8]) -> String {
    let asked = punt::parse(frame).map_or(String::new(), |(header, _)| format!("{header:?} "));
    let bytes: Vec<_> = frame.iter().map(|byte| format!("{byte:02x}")).collect();
    asked + &bytes.join("")
}

/// Including what bmv2 does not keep over a reconcile: the rates of meters.
#[tokio::test]
async fn entries_read_back_as_written_and_survive_a_reconcile() {
    let binary = switch_or_skip!();
    let mut bench = Bench::start(&binary, Cpu::Interface, &[]).await;
    bench.commit(Action::VerifyAndCommit).await.unwrap();
    let mut wanted = tables::all();
    wanted.sort();
    bench.apply(&plan(&wanted, &[])).await;
    assert_eq!(bench.entries().await, wanted);

    bench.commit(Action::ReconcileAndCommit).await.unwrap();
    let lost = plan(&wanted, &bench.entries().await);
    let is_meter = |step: &Step| matches!(step, Step::Modify(Entry::Vport(_)));
    assert!(lost.iter().all(is_meter), "{lost:?}");
    bench.apply(&lost).await;
    assert_eq!(bench.entries().await, wanted);
    assert_eq!(plan(&wanted, &bench.entries().await), []);

    // Another node in its place, then nothing: each by the shortest way.
    let other: Vec<_> = wanted.iter().step_by(2).cloned().collect();
    bench.apply(&plan(&other, &wanted)).await;
    assert_eq!(bench.entries().await, other);
    bench.apply(&plan(&[], &other)).await;
    assert_eq!(bench.entries().await, []);
}

/// The same headers, as metadata of messages.
#[tokio::test]
async fn packets_and_idle_flows_reach_the_controller() {
    let binary = switch_or_skip!();
    let cases: Vec<_> = cases::all()
        .into_iter()
        .filter(|case| matches!(case.expected, Expected::Ask(..)))
        .collect();
    let frames: Vec<_> = cases
        .iter()
        .map(|case| (case.at, case.frame.clone()))
        .collect();
    let mut bench = Bench::start(&binary, Cpu::Controller, &frames).await;
    bench.commit(Action::VerifyAndCommit).await.unwrap();
    bench.apply(&plan(&tables::all(), &[])).await;
    bench.assert_in_time();

    for case in cases {
        let Update::Packet(packet) = bench.notice().await else {
            panic!("{}: no packet", case.name);
        };
        let header = PacketIn::decode(&packet.metadata).unwrap();
        let Expected::Ask(reason, ingress, vpc) = case.expected else {
            continue;
        };
        assert_eq!(header.envelope, ENVELOPE, "{}", case.name);
        assert_eq!(header.reason, reason.number(), "{}", case.name);
        assert_eq!(header.device_port, case.at, "{}", case.name);
        assert_eq!(header.ingress, ingress, "{}", case.name);
        assert_eq!(header.vpc, Bits::truncate(vpc.into()), "{}", case.name);
        assert_eq!(packet.payload, case.frame, "{}", case.name);
    }

    bench
        .send(
            b"a frame of the controller's",
            punt::packet_out(tables::TWO),
        )
        .await;
    let mut output = bench.output(1).await;
    let out = output.remove(&tables::TWO).unwrap();
    assert_eq!(out, [b"a frame of the controller's"]);

    let mut idle: Vec<_> = tables::all()
        .into_iter()
        .filter_map(|entry| match entry {
            Entry::Flow(flow) => Some(flow),
            _ => None,
        })
        .take(1)
        .collect();
    idle[0].idle_timeout_ns = 1_000_000_000;
    bench.apply(&[Step::Modify(idle[0].clone().into())]).await;
    let Update::IdleTimeoutNotification(notice) = bench.notice().await else {
        panic!("no notification");
    };
    let keys: Vec<_> = notice.table_entry.iter().map(Key::decode).collect();
    assert_eq!(keys, [Ok(Key::Flow(idle[0].key.clone()))]);
}
