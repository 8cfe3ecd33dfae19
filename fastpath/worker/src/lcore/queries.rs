//! What control threads ask a polling thread. The answers are bounded, so that
//! forwarding pauses for microseconds and not for as long as a table is large.

use std::cmp::Reverse;

use penstock_engine::Fenced;
use penstock_engine::counters::{Counters, PortCounters, Traffic};
use penstock_engine::nic::{Entry, FlowEntry, Table};
use penstock_engine::record::{DropRecord, FlowRecord};
use penstock_flow::{DropReason, Tuple};
use penstock_rules::model::{PortId, Vni};

use super::{Core, HandedOver, Lost};

/// All numbers of a polling thread.
#[derive(Clone, Debug)]
pub struct Numbers {
    /// The engine's.
    pub counters: Counters,
    /// Frames lost behind it.
    pub lost: Lost,
    /// Frames that it gave to other lcores, or took from them.
    pub handed: HandedOver,
    /// Frames of its own that it had no room for.
    pub outbox_overflows: u64,
    /// Of each polled port.
    pub ports: Vec<(u32, PortCounters)>,
    /// NIC, table, entries in use.
    pub tables: Vec<(u32, Table, u32)>,
    /// The policy in force.
    pub generation: u64,
    /// What is behind fences; `since` is how long ago, in nanoseconds.
    pub fenced: Fenced,
    /// Connections are still to be judged by the policy in force.
    pub rejudging: bool,
    /// NIC, writes to its flow table that it has not carried out.
    pub pending_writes: Vec<(u32, u32)>,
}

impl Core {
    /// All numbers; the tables are those of the NICs named.
    #[must_use]
    pub fn numbers(&self, devices: &[u32]) -> Numbers {
        let ports = self.wire.numbers().filter_map(|port| {
            let counters = self.engine.port_counters(port)?;
            Some((port, *counters))
        });
        let tables = devices.iter().flat_map(|device| {
            Table::ALL.iter().filter_map(|table| {
                let used = self.engine.occupancy(*device, *table)?;
                Some((*device, *table, used))
            })
        });
        Numbers {
            counters: self.engine.counters().clone(),
            lost: self.lost(),
            handed: self.wire.handed,
            outbox_overflows: self.outbox.overflows(),
            ports: ports.collect(),
            tables: tables.collect(),
            generation: self.engine.generation(),
            fenced: self.fenced(),
            rejudging: self.engine.rejudging(),
            pending_writes: devices
                .iter()
                .filter_map(|device| Some((*device, self.engine.pending_writes(*device)?)))
                .collect(),
        }
    }

    fn fenced(&self) -> Fenced {
        match self.engine.fenced() {
            None => Fenced::default(),
            Some(fenced) => Fenced {
                since: self.clock.now().saturating_sub(fenced.since),
                ..fenced
            },
        }
    }

    /// Every fence of a NIC, with what it has caught.
    #[must_use]
    pub fn fences(&self, device_id: u32) -> Vec<(Entry, Traffic)> {
        let mut rows = Vec::new();
        self.engine
            .visit_entries(device_id, Table::Fence, &mut |entry, caught| {
                rows.push((*entry, caught.unwrap_or_default()));
            });
        rows
    }

    /// Every entry of a NIC's flow table.
    #[must_use]
    pub fn flow_entries(&self, device_id: u32) -> Vec<FlowEntry> {
        let used = self.engine.occupancy(device_id, Table::Flow).unwrap_or(0);
        let mut rows = Vec::with_capacity(used as usize);
        self.engine
            .visit_flow_entries(self.clock.now(), device_id, &mut |row| rows.push(*row));
        rows
    }

    /// Connections.
    #[must_use]
    pub fn flows(&self, filter: FlowFilter) -> Vec<FlowRow> {
        let mut rows = Vec::new();
        if filter.limit == 0 {
            return rows;
        }
        self.engine
            .visit_flows(self.clock.now(), filter.port, &mut |record| {
                rows.push(FlowRow::from(record));
                rows.len() < filter.limit
            });
        rows
    }

    /// Counters, and the newest records of one port or of all; `allowed`: also of what
    /// rules with a log have let pass.
    #[must_use]
    pub fn drops(&self, port: Option<PortId>, limit: usize, allowed: bool) -> Drops {
        let counters = self.engine.counters();
        let lost = self.lost();
        let count = |reason| counters.dropped(reason) + lost.of(reason);
        let of_port = |record: &&DropRecord| port.is_none_or(|port| port == record.port);
        let drops = self.engine.drops().filter(of_port).take(limit);
        let audited = self.engine.audited().filter(of_port).take(limit);
        let most = if allowed { limit } else { 0 };
        let passed = self.engine.allowed().filter(of_port).take(most);
        let mut records: Vec<_> = drops.chain(audited).chain(passed).copied().collect();
        records.sort_by_key(|record| Reverse(record.at));
        records.truncate(limit);
        Drops {
            counters: DropReason::ALL.iter().map(|r| (*r, count(*r))).collect(),
            records,
            now: self.clock.now(),
        }
    }
}

/// Which connections are wanted.
#[derive(Clone, Copy, Debug)]
pub struct FlowFilter {
    /// Those of one port; `None`: of all.
    pub port: Option<PortId>,
    /// At most so many.
    pub limit: usize,
}

/// A connection, as it was when asked.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "as in `FlowRecord`")]
pub struct FlowRow {
    pub port: PortId,
    pub vni: Vni,
    pub tuple: Tuple,
    pub ingress: bool,
    pub state: &'static str,
    pub slow: Traffic,
    pub nic: Traffic,
    pub offloaded: bool,
    pub rule: String,
    pub idle_ns: u64,
}

/// Counters and recent drops.
#[derive(Clone, Debug)]
pub struct Drops {
    /// Each reason with its count; none is left out.
    pub counters: Vec<(DropReason, u64)>,
    /// Newest first.
    pub records: Vec<DropRecord>,
    /// When they were read.
    pub now: u64,
}

impl From<&FlowRecord<'_>> for FlowRow {
    fn from(record: &FlowRecord<'_>) -> Self {
        Self {
            port: record.port,
            vni: record.vni,
            tuple: record.tuple,
            ingress: record.ingress,
            state: record.state,
            slow: record.slow,
            nic: record.nic,
            offloaded: record.offloaded,
            rule: record.rule.to_owned(),
            idle_ns: record.idle_ns,
        }
    }
}
