//! One JSON object per line. docs/replay.md describes them.

use std::io::{Result, Write};

use penstock_offline::bed::{End, Fate, Passage};
use penstock_offline::replay::{Record, Replay, Source, Summary, Verdict, protocol};
use penstock_policies::explain::Direction;
use serde_json::{Value, json};

pub(super) fn record(out: &mut dyn Write, run: &Replay<'_>, record: &Record) -> Result<()> {
    let Record {
        number,
        time,
        length,
        captured,
        flow,
        source,
        verdict,
        way,
        notes,
    } = record;
    let (from, seen) = match source {
        Source::Port(id) => (port(run, *id), "port"),
        Source::Wire(_) | Source::Later => (Value::Null, "underlay"),
        Source::Nobody(_) => (Value::Null, "nowhere"),
    };
    let to = match verdict {
        Verdict::Forwarded(id) => port(run, *id),
        _ => Value::Null,
    };
    let reason = match verdict {
        Verdict::Dropped(reason) => Some(*reason),
        _ => way.last().and_then(Passage::reason),
    };
    let notes: Vec<_> = notes.iter().map(ToString::to_string).collect();
    let tuple = flow.tuple.map(|tuple| {
        json!({
            "protocol": protocol(tuple.proto),
            "source": tuple.src.to_string(), "sourcePort": tuple.sport,
            "destination": tuple.dst.to_string(), "destinationPort": tuple.dport,
        })
    });
    let value = json!({
        "packet": number, "timeNs": time, "length": length, "captured": captured,
        "text": flow.text, "flow": tuple, "enters": seen, "from": from,
        "verdict": verdict.name(), "to": to,
        "reason": reason.map(|r| r.name()), "meaning": reason.map(|r| r.meaning()),
        "steps": way.iter().map(|passage| step(run, passage)).collect::<Vec<_>>(),
        "notes": notes,
    });
    writeln!(out, "{value}")
}

fn step(run: &Replay<'_>, passage: &Passage) -> Value {
    let outcome = match passage.fate {
        Fate::ToPort(_) => "to a port",
        Fate::ToNobody => "to nobody",
        Fate::ToWire { .. } => "to the underlay",
        Fate::Dropped(_) => "dropped",
        Fate::Consumed => "consumed",
        Fate::Waits => "waits",
    };
    json!({
        "node": passage.node.to_string(),
        "outcome": outcome,
        "reason": passage.reason().map(|r| r.name()),
        "carriedBy": passage.carried.map(|c| c.name()),
        "ends": passage.ends.iter().map(|it| end(run, it)).collect::<Vec<_>>(),
    })
}

fn end(run: &Replay<'_>, end: &End) -> Value {
    json!({
        "port": port(run, end.port),
        "direction": direction(end.direction),
        "judgedAs": direction(end.judged),
        "verdict": if end.allow { "ALLOW" } else { "DENY" },
        "rule": end.rule,
        "explanation": end.explanation.as_ref().map(ToString::to_string),
        "state": end.state,
        "inNic": end.in_nic,
    })
}

const fn direction(direction: Direction) -> &'static str {
    match direction {
        Direction::Egress => "EGRESS",
        Direction::Ingress => "INGRESS",
    }
}

fn port(run: &Replay<'_>, id: u32) -> Value {
    run.bed()
        .port_name(id)
        .map_or(Value::Null, |name| Value::String(name.to_string()))
}

pub(super) fn summary(out: &mut dyn Write, summary: &Summary) -> Result<()> {
    let Summary {
        packets,
        verdicts,
        drops,
        connections,
        cut,
        clamped,
    } = summary;
    let connections: serde_json::Map<_, _> = connections
        .iter()
        .map(|(node, live)| (node.to_string(), Value::from(*live)))
        .collect();
    let value = json!({
        "summary": {
            "packets": packets, "verdicts": verdicts, "drops": drops,
            "connections": connections, "cut": cut, "clamped": clamped,
        }
    });
    writeln!(out, "{value}")
}
