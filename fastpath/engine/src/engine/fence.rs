//! Fences: how a change takes effect at once on NICs that are written slowly.
//!
//! What may have been closed, or leads elsewhere now, is a set of regions. Fence
//! entries over them have the NIC ask about every packet inside, and the slow
//! path answers by what is in force. Behind the fence the regions' connections
//! are looked at again in slices, and what must not stay is taken out of the NIC;
//! once it is out, the fence is lifted. Everything outside goes on being answered
//! by the NIC.
//!
//! Changes that come meanwhile gather in a second batch, which is fenced at once
//! and has its turn when the first is done: so a walk always comes to its end,
//! and no fence waits for changes that came after it. A batch's fences share a
//! priority of their own, by which they are found again.

mod keys;

use alloc::vec::Vec;

use penstock_rules::Region;
use penstock_rules::model::{PortId, Vni};

use super::{Engine, Nic};
use crate::connections::{Connections, Walked};
use crate::nic::FenceKey;

/// Regions that a batch remembers; more become whole VPCs, or everything.
const REGIONS: usize = 64;
/// Entries of a fence table that are kept back: for each batch, the one that
/// covers everything.
const KEPT_BACK: u32 = 2;
/// What ending a connection costs, in looks at one.
const CUT: u32 = 4;

/// What is behind fences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fenced {
    /// Regions.
    pub regions: u32,
    /// Since when the oldest has been, on the engine's clock.
    pub since: u64,
    /// Connections to be looked at again, at most.
    pub connections: u32,
}

/// Changes that are fenced together.
#[derive(Debug)]
struct Batch {
    regions: Vec<Region>,
    /// Every flow entry inside has to go, wherever it leads.
    withdraw: bool,
    since: u64,
}

/// How far the batch at work is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// There is none.
    Idle,
    /// Its connections are looked at.
    Walking,
    /// What has to go is on its way out of the NICs.
    Draining,
}

/// See the module's contract.
#[derive(Debug)]
pub(super) struct Fences {
    batches: [Batch; 2],
    /// Which one is at work; the other gathers.
    at_work: usize,
    stage: Stage,
}

/// A batch's fences have this priority.
fn priority(batch: usize) -> u32 {
    batch as u32 + 1
}

impl Fences {
    pub(super) fn new() -> Self {
        let batch = || Batch {
            regions: Vec::with_capacity(REGIONS),
            withdraw: false,
            since: 0,
        };
        Self {
            batches: [batch(), batch()],
            at_work: 0,
            stage: Stage::Idle,
        }
    }

    pub(super) fn are_up(&self) -> bool {
        self.stage != Stage::Idle
    }

    pub(super) fn status(&self, connections: &Connections) -> Option<Fenced> {
        let [a, b] = &self.batches;
        let (first, second) = if self.at_work == 0 { (a, b) } else { (b, a) };
        let left = match self.stage {
            Stage::Idle => return None,
            Stage::Walking => connections.left_to_walk(|port, vni| first.concerns(port, vni)),
            Stage::Draining => 0,
        };
        let regions = first.regions.len() + second.regions.len();
        Some(Fenced {
            regions: regions as u32,
            since: first.since,
            connections: left + connections.count(|port, vni| second.concerns(port, vni)),
        })
    }
}

impl Batch {
    /// Whether connections of this port may lie inside.
    fn concerns(&self, port: PortId, vni: Vni) -> bool {
        self.regions.iter().any(|r| match r.port {
            Some(p) => p == port,
            None => r.vni.is_none_or(|v| v == vni),
        })
    }

    fn add(&mut self, region: &Region) {
        if self.regions.iter().any(|r| r.covers(region)) {
            return;
        }
        let whole_vpc = Region {
            vni: region.vni,
            ..Region::EVERYTHING
        };
        for wider in [*region, whole_vpc] {
            self.regions.retain(|r| !wider.covers(r));
            if self.regions.len() < REGIONS {
                self.regions.push(wider);
                return;
            }
        }
        self.regions.clear();
        self.regions.push(Region::EVERYTHING);
    }
}

impl Nic {
    /// Puts fences over a region, wider ones where there is no room for those
    /// that fit. `ports` names the addresses of its port.
    fn fence(&mut self, now: u64, batch: usize, region: &Region, addresses: &keys::Addresses) {
        let priority = priority(batch);
        let quota = self.driver.fence_capacity().saturating_sub(KEPT_BACK) / 2;
        let everything = FenceKey::default();
        let whole_vpc = keys::of_vpc(region.vni);
        for key in [everything, whole_vpc] {
            if self.driver.has_fence(&key, priority) {
                return;
            }
        }
        for wanted in [keys::of_region(region, addresses).as_slice(), &[whole_vpc]] {
            let is_new = |key: &&FenceKey| !self.driver.has_fence(key, priority);
            let new = wanted.iter().filter(is_new).count() as u32;
            let used = self.fences.get(batch).copied().unwrap_or(quota);
            if wanted.is_empty() || used + new > quota {
                continue;
            }
            for key in wanted {
                if !self.driver.has_fence(key, priority) {
                    self.driver.raise(now, *key, priority);
                }
            }
            if let Some(used) = self.fences.get_mut(batch) {
                *used += new;
            }
            return;
        }
        self.driver.raise(now, everything, priority);
    }
}

impl Engine {
    /// Fences a region, of one NIC's tables or of all, until its connections
    /// have been looked at again. With `withdraw` none of them stays in the NIC.
    pub(super) fn raise(&mut self, nic: Option<usize>, region: &Region, withdraw: bool) {
        let holds_none = |nic: &Nic| nic.driver.flow_len() == 0;
        let concerned = match nic {
            Some(index) => self.nics.get(index).is_some_and(|nic| !holds_none(nic)),
            None => !self.connections.is_empty() || !self.nics.iter().all(holds_none),
        };
        if !concerned {
            return;
        }
        let begins = self.fences.stage == Stage::Idle;
        let index = match begins {
            true => self.fences.at_work,
            false => 1 - self.fences.at_work,
        };
        let Some(batch) = self.fences.batches.get_mut(index) else {
            return;
        };
        if batch.regions.is_empty() {
            batch.since = self.now;
        }
        batch.add(region);
        batch.withdraw |= withdraw;
        let mut addresses = keys::Addresses::new();
        if let Some(port) = region.port {
            self.policies
                .addresses(port)
                .for_each(|ip| addresses.push(ip));
        }
        for (i, this) in self.nics.iter_mut().enumerate() {
            if nic.is_none_or(|only| only == i) {
                this.fence(self.now, index, region, &addresses);
            }
        }
        for i in 0..self.nics.len() {
            self.complete(i);
        }
        if begins {
            self.begin_walk();
        }
    }

    fn begin_walk(&mut self) {
        self.fences.stage = Stage::Walking;
        self.connections.start_walk();
    }

    /// One slice of what is to be done behind fences. Whether there was anything.
    pub(super) fn tend_fences(&mut self) -> bool {
        match self.fences.stage {
            Stage::Idle => return false,
            Stage::Walking => self.walk_fenced(),
            Stage::Draining => {}
        }
        if self.fences.stage == Stage::Draining
            && self
                .nics
                .iter()
                .all(|nic| nic.driver.fences_stand() && nic.driver.has_passed(nic.drained_at))
        {
            self.lift();
        }
        true
    }

    fn walk_fenced(&mut self) {
        let mut budget = self.config.sweep_slice;
        while budget > 0 {
            let Some(batch) = self.fences.batches.get(self.fences.at_work) else {
                return;
            };
            let withdraw = batch.withdraw;
            budget -= 1;
            match self.connections.walk(|port, vni| batch.concerns(port, vni)) {
                Walked::Past => {}
                Walked::End => {
                    for nic in &mut self.nics {
                        nic.drained_at = nic.driver.mark();
                    }
                    self.fences.stage = Stage::Draining;
                    return;
                }
                Walked::To(handle) => {
                    if self.rejudge(self.now, handle).is_err() {
                        // What is refused is gone, and recorded.
                        budget = budget.saturating_sub(CUT);
                        continue;
                    }
                    let entry = self.connections.get(handle).map(|entry| &entry.value);
                    if entry
                        .is_some_and(|c| c.offloaded() && (withdraw || !self.flows_lead_there(c)))
                    {
                        self.withdraw(handle);
                        budget = budget.saturating_sub(CUT);
                    }
                }
            }
        }
    }

    /// The batch at work is done; the other has its turn.
    fn lift(&mut self) {
        let done = self.fences.at_work;
        for nic in &mut self.nics {
            nic.driver.lift(self.now, priority(done));
            if let Some(used) = nic.fences.get_mut(done) {
                *used = 0;
            }
        }
        for i in 0..self.nics.len() {
            self.complete(i);
        }
        if let Some(batch) = self.fences.batches.get_mut(done) {
            batch.regions.clear();
            batch.withdraw = false;
        }
        self.fences.at_work = 1 - done;
        self.fences.stage = Stage::Idle;
        let next = self.fences.batches.get(self.fences.at_work);
        if next.is_some_and(|batch| !batch.regions.is_empty()) {
            self.begin_walk();
        }
    }
}
