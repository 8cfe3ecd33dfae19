//! Judging connections again after the policy, or their port, has changed.
//!
//! At once for every packet that the slow path sees. Behind a
//! [fence](super::fence) all of a region's connections, since they may be closed;
//! and one by one on every tick all others, which no change has closed, so that
//! each is known by the rule that admits it now and older policies can go.

use penstock_flow::DropReason;
use penstock_flow::conntrack::Handle;
use penstock_rules::Fate;

use super::Engine;
use super::first::{End, denied, query};
use crate::connections::opener;
use crate::record::{DropRecord, Event, Name};

/// A walk over all connections, resumed by each tick.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    cursor: u32,
    remaining: u32,
}

impl Sweep {
    /// Everything is to be looked at once more. A walk that is under way goes on
    /// from where it is: frequent changes do not keep it from getting round.
    pub(super) fn start(&mut self, slots: u32) {
        self.remaining = slots;
    }

    pub(super) fn running(&self) -> bool {
        self.remaining > 0
    }

    fn next(&mut self, slots: u32) -> Option<u32> {
        self.remaining = self.remaining.checked_sub(1)?;
        let slot = self.cursor;
        self.cursor = (slot + 1) % slots.max(1);
        Some(slot)
    }
}

impl Engine {
    /// One slice of the walk.
    pub(super) fn sweep(&mut self, now: u64) {
        let slots = self.connections.slots();
        for _ in 0..self.config.sweep_slice {
            let Some(slot) = self.sweep.next(slots) else {
                return;
            };
            let Some(handle) = self.connections.handle_at(slot) else {
                continue;
            };
            // What is refused is gone, and recorded.
            let _ = self.rejudge(now, handle);
        }
    }

    /// Judges a connection by the policy in force, if an older one has judged
    /// it last. Refused, it is cut: both ends, and its NIC entries.
    pub(super) fn rejudge(&mut self, now: u64, handle: Handle) -> Result<(), DropReason> {
        let Some(entry) = self.connections.get(handle) else {
            return Ok(());
        };
        let generation = self.policies.generation();
        let port = entry.key().port();
        let c = entry.value;
        let tuple = opener(entry);
        let near = if c.ingress { tuple.dst } else { tuple.src };
        let is_its_own = self.ports.find(&port).is_some()
            && self
                .policies
                .port_in(port, c.vni)
                .is_some_and(|port| port.ips.contains(&near));
        if !is_its_own {
            // This end only: the port, or its address, may have moved, and the
            // other end's connection goes on with it.
            self.counters.connections.orphaned += 1;
            self.forget(handle);
            return Err(DropReason::PortNotReady);
        }
        if c.generation == generation {
            return Ok(());
        }
        let end = End {
            port,
            ingress: c.ingress,
        };
        self.counters.connections.rejudged += 1;
        let query = query(&end, &tuple);
        let judgement = self.policies.judge(&query);
        match self.policies.fate(&c, &judgement, &query) {
            Fate::Admitted if !judgement.stateful => {
                // Its packets are judged one by one from now on, at this end only.
                self.counters.connections.released += 1;
                self.forget(handle);
                return Ok(());
            }
            Fate::Admitted => {
                if let Some(entry) = self.connections.get_mut(handle) {
                    entry.value.generation = generation;
                    entry.value.decision = judgement.decision;
                    entry.value.persists = false;
                }
                return Ok(());
            }
            Fate::Persists => {
                self.counters.connections.persisted += u64::from(!c.persists);
                if let Some(entry) = self.connections.get_mut(handle) {
                    // The decision stays, so that it is known by what admitted it.
                    entry.value.generation = generation;
                    entry.value.persists = true;
                }
                return Ok(());
            }
            Fate::Cut => {}
        }
        self.records.push(DropRecord {
            at: now,
            event: Event::Revoked,
            port,
            vni: c.vni,
            tuple,
            ingress: c.ingress,
            rule: Name::new(self.policies.admitted_by(&c)),
            generation,
        });
        self.counters.connections.revoked += 1;
        self.cut(handle);
        Err(denied(c.ingress))
    }

    /// Ends a flow here: its connections at both ends.
    fn cut(&mut self, handle: Handle) {
        let sibling = self.sibling(handle);
        self.forget(handle);
        if let Some(sibling) = sibling {
            self.forget(sibling);
        }
    }
}
