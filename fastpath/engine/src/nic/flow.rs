//! The flow table: what the NIC answers by itself.
//!
//! The engine's own: it has both halves of a connection put in and taken out.
//! A row is kept from the offer until the NIC has let go of it; packets meet it
//! only while it is [in the NIC](Life::in_nic), and that is for the
//! [driver](super::driver) to say.

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

/// How far an entry has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// On its way into the NIC.
    Offered,
    /// The NIC answers by it.
    Installed,
    /// On its way out: the NIC still answers by it, and nobody wants it to.
    Withdrawn,
    /// Given up before it was in.
    Cancelled,
}

impl Life {
    /// Whether packets meet it.
    #[inline]
    pub(crate) fn in_nic(self) -> bool {
        matches!(self, Self::Installed | Self::Withdrawn)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    pub(crate) action: FlowAction,
    pub(super) life: Life,
    pub(crate) hits: Traffic,
    pub(crate) last_hit: u64,
    /// The connections it carries, one for each local end.
    pub(crate) connections: [Option<Handle>; 2],
    /// The row behind it in the driver's queue.
    pub(super) behind: u32,
}

impl Flow {
    pub(crate) fn new(action: FlowAction, now: u64, connections: [Option<Handle>; 2]) -> Self {
        Self {
            action,
            life: Life::Offered,
            hits: Traffic::default(),
            last_hit: now,
            connections,
            behind: NONE,
        }
    }

    pub(crate) fn life(&self) -> Life {
        self.life
    }
}

#[derive(Debug)]
pub(super) struct Flows {
    entries: Exact<FlowKey, Flow>,
}

impl Flows {
    pub(super) fn new(capacity: u32, seed: u64) -> Self {
        Self {
            entries: Exact::new(capacity, seed),
        }
    }

    pub(super) fn len(&self) -> u32 {
        self.entries.len()
    }

    pub(super) fn capacity(&self) -> u32 {
        self.entries.capacity()
    }

    #[inline]
    pub(super) fn find(&self, key: &FlowKey) -> Option<u32> {
        self.entries.find(key)
    }

    #[inline]
    pub(super) fn at(&self, slot: u32) -> Option<(&FlowKey, &Flow)> {
        self.entries.at(slot)
    }

    #[inline]
    pub(super) fn at_mut(&mut self, slot: u32) -> Option<&mut Flow> {
        self.entries.at_mut(slot)
    }

    /// Both halves or nothing; answers their slots.
    pub(super) fn insert_pair(
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

    pub(super) fn remove(&mut self, slot: u32) -> Option<Flow> {
        let key = *self.entries.at(slot)?.0;
        self.entries.remove(&key)
    }

    /// Every entry that is in the NIC.
    pub(super) fn visit(&self, now: u64, f: &mut dyn FnMut(&FlowEntry)) {
        for (key, flow) in self.entries.iter() {
            if !flow.life.in_nic() {
                continue;
            }
            f(&FlowEntry {
                ingress: key.ingress,
                vni: key.vni,
                tuple: key.tuple,
                action: flow.action,
                hits: flow.hits,
                idle_ns: now.saturating_sub(flow.last_hit),
            });
        }
    }
}
