//! A difference for people.

use std::fmt::Write as _;

use penstock_policies::diff::{Change, Effect, Traffic};

use super::{Flows, Report, shortened};

/// Names of a group that are shown.
const NAMES: usize = 8;

/// All of it. Writing to a string does not fail.
pub(super) fn text(report: &Report) -> String {
    let Report {
        difference,
        flows,
        most,
    } = report;
    let mut out = String::new();
    let changes = &difference.changes;
    for Change {
        vpc,
        over,
        from,
        to,
        traffic,
    } in changes.iter().take(*most)
    {
        let over = over.map_or_else(String::new, |it| format!(", over {}", it.name()));
        let (from, to) = (group(from, vpc.as_str()), group(to, vpc.as_str()));
        let _ = writeln!(out, "{from} -> {to}{over}");
        for traffic in traffic {
            let _ = writeln!(out, "  {}", line(traffic));
        }
    }
    let left = changes.len().saturating_sub(*most);
    if left > 0 {
        let _ = writeln!(out, "and {left} more changes; raise --most to see them");
    }
    if changes.is_empty() {
        out.push_str("no port may talk to others than before, nor in another way\n");
    }
    if let Some(Flows { seen, cut, more }) = flows {
        let at_least = if *more { "at least " } else { "" };
        let _ = writeln!(
            out,
            "{at_least}{cut} of {seen} live connections would be cut (each end counts)"
        );
    }
    out
}

/// Without the VPC's own name where several follow each other.
fn group(names: &[String], vpc: &str) -> String {
    let (shown, left) = shortened(names, NAMES);
    let mut all: Vec<String> = shown
        .iter()
        .enumerate()
        .map(|(i, name)| match name.strip_prefix(vpc) {
            Some(short) if i > 0 => format!("..{short}"),
            _ => name.clone(),
        })
        .collect();
    if left > 0 {
        all.push(format!("{left} more"));
    }
    all.join(", ")
}

fn line(traffic: &Traffic) -> String {
    let Traffic {
        protocol,
        source_ports,
        ports,
        effect,
        before,
        after,
    } = traffic;
    let effect = match effect {
        Effect::Opens => "opens",
        Effect::Closes => "closes",
        Effect::Changes => "changes",
    };
    let icmp = protocol.starts_with("ICMP");
    let mut what = format!("{effect:<7}  {protocol}");
    let whole = [(0, u16::MAX)];
    if !matches!(*protocol, "ROCEV2" | "ANY" | "OTHER") && *ports != whole {
        let all: Vec<_> = ports.iter().map(|range| span(*range, icmp)).collect();
        let word = match (icmp, all.len()) {
            (true, _) => "type/code",
            (false, 1) => "port",
            (false, _) => "ports",
        };
        let _ = write!(what, " {word} {}", all.join(", "));
    }
    if *source_ports != whole[0] {
        let _ = write!(what, " from source port {}", span(*source_ports, false));
    }
    let (before, after) = (before.words(), after.words());
    format!("{what}  ({before} -> {after})")
}

fn span((first, last): (u16, u16), icmp: bool) -> String {
    let one = |n: u16| match icmp {
        true => format!("{}/{}", n >> 8, n & 0xff),
        false => n.to_string(),
    };
    if first == last {
        one(first)
    } else {
        format!("{}-{}", one(first), one(last))
    }
}
