//! Writing down what a packet has done to its connections.

use penstock_flow::conntrack::{Handle, TableFull, Tracker};
use penstock_flow::{DropReason, Key, Orientation, Tuple};
use penstock_rules::model::PortId;

use super::Engine;
use super::arrival::Arrival;
use super::first::{End, Finding};
use crate::connections::{Connection, Links};
use crate::counters::Traffic;
use crate::nic::FlowAction;
use crate::nic::exact::NONE;

impl Engine {
    /// Writes down what has been found of a packet with this tuple.
    pub(super) fn commit(
        &mut self,
        arrival: &Arrival,
        ends: &[Option<End>; 2],
        findings: &[Option<Finding>; 2],
        tuple: &Tuple,
    ) -> Result<[Option<Handle>; 2], DropReason> {
        // Those that are here must not make room for those that come.
        let mut handles = findings.map(|finding| match finding {
            Some(Finding::Known { handle, .. }) => Some(handle),
            _ => None,
        });
        // New ones first: where there is no room for one, nothing has happened.
        let mut created: Option<Handle> = None;
        for (i, (end, finding)) in ends.iter().zip(findings).enumerate() {
            let (Some(end), Some(finding)) = (end, finding) else {
                continue;
            };
            match self.begin(arrival, end, other_port(ends, i), finding, &handles) {
                Ok(None) => {}
                Ok(opened) => {
                    created = created.or(opened);
                    if let Some(handle) = handles.get_mut(i) {
                        *handle = opened;
                    }
                }
                Err(reason) => {
                    if let Some(first) = created {
                        self.forget(first);
                    }
                    return Err(reason);
                }
            }
        }
        for (i, finding) in findings.iter().enumerate() {
            if let Some(Finding::Known {
                handle,
                tracker,
                renews,
            }) = *finding
            {
                self.follow(arrival, handle, other_port(ends, i), tracker, renews);
            }
        }
        for (end, finding) in ends.iter().zip(findings) {
            if let (Some(end), Some(finding)) = (end, finding) {
                self.tell_of(arrival, end, tuple, finding);
            }
        }
        Ok(handles)
    }

    /// The connection that a packet opens at one of its ends, where it opens one.
    fn begin(
        &mut self,
        arrival: &Arrival,
        end: &End,
        peer: PortId,
        finding: &Finding,
        kept: &[Option<Handle>; 2],
    ) -> Result<Option<Handle>, DropReason> {
        let Finding::New {
            key,
            orientation,
            tracker,
            judgement,
            ingress,
            adopted,
            replaces,
        } = *finding
        else {
            return Ok(None);
        };
        if let Some(old) = replaces {
            self.counters.connections.expired += 1;
            self.forget(old);
        }
        let decision = judgement.decision;
        let connection = Connection {
            vni: arrival.vni,
            nic: arrival.nic,
            ingress,
            peer,
            generation: self.policies.generation(),
            decision,
            persists: false,
            tracker,
            slow: Traffic::default(),
            nic_before: Traffic::default(),
            flows: [NONE; 2],
            links: Links::default(),
            last_seen: arrival.now,
        };
        let tuple = key.tuple(orientation);
        match self.open(arrival, key, orientation, connection, kept) {
            Ok(handle) => {
                self.counters.connections.adopted += u64::from(adopted);
                Ok(Some(handle))
            }
            Err(reason) => {
                self.record_denial(arrival, end, &tuple, reason, decision);
                Err(reason)
            }
        }
    }

    /// What passes without a connection is counted, and what is to be told is.
    fn tell_of(&mut self, arrival: &Arrival, end: &End, tuple: &Tuple, finding: &Finding) {
        let judgement = match finding {
            Finding::Known { .. } => return,
            Finding::New { judgement, .. } => judgement,
            Finding::Stateless {
                judgement,
                replaces,
            } => {
                if let Some(old) = *replaces {
                    self.counters.connections.expired += 1;
                    self.forget(old);
                }
                self.counters.judged.stateless += 1;
                self.policies.count(judgement.decision);
                judgement
            }
        };
        self.record_passed(arrival, end, tuple, judgement);
    }

    /// One more packet of a connection that is there.
    fn follow(
        &mut self,
        arrival: &Arrival,
        handle: Handle,
        peer: PortId,
        tracker: Tracker,
        renews: bool,
    ) {
        let Some(entry) = self.connections.get(handle) else {
            return;
        };
        let c = &entry.value;
        let moved = c.peer != peer || c.nic != arrival.nic;
        if c.offloaded() && (moved || !tracker.offloadable() || !self.flows_lead_there(c)) {
            self.withdraw(handle);
        }
        let timeout = tracker.timeout(&self.config.timeouts);
        let Some(entry) = self.connections.get_mut(handle) else {
            return;
        };
        let c = &mut entry.value;
        c.peer = peer;
        c.nic = arrival.nic;
        c.tracker = tracker;
        if c.offloaded() {
            c.tracker.moved_unseen();
        }
        c.slow.add(arrival.bytes);
        if renews {
            c.last_seen = arrival.now;
        }
        let deadline = c.last_seen.saturating_add(timeout);
        self.connections.expire_at(handle, deadline);
    }

    /// Whether a connection's flow entries still name the next hops that its
    /// destinations are mapped to.
    pub(super) fn flows_lead_there(&self, connection: &Connection) -> bool {
        let Some(nic) = self.nics.get(connection.nic) else {
            return false;
        };
        connection.flows.iter().all(|slot| {
            nic.driver.row(*slot).is_some_and(|(key, flow)| {
                let nexthop = nic.tables.mapping.lookup(key.vni, key.tuple.dst);
                nexthop.map(FlowAction::Forward) == Some(flow.action)
            })
        })
    }

    /// A new connection, whatever has to go for it.
    fn open(
        &mut self,
        arrival: &Arrival,
        key: Key,
        original: Orientation,
        mut connection: Connection,
        kept: &[Option<Handle>; 2],
    ) -> Result<Handle, DropReason> {
        connection.slow.add(arrival.bytes);
        let decision = connection.decision;
        self.make_room(arrival.now, key.port(), kept)?;
        let handle = self
            .enter(key, original, connection)
            .map_err(|_| DropReason::TableFull)?;
        self.counters.connections.opened += 1;
        self.policies.count(decision);
        Ok(handle)
    }

    /// Puts a connection into the table, where it is not yet.
    pub(super) fn enter(
        &mut self,
        key: Key,
        original: Orientation,
        connection: Connection,
    ) -> Result<Handle, TableFull> {
        let timeout = connection.tracker.timeout(&self.config.timeouts);
        let deadline = connection.last_seen.saturating_add(timeout);
        let handle = self
            .connections
            .insert(key, original, deadline, connection)?;
        self.count_in(key.port());
        self.counters.connections.live += 1;
        Ok(handle)
    }
}

/// The port at the other end of a packet, where it is here; else 0.
fn other_port(ends: &[Option<End>; 2], end: usize) -> PortId {
    let other = ends.get(1 - end).copied().flatten();
    other.map_or(0, |other| other.port)
}
