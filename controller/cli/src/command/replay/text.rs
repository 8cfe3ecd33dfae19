//! One line per packet, and what there is to say about it below.

use std::io::{Result, Write};

use penstock_offline::bed::{End, Passage};
use penstock_offline::replay::{Record, Replay, Source, Summary, Verdict};
use penstock_policies::explain::Direction;

/// Where what is said about a packet begins.
const INDENT: &str = "          ";

pub(super) fn header(out: &mut dyn Write) -> Result<()> {
    line(
        out,
        ["PACKET", "TIME", "VERDICT", "BY", "STATE", "FLOW", "RULES"],
    )
}

fn line(out: &mut dyn Write, columns: [&str; 7]) -> Result<()> {
    let [number, time, verdict, by, state, flow, rules] = columns;
    let line = format!(
        "{number:>8}  {time:>14}  {verdict:<15}  {by:<12}  {state:<12}  {flow:<50}  {rules}"
    );
    writeln!(out, "{}", line.trim_end())
}

pub(super) fn record(out: &mut dyn Write, run: &Replay<'_>, record: &Record) -> Result<()> {
    let Record {
        number,
        time,
        length: _,
        captured: _,
        flow,
        source,
        verdict,
        way,
        notes,
    } = record;
    let ends = || way.iter().flat_map(|passage| &passage.ends);
    let by = joined(way.iter().filter_map(|p| p.carried).map(|c| c.name()));
    let state = joined(ends().filter_map(|end| end.state));
    let rules: Vec<_> = ends()
        .map(|end| {
            let rule = end.rule.as_deref();
            let none = if end.allow { "default" } else { "closed" };
            format!("{} {}", way_of(end.judged), rule.unwrap_or(none))
        })
        .collect();
    line(
        out,
        [
            &number.to_string(),
            &format!("{}.{:09}", time / 1_000_000_000, time % 1_000_000_000),
            verdict.name(),
            &by,
            &state,
            &flow.text,
            &rules.join(", "),
        ],
    )?;
    for note in notes {
        writeln!(out, "{INDENT}{note}")?;
    }
    if let Source::Nobody(None) = source {
        writeln!(out, "{INDENT}no port has its MAC, so no engine was asked")?;
    }
    for passage in way {
        told(out, run, passage)?;
    }
    Ok(())
}

/// Why it was refused, where it was.
fn told(out: &mut dyn Write, run: &Replay<'_>, passage: &Passage) -> Result<()> {
    if let Some(reason) = passage.reason() {
        let (name, meaning) = (reason.name(), reason.meaning());
        writeln!(out, "{INDENT}{}: {name}: {meaning}", passage.node)?;
    }
    for end in &passage.ends {
        let audit = end.explanation.as_ref().is_some_and(|e| e.audit.is_some());
        let what = match end.allow {
            true if audit => "passes only while a list is in audit,",
            true => continue,
            false => "refused",
        };
        writeln!(
            out,
            "{INDENT}{} {what} at {} on {}",
            way_of(end.judged),
            name(run, end.port),
            passage.node
        )?;
        explanation(out, end)?;
    }
    Ok(())
}

fn explanation(out: &mut dyn Write, end: &End) -> Result<()> {
    let text = end.explanation.as_ref().map(ToString::to_string);
    for line in text.as_deref().unwrap_or_default().lines() {
        writeln!(out, "{INDENT}  {line}")?;
    }
    Ok(())
}

/// Different words, in order.
fn joined<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let mut all: Vec<&str> = Vec::new();
    for word in words {
        if all.last() != Some(&word) {
            all.push(word);
        }
    }
    if all.is_empty() {
        return "-".to_owned();
    }
    all.join("/")
}

const fn way_of(direction: Direction) -> &'static str {
    match direction {
        Direction::Egress => "egress",
        Direction::Ingress => "ingress",
    }
}

fn name(run: &Replay<'_>, id: u32) -> String {
    let name = run.bed().port_name(id);
    name.map_or_else(|| id.to_string(), ToString::to_string)
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
    writeln!(out, "\n{packets} packets")?;
    for name in Verdict::NAMES {
        if let Some(count) = verdicts.get(name) {
            writeln!(out, "{count:>8}  {name}")?;
            for (reason, count) in drops.iter().filter(|_| name == "dropped") {
                writeln!(out, "{count:>10}  {reason}")?;
            }
        }
    }
    for (count, what) in [
        (cut, "truncated in the capture"),
        (clamped, "older than one before"),
    ] {
        if *count > 0 {
            writeln!(out, "{count:>8}  {what}")?;
        }
    }
    for (node, live) in connections {
        let s = if *live == 1 { "" } else { "s" };
        writeln!(out, "{live:>8}  connection{s} left of ports on {node}")?;
    }
    Ok(())
}
