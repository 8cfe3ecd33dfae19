//! The documents of the tests, and their replays in short.

use std::fmt::Write as _;

use penstock_engine::nic::Capacities;
use penstock_offline::bed::Sizes;
use penstock_offline::capture::Captured;
use penstock_offline::replay::{Options, Record, Replay, ReplayError};
use penstock_policies::document;
use penstock_policies::model::{Model, VpcName};

pub(crate) fn model() -> Model {
    let documents = document::parse("site.yaml", include_bytes!("site.yaml"));
    documents
        .validate()
        .unwrap_or_else(|problems| panic!("{problems:?}"))
}

pub(crate) fn options() -> Options {
    let mut sizes = Sizes::default();
    sizes.engine.max_connections = 64;
    sizes.engine.max_connections_per_port = 32;
    sizes.engine.reserved_connections = 0;
    sizes.nic = Capacities {
        vport: 16,
        underlay: 16,
        spoof_guard: 32,
        fence: 4,
        flow: 64,
        acl: 4,
        mapping: 64,
        nexthop: 32,
        ..sizes.nic
    };
    Options { vpc: None, sizes }
}

pub(crate) fn in_vpc(name: &str) -> Options {
    Options {
        vpc: Some(VpcName::parse(name).unwrap()),
        ..options()
    }
}

/// Frames, each with its time in nanoseconds.
pub(crate) type Capture = Vec<(u64, Vec<u8>)>;

pub(crate) fn captured((at, data): &(u64, Vec<u8>)) -> Captured<'_> {
    Captured {
        time: Some((*at).into()),
        length: data.len() as u32,
        data,
    }
}

/// All records of a capture, and the summary's.
pub(crate) fn replay(capture: &Capture, options: Options) -> Result<Vec<String>, ReplayError> {
    let model = model();
    let mut run = Replay::new(&model, options)?;
    let mut lines = Vec::new();
    for packet in capture {
        for record in run.packet(&captured(packet))? {
            lines.push(line(&run, &record));
        }
    }
    for record in run.wait()? {
        lines.push(line(&run, &record));
    }
    let summary = run.summary();
    let left: Vec<_> = (summary.connections.iter())
        .map(|(node, live)| format!("{node} {live}"))
        .collect();
    lines.push(format!(
        "{} {:?} {:?} left {left:?}",
        summary.packets, summary.verdicts, summary.drops
    ));
    Ok(lines)
}

/// Number, milliseconds, verdict, then each engine's part.
pub(crate) fn line(run: &Replay<'_>, record: &Record) -> String {
    let ms = record.time as f64 / 1e6;
    let mut out = format!("{} {ms} {}", record.number, record.verdict.name());
    for passage in &record.way {
        let node = passage.node.to_string();
        let _ = write!(out, " | {}", node.rsplit('/').next().unwrap());
        if let Some(reason) = passage.reason() {
            let _ = write!(out, " {}", reason.name());
        }
        if let Some(carried) = passage.carried {
            let _ = write!(out, " {}", carried.name());
        }
        for end in &passage.ends {
            let port = run.bed().port_name(end.port).unwrap().to_string();
            let rule = end.rule.as_deref().unwrap_or("-");
            let _ = write!(
                out,
                "; {} {} {:?} by {} {}",
                port.rsplit('/').next().unwrap(),
                if end.allow { "allows" } else { "denies" },
                end.judged,
                rule.split("/securityGroups/").last().unwrap(),
                end.state.unwrap_or("-"),
            );
        }
    }
    for note in &record.notes {
        let _ = write!(out, " ({note})");
    }
    out
}

pub(crate) const MS: u64 = 1_000_000;
