//! Numbers for a monitoring system, in Prometheus' text form at `/metrics`.
//!
//! They are kept by the polling thread as plain integers and read when asked for;
//! labels come from closed lists. No tenant's name is in them.

mod text;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use penstock_flow::DropReason;
use tokio::net::TcpListener;

use crate::agent::p4rt::Device;
use crate::lcore::{Lcores, Numbers};
use crate::ports::Backend;
use text::{Kind, Text};

/// What a scrape may take.
const DEADLINE: Duration = Duration::from_secs(5);
/// Connections have this long to end after a stop.
const GRACE: Duration = Duration::from_millis(200);

/// Where the numbers are.
#[derive(Clone, Debug)]
pub struct Source {
    /// The polling threads.
    pub lcores: Lcores,
    /// Drivers' own counters.
    pub backend: Arc<dyn Backend>,
    /// The NICs.
    pub devices: Vec<Arc<Device>>,
}

/// Serves `/metrics` until `stop` ends.
///
/// # Errors
/// The listener fails.
pub async fn serve(
    listener: TcpListener,
    source: Source,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let router = axum::Router::new()
        .route("/metrics", get(scrape))
        .with_state(source);
    let server = async { axum::serve(listener, router).await };
    tokio::select! {
        ended = server => ended,
        () = async { stop.await; tokio::time::sleep(GRACE).await } => Ok(()),
    }
}

async fn scrape(State(source): State<Source>) -> Response {
    let devices: Vec<u32> = source.devices.iter().map(|device| device.id()).collect();
    let numbers = source
        .lcores
        .ask(DEADLINE, move |core| core.numbers(&devices))
        .await;
    match numbers {
        Ok(each) => {
            let drivers = source.backend.stats().await;
            let kind = "text/plain; version=0.0.4; charset=utf-8";
            let updates: Vec<_> = source
                .devices
                .iter()
                .map(|d| (d.id(), d.updates()))
                .collect();
            let text = render(&each, &drivers, &updates, source.lcores.overflows());
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response(),
    }
}

fn render(
    each: &[Numbers],
    drivers: &BTreeMap<u32, dpdk::Stats>,
    updates: &[(u32, u64)],
    mailbox_overflows: u64,
) -> String {
    let mut text = Text::default();
    let Some(numbers) = &Numbers::merge(each) else {
        return text.finish();
    };
    let version = env!("CARGO_PKG_VERSION");
    text.family("penstock_worker_info", Kind::Gauge, "The worker's version.");
    text.sample(&[("version", version)], 1);
    text.one(
        "penstock_policy_generation",
        Kind::Gauge,
        "Generation of the policy in force; 0: none.",
        numbers.generation,
    );
    frames(&mut text, numbers);
    lcores(&mut text, each);
    connections(&mut text, numbers);
    fences(&mut text, numbers);
    text.family(
        "penstock_table_entries",
        Kind::Gauge,
        "Entries in use, by NIC and table.",
    );
    for (device, table, used) in &numbers.tables {
        let device = device.to_string();
        text.sample(&[("device_id", &device), ("table", table.name())], *used);
    }
    text.family(
        "penstock_table_updates_total",
        Kind::Counter,
        "Updates that P4Runtime clients have written, by NIC.",
    );
    for (device, updates) in updates {
        text.sample(&[("device_id", &device.to_string())], *updates);
    }
    text.one(
        "penstock_mailbox_overflows_total",
        Kind::Counter,
        "Times a job for a forwarding thread had to wait.",
        mailbox_overflows,
    );
    ports(&mut text, numbers, drivers);
    text.finish()
}

fn frames(text: &mut Text, numbers: &Numbers) {
    let counters = &numbers.counters;
    text.family(
        "penstock_frames_total",
        Kind::Counter,
        "Frames by what became of them.",
    );
    for (path, traffic) in [
        ("received", counters.received),
        ("sent", counters.sent),
        ("nic", counters.nic),
        ("slow", counters.slow),
    ] {
        text.sample(&[("path", path)], traffic.packets);
    }
    text.sample(&[("path", "answered")], counters.answered);
    text.sample(&[("path", "consumed")], counters.consumed);
    text.family(
        "penstock_bytes_total",
        Kind::Counter,
        "Bytes of those frames.",
    );
    for (path, traffic) in [
        ("received", counters.received),
        ("sent", counters.sent),
        ("nic", counters.nic),
        ("slow", counters.slow),
    ] {
        text.sample(&[("path", path)], traffic.bytes);
    }
    text.family(
        "penstock_drops_total",
        Kind::Counter,
        "Frames dropped, by reason.",
    );
    for reason in DropReason::ALL {
        text.sample(
            &[("reason", reason.name())],
            counters.dropped(*reason) + numbers.lost.of(*reason),
        );
    }
    text.family(
        "penstock_own_frames_lost_total",
        Kind::Counter,
        "Frames of the worker's own that were not sent, by what was missing.",
    );
    text.sample(&[("missing", "room")], numbers.outbox_overflows);
    text.sample(&[("missing", "buffer")], numbers.lost.no_buffer);
    text.sample(&[("missing", "ring")], numbers.lost.copies);
}

fn lcores(text: &mut Text, each: &[Numbers]) {
    text.family(
        "penstock_lcore_frames_total",
        Kind::Counter,
        "Frames of one forwarding thread.",
    );
    for (lcore, numbers) in each.iter().enumerate() {
        let lcore = lcore.to_string();
        let counters = &numbers.counters;
        let refused = counters.dropped(DropReason::HandoverFull);
        for (event, count) in [
            (
                "processed",
                counters.received.packets.saturating_sub(refused),
            ),
            ("given", numbers.handed.given),
            ("taken", numbers.handed.taken),
            ("sent_elsewhere", numbers.handed.sent),
            ("refused", refused + numbers.lost.handover_full),
        ] {
            text.sample(&[("lcore", &lcore), ("event", event)], count);
        }
    }
    text.family(
        "penstock_lcore_connections",
        Kind::Gauge,
        "Connections of one forwarding thread's shard.",
    );
    for (lcore, numbers) in each.iter().enumerate() {
        let live = numbers.counters.connections.live;
        text.sample(&[("lcore", &lcore.to_string())], live);
    }
}

fn connections(text: &mut Text, numbers: &Numbers) {
    let c = &numbers.counters.connections;
    text.one(
        "penstock_connections",
        Kind::Gauge,
        "Connections tracked now.",
        c.live,
    );
    text.family(
        "penstock_connection_events_total",
        Kind::Counter,
        "What happened to connections.",
    );
    for (event, count) in [
        ("opened", c.opened),
        ("adopted", c.adopted),
        ("imported", c.imported),
        ("expired", c.expired),
        ("evicted", c.evicted),
        ("revoked", c.revoked),
        ("rejudged", c.rejudged),
        ("orphaned", c.orphaned),
        ("persisted", c.persisted),
        ("released", c.released),
    ] {
        text.sample(&[("event", event)], count);
    }
    let j = &numbers.counters.judged;
    text.family(
        "penstock_judged_packets_total",
        Kind::Counter,
        "What policy has said of packets beside yes and no, at each of their ends.",
    );
    for (said, count) in [
        ("stateless", j.stateless),
        ("logged", j.logged),
        ("would_drop", j.would_drop),
        ("rejected", j.rejected),
    ] {
        text.sample(&[("said", said)], count);
    }
    let o = &numbers.counters.offload;
    text.one(
        "penstock_offloaded",
        Kind::Gauge,
        "Flows in the NICs now, or on their way into them.",
        o.live,
    );
    text.family(
        "penstock_offload_events_total",
        Kind::Counter,
        "What happened to flow entries.",
    );
    for (event, count) in [
        ("offered", o.offered),
        ("installed", o.installed),
        ("withdrawn", o.withdrawn),
        ("table_full", o.table_full),
        ("queue_full", o.queue_full),
    ] {
        text.sample(&[("event", event)], count);
    }
}

fn fences(text: &mut Text, numbers: &Numbers) {
    text.one(
        "penstock_fence_regions",
        Kind::Gauge,
        "Parts of the traffic that the NICs do not answer for while a change takes effect.",
        numbers.fenced.regions,
    );
    text.one(
        "penstock_fence_age_milliseconds",
        Kind::Gauge,
        "How long the oldest of them has been fenced.",
        numbers.fenced.since / 1_000_000,
    );
    text.one(
        "penstock_fence_connections",
        Kind::Gauge,
        "Connections behind fences that are to be judged again, at most.",
        numbers.fenced.connections,
    );
    text.one(
        "penstock_rejudging",
        Kind::Gauge,
        "1 while connections are still to be judged by the policy in force.",
        u8::from(numbers.rejudging),
    );
    text.family(
        "penstock_nic_pending_writes",
        Kind::Gauge,
        "Writes to a NIC's flow table that it has not carried out.",
    );
    for (device, waiting) in &numbers.pending_writes {
        text.sample(&[("device_id", &device.to_string())], *waiting);
    }
}

fn ports(text: &mut Text, numbers: &Numbers, drivers: &BTreeMap<u32, dpdk::Stats>) {
    text.family(
        "penstock_port_frames_total",
        Kind::Counter,
        "Frames of a device port, as the engine saw them.",
    );
    for (port, counters) in &numbers.ports {
        let port = port.to_string();
        for (event, count) in [
            ("received", counters.received.packets),
            ("sent", counters.sent.packets),
            ("dropped", counters.dropped),
        ] {
            text.sample(&[("device_port", &port), ("event", event)], count);
        }
    }
    text.family(
        "penstock_driver_frames_total",
        Kind::Counter,
        "Frames of a device port, as its driver counts them.",
    );
    for (port, stats) in drivers {
        let port = port.to_string();
        for (event, count) in [
            ("received", stats.ipackets),
            ("sent", stats.opackets),
            ("missed", stats.imissed),
            ("receive_errors", stats.ierrors),
            ("send_errors", stats.oerrors),
            ("no_buffer", stats.rx_nombuf),
        ] {
            text.sample(&[("device_port", &port), ("event", event)], count);
        }
    }
}
