//! The connections of this shard: one for each local end of a flow.

use penstock_flow::Tuple;
use penstock_flow::conntrack::{Direction, Entry, Handle, Phase, Table, Tracker};
use penstock_rules::Decision;
use penstock_rules::model::{PortId, Vni};

use crate::config::Config;
use crate::counters::Traffic;
use crate::nic::exact::NONE;

/// Entries that a full table looks at to find one that may go.
const CANDIDATES: u32 = 64;
/// Silence that makes a connection without states idle.
const IDLE: u64 = 5_000_000_000;

/// What one port knows of a flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Connection {
    pub(crate) vni: Vni,
    /// Index of the NIC whose flow table may carry it.
    pub(crate) nic: usize,
    /// Opened towards the port.
    pub(crate) ingress: bool,
    /// The other end, where it is on the same NIC; else 0.
    pub(crate) peer: PortId,
    /// Of the policy that judged it last, and how.
    pub(crate) generation: u64,
    pub(crate) decision: Decision,
    pub(crate) tracker: Tracker,
    /// Carried by the slow path.
    pub(crate) slow: Traffic,
    /// Carried by flow entries that are gone.
    pub(crate) nic_before: Traffic,
    /// Its flow entries, in its own direction and against it; both or none.
    pub(crate) flows: [u32; 2],
    /// Its last packet on the slow path that proved life.
    pub(crate) last_seen: u64,
}

impl Connection {
    pub(crate) fn offloaded(&self) -> bool {
        self.flows != [NONE; 2]
    }
}

pub(crate) type ConnectionEntry = Entry<Connection>;

/// The tuple of a connection's opener.
pub(crate) fn opener(entry: &ConnectionEntry) -> Tuple {
    entry.key().tuple(entry.orientation(Direction::Original))
}

/// [`Table`], with a choice of what to give up when it is full.
#[derive(Debug)]
pub(crate) struct Connections {
    table: Table<Connection>,
    cursor: u32,
}

impl core::ops::Deref for Connections {
    type Target = Table<Connection>;

    fn deref(&self) -> &Self::Target {
        &self.table
    }
}

impl core::ops::DerefMut for Connections {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.table
    }
}

impl Connections {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            table: Table::new(config.max_connections, config.seed, 0),
            cursor: 0,
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.table.len() >= self.table.capacity()
    }

    /// Of a sample, the connection that has come least far: closed first, then
    /// half-open, then idle ones without states. Never an established one, and
    /// none that flows, nor one of `kept`.
    pub(crate) fn victim(&mut self, now: u64, kept: &[Option<Handle>; 2]) -> Option<Handle> {
        let mut best: Option<(Phase, u64, Handle)> = None;
        for _ in 0..CANDIDATES.min(self.table.capacity()) {
            self.cursor = (self.cursor + 1) % self.table.capacity();
            let Some(handle) = self.table.handle_at(self.cursor) else {
                continue;
            };
            if kept.contains(&Some(handle)) {
                continue;
            }
            let Some(connection) = self.table.get(handle).map(|e| &e.value) else {
                continue;
            };
            let phase = connection.tracker.phase();
            let may_go = match phase {
                Phase::Closed | Phase::Opening => true,
                Phase::Replied => {
                    !connection.offloaded() && now.saturating_sub(connection.last_seen) >= IDLE
                }
                Phase::Closing | Phase::Established => false,
            };
            let rank = (phase, connection.last_seen);
            if may_go && best.is_none_or(|(p, seen, _)| rank < (p, seen)) {
                best = Some((phase, connection.last_seen, handle));
            }
        }
        best.map(|(_, _, handle)| handle)
    }
}
