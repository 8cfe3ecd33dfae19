//! The connections of this shard: one for each local end of a flow.

mod ports;

use penstock_flow::conntrack::{Direction, Entry, Handle, Phase, Table, TableFull, Tracker};
use penstock_flow::{Key, Orientation, Tuple};
use penstock_rules::Decision;
use penstock_rules::model::{PortId, Vni};

use crate::config::Config;
use crate::counters::Traffic;
use crate::nic::exact::NONE;
use crate::nic::flow::Flow;

use ports::Lists;
pub(crate) use ports::{Links, Walked};

/// Entries that a full table looks at to find one that may go.
const CANDIDATES: u32 = 64;
/// Places it looks at to find these.
const LOOKS: u32 = 1024;
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
    /// It would be refused, and goes on: the decision is an older policy's.
    pub(crate) persists: bool,
    pub(crate) tracker: Tracker,
    /// Carried by the slow path.
    pub(crate) slow: Traffic,
    /// Carried by flow entries that are gone.
    pub(crate) nic_before: Traffic,
    /// Its flow entries, in its own direction and against it, wanted of the NIC;
    /// both or none.
    pub(crate) flows: [u32; 2],
    /// Its last packet on the slow path that proved life.
    pub(crate) last_seen: u64,
    /// Its neighbours among its port's connections.
    pub(crate) links: Links,
}

impl Connection {
    pub(crate) fn offloaded(&self) -> bool {
        self.flows != [NONE; 2]
    }
}

/// What a connection is to the one that wants its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Nothing.
    Bystander,
    /// It takes part in the want, and stays.
    Spared,
    /// It may go, if it has not come far.
    Candidate,
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
    ports: Lists,
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
            // Ports that are gone keep theirs until their connections are.
            ports: Lists::new(config.max_ports.saturating_mul(2), config.seed),
            cursor: 0,
        }
    }

    /// As [`Table::insert`]; also refused where there is no room for one more
    /// port.
    pub(crate) fn insert(
        &mut self,
        key: Key,
        original: Orientation,
        deadline: u64,
        value: Connection,
    ) -> Result<Handle, TableFull> {
        let (port, vni) = (key.port(), value.vni);
        if !self.ports.has_room(port) {
            return Err(TableFull {
                capacity: self.table.capacity(),
            });
        }
        let handle = self.table.insert(key, original, deadline, value)?;
        self.ports.link(&mut self.table, port, vni, handle);
        Ok(handle)
    }

    /// As [`Table::remove`].
    pub(crate) fn remove(&mut self, handle: Handle) -> Option<(Key, Connection)> {
        self.ports.unlink(&mut self.table, handle);
        self.table.remove(handle)
    }

    /// The slots of a port's connections.
    pub(crate) fn of_port(&self, port: PortId) -> impl Iterator<Item = u32> {
        self.ports.of(&self.table, port)
    }

    /// How many connections a port has, bound or not.
    pub(crate) fn len_of(&self, port: PortId) -> u32 {
        self.ports.len_of(port)
    }

    /// Begins a walk over the connections of ports; see [`Self::walk`].
    pub(crate) fn start_walk(&mut self) {
        self.ports.start_walk();
    }

    /// The next step of the walk over the connections of ports that are
    /// `wanted`. What is removed meanwhile is not missed, and what is added may
    /// be left out.
    pub(crate) fn walk(&mut self, wanted: impl Fn(PortId, Vni) -> bool) -> Walked {
        self.ports.walk(&self.table, wanted)
    }

    /// How many connections the walk has before it at most.
    pub(crate) fn left_to_walk(&self, wanted: impl Fn(PortId, Vni) -> bool) -> u32 {
        self.ports.left(wanted)
    }

    /// How many connections there are of ports that are `wanted`.
    pub(crate) fn count(&self, wanted: impl Fn(PortId, Vni) -> bool) -> u32 {
        self.ports.count(wanted)
    }

    /// What a flow entry has carried is its connections'.
    pub(crate) fn credit(&mut self, flow: &Flow) {
        for owner in flow.connections.into_iter().flatten() {
            if let Some(entry) = self.table.get_mut(owner) {
                let c = &mut entry.value;
                c.nic_before.plus(flow.hits);
                c.last_seen = c.last_seen.max(flow.last_hit);
            }
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.table.len() >= self.table.capacity()
    }

    /// Where the next sample begins: each look for a victim takes another.
    pub(crate) fn next_candidates(&mut self) -> u32 {
        let start = self.cursor;
        let next = u64::from(start) + u64::from(CANDIDATES);
        self.cursor = (next % u64::from(self.table.capacity().max(1))) as u32;
        start
    }

    /// Of a sample, the connection that has come least far: closed first, then
    /// half-open, then idle ones without states. Never an established one, and
    /// none that flows, and none of `kept`; `role` says which are asked for at all.
    pub(crate) fn victim(
        &self,
        now: u64,
        start: u32,
        kept: &[Option<Handle>; 2],
        role: impl Fn(&ConnectionEntry) -> Role,
    ) -> Option<Handle> {
        let mut best: Option<(Phase, u64, Handle)> = None;
        let capacity = self.table.capacity();
        let mut candidates = 0;
        for i in 0..LOOKS.min(capacity) {
            let slot = (u64::from(start) + u64::from(i)) % u64::from(capacity);
            let Some(handle) = self.table.handle_at(slot as u32) else {
                continue;
            };
            if kept.contains(&Some(handle)) {
                continue;
            }
            let Some(entry) = self.table.get(handle) else {
                continue;
            };
            let role = role(entry);
            if role == Role::Bystander {
                continue;
            }
            candidates += 1;
            if candidates > CANDIDATES {
                break;
            }
            if role == Role::Spared {
                continue;
            }
            let connection = &entry.value;
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
