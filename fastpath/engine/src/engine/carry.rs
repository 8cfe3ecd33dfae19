//! Connections carried over from one engine to another: for a restart, or for a
//! port that moves.
//!
//! A connection leaves without its NIC entries, which its next packets bring
//! back. It is judged by the policy in force before it is there at all, and
//! makes nothing go to get a place.

use penstock_flow::Key;
use penstock_flow::tuple::proto;
use penstock_rules::model::PortId;
use penstock_rules::{Decision, Fate};

use super::Engine;
use super::first::{End, query};
use super::offload::nic_activity;
use crate::connections::{Connection, Links, opener};
use crate::flow_state::{FlowState, ImportError};
use crate::nic::exact::NONE;
use crate::record::Name;

impl Engine {
    /// Connections of `slots` places of the table from `from` on, and where to go
    /// on; `None`: that was the last. A connection that is opened meanwhile may be
    /// missed, and none that stays is.
    pub fn export(
        &self,
        now: u64,
        from: u32,
        slots: u32,
        visit: &mut dyn FnMut(&FlowState),
    ) -> Option<u32> {
        let capacity = self.connections.capacity();
        let end = from.saturating_add(slots.max(1)).min(capacity);
        for slot in from..end {
            if let Some(state) = self.flow_state(now, slot) {
                visit(&state);
            }
        }
        (end < capacity).then_some(end)
    }

    fn flow_state(&self, now: u64, slot: u32) -> Option<FlowState> {
        let entry = self.connections.get(self.connections.handle_at(slot)?)?;
        let c = &entry.value;
        let (nic, last) = nic_activity(&self.nics, c);
        Some(FlowState {
            port: entry.key().port(),
            vni: c.vni,
            tuple: opener(entry),
            ingress: c.ingress,
            peer: c.peer,
            tracker: c.tracker,
            idle_ns: now.saturating_sub(last),
            slow: c.slow,
            nic,
            rule: Name::new(self.policies.admitted_by(c)),
            persists: c.persists,
        })
    }

    /// Takes up a connection where another engine has left it. Its ages count
    /// from `now`, which must be larger than they are.
    ///
    /// # Errors
    /// Nothing has changed; only where policy refuses one end of a flow between
    /// two ports, the other end goes too.
    pub fn import(&mut self, now: u64, state: &FlowState) -> Result<(), ImportError> {
        let tuple = state.tuple;
        if !is_possible(state) {
            return Err(ImportError::Malformed);
        }
        let bound = self.ports.find(&state.port).is_some();
        let port = self.policies.port(state.port).filter(|_| bound);
        let port = port.ok_or(ImportError::UnknownPort)?;
        let (near, far) = if state.ingress {
            (tuple.dst, tuple.src)
        } else {
            (tuple.src, tuple.dst)
        };
        if port.vni != state.vni || !port.ips.contains(&near) {
            return Err(ImportError::NotThePorts);
        }
        let nic = self.nic_index(port.device_id);
        let nic = nic.ok_or(ImportError::UnknownPort)?;
        // Were it another's, cutting this one could cut that one's.
        let peer = self.policies.port(state.peer);
        let peer = peer.filter(|p| p.vni == state.vni && p.ips.contains(&far));
        let peer: PortId = peer.map_or(0, |_| state.peer);
        if state.idle_ns >= state.tracker.timeout(&self.config.timeouts) {
            return Err(ImportError::Expired);
        }
        let (key, orientation) = Key::new(state.port, &tuple);
        if self.connections.find(&key).is_some() {
            return Err(ImportError::Duplicate);
        }
        let end = End {
            port: state.port,
            ingress: state.ingress,
        };
        let mut connection = Connection {
            vni: state.vni,
            nic,
            ingress: state.ingress,
            peer,
            generation: self.policies.generation(),
            decision: Decision::VpcDefault,
            persists: state.persists,
            tracker: state.tracker,
            slow: state.slow,
            nic_before: state.nic,
            flows: [NONE; 2],
            links: Links::default(),
            last_seen: now.saturating_sub(state.idle_ns),
        };
        let query = query(&end, &tuple);
        let judgement = self.policies.judge(&query);
        // By what it was admitted does not travel, so nothing of that has changed.
        let goes_on = judgement.allow()
            || self.policies.fate(&connection, &judgement, &query) == Fate::Persists;
        if !goes_on {
            let (key, _) = Key::new(peer, &tuple);
            if peer != 0
                && let Some(sibling) = self.connections.find(&key)
            {
                self.forget(sibling);
            }
            return Err(ImportError::Denied);
        }
        connection.persists = !judgement.allow();
        if judgement.allow() {
            if !judgement.stateful {
                return Err(ImportError::Stateless);
            }
            connection.decision = judgement.decision;
        }
        if !self.has_room(state.port) {
            return Err(ImportError::Full);
        }
        self.enter(key, orientation, connection)
            .map_err(|_| ImportError::Full)?;
        self.counters.connections.imported += 1;
        Ok(())
    }
}

/// No connection lives to count so far; sums of such numbers fit.
const MOST_COUNTED: u64 = 1 << 61;

/// Whether an engine can have had such a connection.
fn is_possible(state: &FlowState) -> bool {
    let FlowState { tuple, tracker, .. } = state;
    let counted = [
        state.slow.packets,
        state.slow.bytes,
        state.nic.packets,
        state.nic.bytes,
    ];
    let v4 = tuple.src.is_v4();
    let family = match tuple.proto {
        proto::ICMP => v4,
        proto::ICMPV6 => !v4,
        _ => true,
    };
    // An answer opens nothing.
    let answer = matches!(
        (tuple.proto, tuple.dport),
        (proto::ICMP, 0) | (proto::ICMPV6, 0x8100)
    );
    counted.iter().all(|n| *n <= MOST_COUNTED)
        && family
        && !answer
        && tuple.dst.is_v4() == v4
        && tracker.fits(tuple.proto)
}
