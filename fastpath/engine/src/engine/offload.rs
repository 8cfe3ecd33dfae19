//! Offload: a connection's life in the NIC's flow table, and its end.
//!
//! Software owns the connection. Wanted, it is *offered* to the NIC; carried
//! out, it is *installed* and packets meet its entries; *withdrawn*, they meet
//! them until the NIC has let go, and only then the entries are *gone*. What is
//! true of the connection never waits for that: it may be cut, and forgotten,
//! while its entries are on their way out. Who must not pass meanwhile is what a
//! fence is for.
//!
//! Both directions are offered together and withdrawn together; between two
//! local ports the two entries serve both ports' connections. What the entries
//! carry keeps the connections alive: its time is read when a timer fires.

use penstock_flow::conntrack::tcp::State;
use penstock_flow::conntrack::{Handle, Tracker};
use penstock_rules::model::PortId;

use super::arrival::Arrival;
use super::{Engine, Nic};
use crate::connections::{Connection, opener};
use crate::counters::Traffic;
use crate::nic::FlowAction;
use crate::nic::driver::{Done, NotTaken};
use crate::nic::exact::NONE;
use crate::nic::flow::{Flow, FlowKey, Life};
use crate::record::FlowRecord;

/// Timers that one tick looks at, and connections that it ends.
const TIMERS_PER_TICK: usize = 2048;
const ENDS_PER_TICK: usize = 256;
/// What is over and beyond that number is looked at again after this.
const AGAIN: u64 = 1_000_000;

impl Engine {
    /// Puts the flow of `handles` into the NIC, where all its ends are ready.
    /// Staying in software is always right.
    pub(super) fn offer(&mut self, arrival: &Arrival, handles: [Option<Handle>; 2]) {
        let generation = self.policies.generation();
        let mut ends = handles.iter().flatten();
        let Some(first) = ends.next().copied() else {
            return;
        };
        let second = ends.next().copied();
        for handle in [Some(first), second].into_iter().flatten() {
            let Some(entry) = self.connections.get(handle) else {
                return;
            };
            let c = &entry.value;
            if !c.tracker.offloadable() || c.offloaded() || c.generation != generation {
                return;
            }
        }
        let Some(entry) = self.connections.get(first) else {
            return;
        };
        let port = entry.key().port();
        let ours = opener(entry);
        let Some(theirs) = ours.reply() else {
            return;
        };
        let c = &entry.value;
        let Some(nic) = self.nics.get_mut(arrival.nic) else {
            return;
        };
        let hop = |dst| nic.tables.mapping.lookup(c.vni, dst);
        let (Some(to_theirs), Some(to_ours)) = (hop(ours.dst), hop(theirs.dst)) else {
            return;
        };
        // Who sends what the opener sends, and who what is sent back.
        let (opener, answerer): (PortId, PortId) = if c.ingress {
            (c.peer, port)
        } else {
            (port, c.peer)
        };
        let half = |ingress, tuple, nexthop| {
            let key = FlowKey {
                ingress,
                vni: c.vni,
                tuple,
            };
            let connections = [Some(first), second];
            let flow = Flow::new(FlowAction::Forward(nexthop), arrival.now, connections);
            (key, flow)
        };
        let pair = [
            half(opener, ours, to_theirs),
            half(answerer, theirs, to_ours),
        ];
        match nic.driver.offer(arrival.now, pair) {
            Ok(slots) => {
                self.counters.offload.offered += 1;
                self.counters.offload.live += 1;
                for handle in [Some(first), second].into_iter().flatten() {
                    if let Some(entry) = self.connections.get_mut(handle) {
                        // Between two local ports one opener is the other's.
                        entry.value.flows = slots;
                        entry.value.tracker.moved_unseen();
                    }
                }
                self.complete(arrival.nic);
            }
            Err(NotTaken::Full) => self.counters.offload.table_full += 1,
            Err(NotTaken::Busy) => self.counters.offload.queue_full += 1,
            // Another pair of ends has it, or its own is still on its way out: no
            // second owner.
            Err(NotTaken::Exists) => {}
        }
    }

    /// Takes a connection's pair out of the NIC; what it has carried so far is
    /// credited to the connections, which stay.
    pub(super) fn withdraw(&mut self, handle: Handle) {
        let Some(entry) = self.connections.get(handle) else {
            return;
        };
        let (index, slots) = (entry.value.nic, entry.value.flows);
        if !entry.value.offloaded() {
            return;
        }
        let Some(nic) = self.nics.get_mut(index) else {
            return;
        };
        let mut owners = [None, None];
        for slot in slots {
            if let Some(flow) = nic.driver.withdraw(self.now, slot) {
                owners = flow.connections;
                self.connections.credit(&flow);
            }
        }
        self.counters.offload.withdrawn += 1;
        self.counters.offload.live = self.counters.offload.live.saturating_sub(1);
        for owner in owners.into_iter().flatten() {
            if let Some(entry) = self.connections.get_mut(owner) {
                entry.value.flows = [NONE; 2];
                entry.value.tracker.moved_unseen();
            }
        }
        self.complete(index);
    }

    /// What a NIC has carried out of what was handed to it.
    pub(super) fn complete(&mut self, index: usize) {
        let Some(nic) = self.nics.get_mut(index) else {
            return;
        };
        while let Some(done) = nic.driver.completed(self.now) {
            match done {
                Done::Installed(slot) => {
                    let owner = nic.driver.row(slot).and_then(|(_, f)| f.connections[0]);
                    let entry = owner.and_then(|owner| self.connections.get(owner));
                    let whole = entry.is_some_and(|entry| is_in(nic, &entry.value));
                    self.counters.offload.installed += u64::from(whole);
                }
                // Packets may have met it until now.
                Done::Gone(flow) => self.connections.credit(&flow),
            }
        }
    }

    /// Removes a connection, and its pair from the NIC.
    pub(super) fn forget(&mut self, handle: Handle) {
        self.withdraw(handle);
        if let Some((key, _)) = self.connections.remove(handle) {
            self.counters.connections.live = self.counters.connections.live.saturating_sub(1);
            self.count_out(key.port());
        }
    }

    /// The other end's connection of the same flow, where it is here.
    pub(super) fn sibling(&self, handle: Handle) -> Option<Handle> {
        let entry = self.connections.get(handle)?;
        if entry.value.peer == 0 {
            return None;
        }
        let (key, _) = penstock_flow::Key::new(entry.value.peer, &opener(entry));
        let sibling = self.connections.find(&key)?;
        // That port may have gone to another VPC, where others have these addresses.
        let theirs = &self.connections.get(sibling)?.value;
        (theirs.vni == entry.value.vni).then_some(sibling)
    }

    /// Forgets what has been silent for too long.
    pub(super) fn expire(&mut self, now: u64) {
        let Self {
            connections,
            nics,
            config,
            ..
        } = self;
        let mut over = [None; ENDS_PER_TICK];
        let mut places = over.iter_mut();
        connections.expire(now, TIMERS_PER_TICK, |handle, entry| {
            let (_, last) = nic_activity(nics, &entry.value);
            let timeout = entry.value.tracker.timeout(&config.timeouts);
            let deadline = last.saturating_add(timeout);
            if deadline > now {
                entry.value.last_seen = last;
                return Some(deadline);
            }
            if let Some(place) = places.next() {
                *place = Some(handle);
            }
            Some(now.saturating_add(AGAIN))
        });
        for handle in over.into_iter().flatten() {
            self.counters.connections.expired += 1;
            self.forget(handle);
        }
    }

    /// A connection, to show; `None`: the slot is empty.
    pub(super) fn flow_record(&self, now: u64, slot: u32) -> Option<FlowRecord<'_>> {
        let handle = self.connections.handle_at(slot)?;
        let entry = self.connections.get(handle)?;
        let c = &entry.value;
        let (nic, last) = nic_activity(&self.nics, c);
        Some(FlowRecord {
            port: entry.key().port(),
            vni: c.vni,
            tuple: opener(entry),
            ingress: c.ingress,
            state: state_name(&c.tracker),
            slow: c.slow,
            nic,
            offloaded: self.nics.get(c.nic).is_some_and(|nic| is_in(nic, c)),
            rule: self.policies.admitted_by(c),
            generation: c.generation,
            idle_ns: now.saturating_sub(last),
        })
    }
}

/// What the NIC has carried for a connection, and when it has last had a
/// packet at all.
pub(super) fn nic_activity(nics: &[Nic], connection: &Connection) -> (Traffic, u64) {
    let mut carried = connection.nic_before;
    let mut last = connection.last_seen;
    if let Some(nic) = nics.get(connection.nic) {
        for slot in connection.flows {
            if let Some((_, flow)) = nic.driver.row(slot) {
                carried.plus(flow.hits);
                last = last.max(flow.last_hit);
            }
        }
    }
    (carried, last)
}

/// Whether a NIC has both halves of a connection.
fn is_in(nic: &Nic, connection: &Connection) -> bool {
    let installed = |slot| {
        let row = nic.driver.row(slot);
        row.is_some_and(|(_, flow)| flow.life() == Life::Installed)
    };
    connection.flows.into_iter().all(installed)
}

/// Where a connection's protocol stands.
fn state_name(tracker: &Tracker) -> &'static str {
    match tracker {
        Tracker::Tcp(tcp) => match tcp.state() {
            State::SynSent | State::SynSentBoth => "syn_sent",
            State::SynRecv | State::SynRecvReverse => "syn_received",
            State::Established => "established",
            State::Closing(_) => "closing",
            State::TimeWait => "time_wait",
            State::Reset(_) => "reset",
        },
        Tracker::Plain(plain) if plain.replied => "replied",
        Tracker::Plain(_) => "unreplied",
    }
}
