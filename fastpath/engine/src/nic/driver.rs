//! A NIC as the engine writes and reads it: the seam between what is wanted of
//! a NIC and what it has.
//!
//! The tables that change while packets pass, `fence` and `flow`, are written
//! through here only. A write is handed over, waits its turn, and is done when
//! the NIC has carried it out; only then do packets meet it. [`Pace::AtOnce`] is
//! the soft NIC. [`Pace::Every`] is a slow one, in simulation: it carries out one
//! entry after the other, each in a fixed time, as switches in hardware do.
//!
//! * A row has one write on its way at most, and the queue runs through the rows
//!   themselves: a delete always has room. Offers beyond [`OFFERS`] are refused.
//! * Fences go ahead of all rows.
//! * Apart from that, writes are done in the order in which they were handed over.

use alloc::collections::VecDeque;

use super::exact::{NONE, Refused};
use super::flow::{Flow, FlowKey, Flows, Life};
use super::ranked::{Fields, Ranked};
use super::{Capacities, Entry, FenceKey, FlowEntry};
use crate::counters::Traffic;

/// Rows on their way into a NIC, at most: what is offered beyond has better
/// chances later.
pub(crate) const OFFERS: u32 = 256;

/// When a NIC has carried out what it was handed.
#[derive(Clone, Copy, Debug)]
enum Pace {
    /// Before the next packet.
    AtOnce,
    /// One entry in so many nanoseconds; the one under way is done at `done`.
    Every { entry: u64, done: u64 },
}

/// Why an offer was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotTaken {
    /// The table has no room.
    Full,
    /// The queue has none.
    Busy,
    /// An entry with one of the keys is there, maybe on its way out.
    Exists,
}

/// A write to a row that has been carried out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Done {
    /// Packets meet this row from now on.
    Installed(u32),
    /// No packet meets it any more; this is what it was.
    Gone(Flow),
}

#[derive(Clone, Copy, Debug)]
enum FenceWrite {
    Raise(FenceKey, u32),
    Lift(FenceKey, u32),
}

/// See the module's contract.
#[derive(Debug)]
pub(crate) struct Driver {
    fence: Ranked<FenceKey, ()>,
    flow: Flows,
    pace: Pace,
    fences: VecDeque<FenceWrite>,
    first: u32,
    last: u32,
    /// Rows that wait, and those of them that are offers.
    waiting: u32,
    offers: u32,
    /// Writes to rows, ever: handed over and done.
    handed: u64,
    done: u64,
}

impl Driver {
    /// `entry_write_ns`: how long the NIC takes for an entry; 0: none at all.
    pub(crate) fn new(capacities: &Capacities, entry_write_ns: u64, seed: u64) -> Self {
        let pace = match entry_write_ns {
            0 => Pace::AtOnce,
            entry => Pace::Every { entry, done: 0 },
        };
        Self {
            fence: Ranked::new(capacities.fence),
            flow: Flows::new(capacities.flow, seed),
            pace,
            // Every entry may have to go before it comes again.
            fences: VecDeque::with_capacity(2 * capacities.fence as usize),
            first: NONE,
            last: NONE,
            waiting: 0,
            offers: 0,
            handed: 0,
            done: 0,
        }
    }

    pub(crate) fn fence_capacity(&self) -> u32 {
        self.fence.capacity()
    }

    pub(crate) fn fence_len(&self) -> u32 {
        self.fence.len()
    }

    /// Entries of the flow table that are taken, those on their way included.
    pub(crate) fn flow_len(&self) -> u32 {
        self.flow.len()
    }

    /// Whether a packet lies behind a fence; counts it there.
    #[inline]
    pub(crate) fn is_fenced(&mut self, fields: &Fields<'_>, bytes: usize) -> bool {
        self.fence.hit(fields, bytes).is_some()
    }

    /// The row that a packet meets.
    #[inline]
    pub(crate) fn meet(&mut self, key: &FlowKey) -> Option<(u32, &mut Flow)> {
        let slot = self.flow.find(key)?;
        let flow = self.flow.at_mut(slot)?;
        flow.life.in_nic().then_some((slot, flow))
    }

    /// A row, wherever it is in its life.
    #[inline]
    pub(crate) fn row(&self, slot: u32) -> Option<(&FlowKey, &Flow)> {
        self.flow.at(slot)
    }

    #[inline]
    pub(crate) fn row_mut(&mut self, slot: u32) -> Option<&mut Flow> {
        self.flow.at_mut(slot)
    }

    /// Every row that packets meet.
    pub(crate) fn visit_rows(&self, now: u64, f: &mut dyn FnMut(&FlowEntry)) {
        self.flow.visit(now, f);
    }

    /// Every fence that packets meet, with what it has caught.
    pub(crate) fn visit_fences(&self, f: &mut dyn FnMut(&Entry, Option<Traffic>)) {
        for (&key, priority, (), hits) in self.fence.iter() {
            f(&Entry::Fence { key, priority }, Some(hits));
        }
    }

    /// Writes to rows that are not done.
    pub(crate) fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Whether anything is not done.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        self.first != NONE || !self.fences.is_empty()
    }

    /// Whether all fences are as they were asked for.
    pub(crate) fn fences_stand(&self) -> bool {
        self.fences.is_empty()
    }

    /// A mark behind all that has been handed over.
    pub(crate) fn mark(&self) -> u64 {
        self.handed
    }

    /// Whether everything before a mark is done.
    pub(crate) fn has_passed(&self, mark: u64) -> bool {
        self.done >= mark
    }

    /// Both halves of a flow, or nothing; answers their rows.
    pub(crate) fn offer(
        &mut self,
        now: u64,
        halves: [(FlowKey, Flow); 2],
    ) -> Result<[u32; 2], NotTaken> {
        if self.offers + 2 > OFFERS {
            return Err(NotTaken::Busy);
        }
        let slots = self
            .flow
            .insert_pair(halves)
            .map_err(|refused| match refused {
                Refused::Exists => NotTaken::Exists,
                Refused::Full => NotTaken::Full,
            })?;
        for slot in slots {
            self.offers += 1;
            self.queue(now, slot);
        }
        Ok(slots)
    }

    /// Takes a row out; what it had carried so far.
    pub(crate) fn withdraw(&mut self, now: u64, slot: u32) -> Option<Flow> {
        let flow = self.flow.at_mut(slot)?;
        let before = *flow;
        match flow.life {
            Life::Offered => {
                // It has its place in the queue.
                flow.life = Life::Cancelled;
                self.offers = self.offers.saturating_sub(1);
            }
            Life::Installed => {
                flow.life = Life::Withdrawn;
                flow.hits = Traffic::default();
                self.queue(now, slot);
            }
            Life::Withdrawn | Life::Cancelled => return None,
        }
        Some(before)
    }

    /// Puts a fence up, ahead of everything.
    pub(crate) fn raise(&mut self, now: u64, key: FenceKey, priority: u32) {
        self.begin(now);
        self.fences.push_back(FenceWrite::Raise(key, priority));
    }

    /// Takes every fence of this priority down.
    pub(crate) fn lift(&mut self, now: u64, priority: u32) {
        self.begin(now);
        for (key, of, (), _) in self.fence.iter() {
            if of == priority {
                self.fences.push_back(FenceWrite::Lift(*key, of));
            }
        }
    }

    /// Whether this fence is up, or about to be.
    pub(crate) fn has_fence(&self, key: &FenceKey, priority: u32) -> bool {
        let last = self.fences.iter().rev().find_map(|write| match write {
            FenceWrite::Raise(k, p) if (k, *p) == (key, priority) => Some(true),
            FenceWrite::Lift(k, p) if (k, *p) == (key, priority) => Some(false),
            _ => None,
        });
        last.unwrap_or_else(|| self.fence.contains(key, priority))
    }

    /// The next write that the NIC has carried out by now; to be asked until
    /// there is none.
    pub(crate) fn completed(&mut self, now: u64) -> Option<Done> {
        loop {
            if self.fences.is_empty() {
                let cancelled = |(_, flow): (_, &Flow)| flow.life == Life::Cancelled;
                if self.flow.at(self.first).is_some_and(cancelled) {
                    // The NIC never had it.
                    return self.take_first();
                }
                if self.first == NONE {
                    return None;
                }
            }
            if let Pace::Every { entry, done } = &mut self.pace {
                if *done > now {
                    return None;
                }
                *done += *entry;
            }
            let Some(write) = self.fences.pop_front() else {
                return self.take_first();
            };
            match write {
                // Asked for only where there is room and none like it.
                FenceWrite::Raise(key, priority) => {
                    let raised = self.fence.insert(key, priority, ());
                    debug_assert!(raised.is_ok(), "{raised:?}");
                }
                FenceWrite::Lift(key, priority) => {
                    self.fence.remove(&key, priority);
                }
            }
        }
    }

    fn take_first(&mut self) -> Option<Done> {
        let slot = self.first;
        let flow = self.flow.at_mut(slot)?;
        self.first = flow.behind;
        flow.behind = NONE;
        if self.first == NONE {
            self.last = NONE;
        }
        self.waiting = self.waiting.saturating_sub(1);
        self.done += 1;
        if flow.life == Life::Offered {
            flow.life = Life::Installed;
            self.offers = self.offers.saturating_sub(1);
            return Some(Done::Installed(slot));
        }
        self.flow.remove(slot).map(Done::Gone)
    }

    fn queue(&mut self, now: u64, slot: u32) {
        self.begin(now);
        match self.flow.at_mut(self.last) {
            Some(last) => last.behind = slot,
            None => self.first = slot,
        }
        self.last = slot;
        self.waiting += 1;
        self.handed += 1;
    }

    /// The NIC begins to work, if it has had nothing to do.
    fn begin(&mut self, now: u64) {
        if let Pace::Every { entry, done } = &mut self.pace
            && self.fences.is_empty()
            && self.first == NONE
        {
            *done = now.saturating_add(*entry);
        }
    }
}
