//! Any bytes as a capture: read to its end or to what is wrong with it, and replayed
//! through a small bed.
//!
//! No panic; no packet longer than the reader promises; each packet told once, or twice
//! where it has waited; the sum is the sum; and all of it the same again.

use std::sync::OnceLock;

use penstock_engine::nic::Capacities;
use penstock_offline::bed::Sizes;
use penstock_offline::capture::{MOST, Reader};
use penstock_offline::replay::{Options, Record, Replay, Verdict};
use penstock_policies::document;
use penstock_policies::model::Model;

/// Packets of one input: what a fuzzer has the time for.
const PACKETS: usize = 64;

pub(crate) fn replay(bytes: &[u8]) {
    assert_eq!(told(bytes), told(bytes), "not the same again");
}

fn model() -> &'static Model {
    static MODEL: OnceLock<Model> = OnceLock::new();
    MODEL.get_or_init(|| {
        let documents = document::parse("site.yaml", include_bytes!("../suite/site.yaml"));
        documents.validate().expect("good documents")
    })
}

fn told(bytes: &[u8]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut reader = match Reader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => return vec![error.to_string()],
    };
    let mut run = Replay::new(model(), options()).expect("a bed");
    let mut waiting = 0;
    let mut note = |records: Vec<Record>, lines: &mut Vec<String>| {
        let mut first = 0;
        for record in records {
            waiting += i64::from(record.verdict == Verdict::Waiting);
            if record
                .notes
                .iter()
                .any(|note| note.to_string().contains("has waited"))
            {
                waiting -= 1;
            } else {
                first += 1;
            }
            lines.push(format!("{record:?}"));
        }
        (first, waiting)
    };
    for number in 1..=PACKETS as u64 {
        match reader.next_packet() {
            Ok(Some(packet)) => {
                assert!(
                    packet.data.len() <= MOST as usize
                        && packet.data.len() <= packet.length as usize
                );
                let records = match run.packet(&packet) {
                    Ok(records) => records,
                    Err(error) => {
                        lines.push(error.to_string());
                        return lines;
                    }
                };
                let (first, _) = note(records, &mut lines);
                assert_eq!(first, 1, "told once");
                assert_eq!(run.summary().packets, number);
            }
            Ok(None) => break,
            Err(error) => {
                lines.push(error.to_string());
                break;
            }
        }
    }
    let (first, waiting) = note(run.wait().expect("time passes"), &mut lines);
    assert_eq!((first, waiting), (0, 0), "nothing waits for ever");
    let summary = run.summary();
    assert_eq!(summary.verdicts.values().sum::<u64>(), summary.packets);
    assert_eq!(
        summary.drops.values().sum::<u64>(),
        summary.verdicts.get("dropped").copied().unwrap_or(0)
    );
    lines.push(format!("{summary:?}"));
    lines
}

fn options() -> Options {
    let mut sizes = Sizes::default();
    sizes.engine.max_connections = 16;
    sizes.engine.max_connections_per_port = 8;
    sizes.engine.reserved_connections = 0;
    sizes.engine.max_device_ports = 8;
    sizes.engine.max_ports = 8;
    sizes.engine.max_drop_records = 8;
    sizes.engine.max_fragmented = 16;
    sizes.engine.max_waiting_fragments = 8;
    sizes.nic = Capacities {
        vport: 8,
        underlay: 8,
        spoof_guard: 16,
        fence: 4,
        rdma_qp: 0,
        rdma_pair: 0,
        flow: 16,
        acl: 4,
        mapping: 32,
        nexthop: 16,
    };
    Options { vpc: None, sizes }
}
