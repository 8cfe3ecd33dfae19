//! The flow table: what the NIC answers by itself.
//!
//! The engine's own: it installs both halves of a connection and takes both
//! out. An entry of an older policy generation is no answer; its packet is
//! asked about.

use core::hash::{Hash, Hasher};

use penstock_flow::Tuple;
use penstock_flow::conntrack::Handle;
use penstock_rules::model::{PortId, Vni};

use super::exact::{Exact, NONE, Refused};
use super::{FlowAction, FlowEntry};
use crate::counters::Traffic;

/// What a `flow` entry matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowKey {
    /// The sending port; 0: the wire.
    pub(crate) ingress: PortId,
    pub(crate) vni: Vni,
    pub(crate) tuple: Tuple,
}

impl Hash for FlowKey {
    /// Whole words: it is on every packet's way.
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        let t = &self.tuple;
        state.write_u64(u64::from(self.ingress) << 32 | u64::from(self.vni));
        state.write_u64(u64::from(t.proto) << 32 | u64::from(t.sport) << 16 | u64::from(t.dport));
        state.write_u128(t.src.0);
        state.write_u128(t.dst.0);
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    pub(crate) action: FlowAction,
    pub(crate) generation: u64,
    /// Of the mapping table when its next hop was looked up.
    pub(crate) epoch: u64,
    pub(crate) hits: Traffic,
    pub(crate) last_hit: u64,
    /// The connections it carries, one for each local end.
    pub(crate) connections: [Option<Handle>; 2],
}

#[derive(Debug)]
pub(crate) struct Flows {
    entries: Exact<FlowKey, Flow>,
}

impl Flows {
    pub(crate) fn new(capacity: u32, seed: u64) -> Self {
        Self {
            entries: Exact::new(capacity, seed),
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.entries.len()
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.entries.capacity()
    }

    pub(crate) fn find(&self, key: &FlowKey) -> Option<u32> {
        self.entries.find(key)
    }

    pub(crate) fn at(&self, slot: u32) -> Option<(&FlowKey, &Flow)> {
        self.entries.at(slot)
    }

    pub(crate) fn at_mut(&mut self, slot: u32) -> Option<&mut Flow> {
        self.entries.at_mut(slot)
    }

    /// Both halves or nothing; answers their slots.
    pub(crate) fn insert_pair(
        &mut self,
        halves: [(FlowKey, Flow); 2],
    ) -> Result<[u32; 2], Refused> {
        let [(k0, f0), (k1, f1)] = halves;
        if self.capacity() - self.len() < 2 {
            return Err(Refused::Full);
        }
        let first = self.entries.insert(k0, f0)?;
        match self.entries.insert(k1, f1) {
            Ok(second) => Ok([first, second]),
            Err(e) => {
                self.entries.remove(&k0);
                Err(e)
            }
        }
    }

    pub(crate) fn remove(&mut self, slot: u32) -> Option<Flow> {
        if slot == NONE {
            return None;
        }
        let key = *self.entries.at(slot)?.0;
        self.entries.remove(&key)
    }

    pub(crate) fn visit(&self, now: u64, f: &mut dyn FnMut(&FlowEntry)) {
        for (key, flow) in self.entries.iter() {
            f(&FlowEntry {
                ingress: key.ingress,
                vni: key.vni,
                tuple: key.tuple,
                action: flow.action,
                hits: flow.hits,
                idle_ns: now.saturating_sub(flow.last_hit),
                generation: flow.generation,
            });
        }
    }
}
