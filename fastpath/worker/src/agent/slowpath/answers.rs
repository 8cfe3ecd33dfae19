//! Flows and drops, as the schema puts them.

use std::time::Duration;

use penstock_engine::DropRecord;
use penstock_engine::record::Event;
use penstock_flow::DropReason;
use penstock_rules::model::Direction;
use penstock_rules::{Query, Ruleset};
use penstock_slowpath_api::v1;
use tonic::Status;

use crate::flows::key;
use crate::lcore::{Drops, FlowFilter, FlowRow, Lcores};

/// What a question may take.
const DEADLINE: Duration = Duration::from_secs(5);
/// Flows in an answer, where the question has no limit.
const FLOWS: u32 = 10_000;
/// Forwarding pauses while an answer is put together; more takes too long.
const MOST_FLOWS: u32 = 65_536;
/// Drops in an answer, where the question has no limit.
const DROPS: u32 = 1000;

pub(super) async fn flows(
    lcores: &Lcores,
    request: v1::ListFlowsRequest,
) -> Result<Vec<v1::Flow>, Status> {
    let v1::ListFlowsRequest { port_id, limit } = request;
    let limit = match limit {
        0 => FLOWS,
        1..=MOST_FLOWS => limit,
        _ => {
            return Err(Status::invalid_argument(format!(
                "limit: {limit} is too large; at most {MOST_FLOWS}, and ask port by port"
            )));
        }
    };
    let filter = FlowFilter {
        port: (port_id != 0).then_some(port_id),
        limit: limit as usize,
    };
    let rows = lcores
        .ask(DEADLINE, move |core| core.flows(filter))
        .await
        .map_err(|error| Status::unavailable(error.to_string()))?;
    let rows = rows.into_iter().flatten().take(filter.limit);
    Ok(rows.map(flow).collect())
}

fn flow(row: FlowRow) -> v1::Flow {
    v1::Flow {
        port_id: row.port,
        vni: row.vni,
        key: Some(key(&row.tuple)),
        ingress: row.ingress,
        state: row.state.to_owned(),
        slow_packets: row.slow.packets,
        slow_bytes: row.slow.bytes,
        nic_packets: row.nic.packets,
        nic_bytes: row.nic.bytes,
        offloaded: row.offloaded,
        rule: row.rule,
        idle_ns: row.idle_ns,
    }
}

pub(super) async fn drops(
    lcores: &Lcores,
    ruleset: Option<&Ruleset>,
    request: v1::ListDropsRequest,
) -> Result<v1::ListDropsResponse, Status> {
    let v1::ListDropsRequest {
        port_id,
        limit,
        allowed,
    } = request;
    let port = (port_id != 0).then_some(port_id);
    let limit = if limit == 0 { DROPS } else { limit } as usize;
    let drops = lcores
        .ask(DEADLINE, move |core| core.drops(port, limit, allowed))
        .await
        .map_err(|error| Status::unavailable(error.to_string()))?;
    let drops = Drops::merge(drops, limit)
        .ok_or_else(|| Status::internal("the worker has no forwarding thread"))?;
    let counters = drops.counters.iter().filter(|(_, packets)| *packets > 0);
    Ok(v1::ListDropsResponse {
        counters: counters
            .map(|(reason, packets)| v1::DropCounter {
                reason: reason.name().to_owned(),
                packets: *packets,
            })
            .collect(),
        drops: drops
            .records
            .iter()
            .map(|record| drop_record(record, drops.now, ruleset))
            .collect(),
    })
}

fn drop_record(record: &DropRecord, now: u64, ruleset: Option<&Ruleset>) -> v1::Drop {
    v1::Drop {
        port_id: record.port,
        reason: record.event.name().to_owned(),
        key: Some(key(&record.tuple)),
        ingress: record.ingress,
        age_ns: now.saturating_sub(record.at),
        rule: record.rule.as_str().to_owned(),
        generation: record.generation,
        explanation: ruleset.map_or_else(String::new, |ruleset| explain(record, ruleset)),
    }
}

/// Why, in words. Policies that have been replaced are gone; then the present one
/// speaks, and it is said that another decided.
fn explain(record: &DropRecord, ruleset: &Ruleset) -> String {
    match record.event {
        Event::Revoked | Event::Denied(DropReason::DeniedEgress | DropReason::DeniedIngress) => {}
        Event::Allowed => return String::new(),
        Event::WouldDrop => {
            let by = match record.rule.as_str() {
                "" => "no rule of theirs allows it",
                rule => return format!("it passes; {rule}, in audit, would refuse it"),
            };
            return format!("it passes; lists in audit would refuse it: {by}");
        }
        Event::Denied(DropReason::Spoofed) => {
            return "the sender's address or MAC is not the port's".to_owned();
        }
        Event::Denied(DropReason::TableFull) => {
            return "policy allows it, but the port has all connections that it may have now"
                .to_owned();
        }
        Event::Denied(_) => return String::new(),
    }
    let tuple = record.tuple;
    let (direction, peer) = if record.ingress {
        (Direction::Ingress, tuple.src)
    } else {
        (Direction::Egress, tuple.dst)
    };
    let query = Query {
        direction,
        port: record.port,
        peer,
        proto: tuple.proto,
        sport: tuple.sport,
        dport: tuple.dport,
    };
    let text = ruleset.explain(&ruleset.judge(&query), &query).to_string();
    if record.generation != ruleset.generation() {
        return format!(
            "decided by policy generation {}, which is no longer in force; the present one says: {text}",
            record.generation,
        );
    }
    if record.event == Event::Revoked {
        return format!("cut by a change of policy: {text}");
    }
    text
}
