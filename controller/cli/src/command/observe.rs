//! `flows` and `drops`.

use std::time::Duration;

use penstock_api::v1;
use serde_json::Value;

use crate::args::{Format, Scope};
use crate::failure::Failure;
use crate::message::Messages;
use crate::output;
use crate::session::{Session, node_name, port_name};

pub(super) async fn flows(session: &Session, scope: &Scope, format: Format) -> Result<(), Failure> {
    let (node, port, limit) = parts(scope);
    let request = v1::ListFlowsRequest { node, port, limit };
    let mut diagnostics = session.client.diagnostics.clone();
    let mut stream = session
        .call(request, |r| async move { diagnostics.list_flows(r).await })
        .await?;
    let mut flows = Vec::new();
    while let Some(flow) = session.next(&mut stream).await? {
        flows.push(flow);
    }
    let messages = Messages::new()?;
    let values = || flows.iter().map(|f| messages.value("Flow", f)).collect();
    output::many(format, values, || {
        Ok(output::table(
            [
                "NODE",
                "PORT",
                "DIR",
                "PROTO",
                "SOURCE",
                "DESTINATION",
                "STATE",
                "SLOW PKTS",
                "NIC PKTS",
                "IN NIC",
                "IDLE",
                "RULE",
            ],
            flows.iter().map(|f| {
                [
                    last(&f.node),
                    f.port.clone(),
                    direction(f.direction()),
                    protocol(f.protocol),
                    end(&f.source_ip, f.source_port, f.protocol, false),
                    end(&f.destination_ip, f.destination_port, f.protocol, true),
                    f.state.clone(),
                    f.slow_packets.to_string(),
                    f.nic_packets.to_string(),
                    if f.offloaded { "yes" } else { "no" }.to_owned(),
                    time(f.idle_ns),
                    f.rule.clone(),
                ]
            }),
        ))
    })
}

pub(super) async fn drops(session: &Session, scope: &Scope, format: Format) -> Result<(), Failure> {
    let answer = ask(session, scope, false).await?;
    output::one(
        format,
        || value(&answer),
        || {
            let counters = output::table(
                ["NODE", "REASON", "PACKETS"],
                answer
                    .counters
                    .iter()
                    .map(|c| [last(&c.node), c.reason.clone(), c.packets.to_string()]),
            );
            Ok(format!("{counters}\n{}", records(&answer)))
        },
    )
}

/// As [`drops`], with what passed and was to be told, and without the counters.
pub(super) async fn log(session: &Session, scope: &Scope, format: Format) -> Result<(), Failure> {
    let answer = ask(session, scope, true).await?;
    output::one(format, || value(&answer), || Ok(records(&answer)))
}

async fn ask(
    session: &Session,
    scope: &Scope,
    allowed: bool,
) -> Result<v1::ListDropsResponse, Failure> {
    let (node, port, limit) = parts(scope);
    let request = v1::ListDropsRequest {
        node,
        port,
        limit,
        allowed,
    };
    let mut diagnostics = session.client.diagnostics.clone();
    session
        .call(request, |r| async move { diagnostics.list_drops(r).await })
        .await
}

fn value(answer: &v1::ListDropsResponse) -> Result<Value, Failure> {
    Messages::new()?.value("ListDropsResponse", answer)
}

fn records(answer: &v1::ListDropsResponse) -> String {
    output::table(
        [
            "AGE",
            "NODE",
            "PORT",
            "DIR",
            "PROTO",
            "SOURCE",
            "DESTINATION",
            "REASON",
            "WHY",
        ],
        answer.drops.iter().map(|d| {
            let why = if d.explanation.is_empty() {
                &d.rule
            } else {
                &d.explanation
            };
            [
                time(d.age_ns),
                last(&d.node),
                d.port.clone(),
                direction(d.direction()),
                protocol(d.protocol),
                end(&d.source_ip, d.source_port, d.protocol, false),
                end(&d.destination_ip, d.destination_port, d.protocol, true),
                d.reason.clone(),
                // A sentence may go on with what nearly matched.
                why.lines().next().unwrap_or_default().to_owned(),
            ]
        }),
    )
}

fn parts(scope: &Scope) -> (String, String, u32) {
    let Scope { node, port, limit } = scope;
    (
        node.as_deref().map(node_name).unwrap_or_default(),
        port.as_deref().map(port_name).unwrap_or_default(),
        limit.unwrap_or_default(),
    )
}

fn last(name: &str) -> String {
    name.rsplit('/').next().unwrap_or(name).to_owned()
}

fn direction(way: v1::Direction) -> String {
    match way {
        v1::Direction::Ingress => "in",
        v1::Direction::Egress => "out",
        v1::Direction::Unspecified => "",
    }
    .to_owned()
}

fn protocol(number: u32) -> String {
    match number {
        1 => "icmp".to_owned(),
        6 => "tcp".to_owned(),
        17 => "udp".to_owned(),
        58 => "icmpv6".to_owned(),
        other => other.to_string(),
    }
}

/// One end of a flow. ICMP has an identifier, and a type and code, for ports.
fn end(ip: &str, port: u32, protocol: u32, destination: bool) -> String {
    match protocol {
        6 | 17 if ip.contains(':') => format!("[{ip}]:{port}"),
        6 | 17 => format!("{ip}:{port}"),
        1 | 58 if destination => format!("{ip} type {} code {}", port >> 8, port & 0xff),
        1 | 58 => format!("{ip} id {port}"),
        _ => ip.to_owned(),
    }
}

/// To two digits, as people read it.
fn time(ns: u64) -> String {
    let time = Duration::from_nanos(ns);
    match time.as_secs() {
        0 => format!("{}ms", time.as_millis()),
        s @ 1..=119 => format!("{s}s"),
        s @ 120..=7199 => format!("{}m", s / 60),
        s => format!("{}h", s / 3600),
    }
}
