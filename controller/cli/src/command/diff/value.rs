//! A difference for programs.

use penstock_policies::diff::{Change, Effect, Traffic};
use serde_json::{Value, json};

use super::{Flows, Report, shortened};

/// Names of a group that are given.
const NAMES: usize = 1000;

pub(super) fn value(report: &Report) -> Value {
    let Report {
        difference,
        flows,
        most,
    } = report;
    let changes = &difference.changes;
    let shown: Vec<Value> = changes.iter().take(*most).map(change).collect();
    json!({
        "changes_left_out": changes.len() - shown.len(),
        "changes": shown,
        "pairs_compared": difference.pairs,
        "packets_judged": difference.packets,
        "live_flows": flows.as_ref().map(|Flows { seen, cut, more }| {
            json!({"seen": seen, "cut": cut, "there_are_more": more})
        }),
    })
}

fn change(change: &Change) -> Value {
    let Change {
        vpc,
        over,
        from,
        to,
        traffic,
    } = change;
    let (from, from_left) = shortened(from, NAMES);
    let (to, to_left) = shortened(to, NAMES);
    json!({
        "vpc": vpc.as_str(),
        "over": over.map(penstock_policies::diff::Family::name),
        "from": from,
        "from_left_out": from_left,
        "to": to,
        "to_left_out": to_left,
        "traffic": traffic.iter().map(self::traffic).collect::<Vec<_>>(),
    })
}

fn traffic(traffic: &Traffic) -> Value {
    let Traffic {
        protocol,
        source_ports,
        ports,
        effect,
        before,
        after,
    } = traffic;
    let range = |(first, last): &(u16, u16)| json!({"first": first, "last": last});
    let effect = match effect {
        Effect::Opens => "OPENS",
        Effect::Closes => "CLOSES",
        Effect::Changes => "CHANGES",
    };
    // Of ICMP, these are type times 256, and code.
    json!({
        "effect": effect,
        "protocol": protocol,
        "source_ports": range(source_ports),
        "ports": ports.iter().map(range).collect::<Vec<_>>(),
        "before": before.words(),
        "after": after.words(),
    })
}
