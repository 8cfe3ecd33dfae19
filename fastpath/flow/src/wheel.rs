//! A timer wheel over the slots of a slab.
//!
//! Timers are named by slot index; arming, moving and cancelling one is O(1)
//! and allocates nothing. Deadlines are rounded up to a [`TICK`], so a timer is
//! never early, and late by at most one tick plus the time until the next call.
//! Work is bounded by the caller's budget; what is left over stays due. `now`
//! never runs backwards.
//!
//! Six levels of 64 slots, each level 64 times as coarse as the one below, as
//! in the hashed hierarchical wheels of Varghese and Lauck. The slots' rings are
//! threaded through the timers' own links; each ring has a sentinel behind them,
//! so that a timer leaves its ring without knowing which it is.

use alloc::vec::Vec;

/// The wheel's resolution: 2^20 ns, about a millisecond.
pub const TICK: u64 = 1 << TICK_BITS;
const TICK_BITS: u32 = 20;

const LEVELS: usize = 6;
const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
/// Ticks that the levels span: over two years. Later deadlines wait there.
const SPAN: u64 = 1 << (SLOT_BITS * LEVELS as u32);
const RINGS: usize = LEVELS * SLOTS + 1;
/// The ring of timers that are due.
const DUE: usize = RINGS - 1;

#[derive(Clone, Copy, Debug)]
struct Link {
    next: u32,
    prev: u32,
    /// The tick to fire at; [`IDLE`] if not armed.
    when: u64,
}

const IDLE: u64 = u64::MAX;

/// The wheel.
#[derive(Debug)]
pub struct Wheel {
    /// One per timer, then one sentinel per ring.
    links: Vec<Link>,
    timers: u32,
    /// Per level, which rings may hold timers.
    occupied: [u64; LEVELS],
    /// All ticks up to this one have been moved to the due ring.
    elapsed: u64,
}

impl Wheel {
    /// A wheel for timers `0..timers`, none armed. `timers` is capped at
    /// 2^32 - 2^10.
    #[must_use]
    pub fn new(timers: u32, now: u64) -> Self {
        let timers = timers.min(u32::MAX - (1 << 10));
        let total = timers + RINGS as u32;
        let links = (0..total)
            .map(|i| Link {
                next: i,
                prev: i,
                when: IDLE,
            })
            .collect();
        Self {
            links,
            timers,
            occupied: [0; LEVELS],
            elapsed: now >> TICK_BITS,
        }
    }

    /// Arms timer `index`, or moves it. Out of range: nothing happens.
    #[inline]
    pub fn arm(&mut self, index: u32, deadline: u64) {
        if index >= self.timers {
            return;
        }
        self.unlink(index);
        let when = deadline.div_ceil(TICK);
        self.link(index, when);
    }

    /// Disarms timer `index`, if it is armed.
    #[inline]
    pub fn cancel(&mut self, index: u32) {
        if index < self.timers {
            self.unlink(index);
            if let Some(link) = self.links.get_mut(index as usize) {
                link.when = IDLE;
            }
        }
    }

    /// When timer `index` fires, rounded up to a tick; `None` if not armed.
    #[must_use]
    #[inline]
    pub fn deadline(&self, index: u32) -> Option<u64> {
        let link = self.links.get(index as usize)?;
        (index < self.timers && link.when != IDLE).then(|| link.when.saturating_mul(TICK))
    }

    /// Disarms and returns a timer that is due at `now`. Each step of work,
    /// moving a timer or looking at a ring, takes one from `budget`; `None` if
    /// it is used up or nothing is due.
    pub fn next_due(&mut self, now: u64, budget: &mut usize) -> Option<u32> {
        let now = now >> TICK_BITS;
        while *budget > 0 {
            *budget -= 1;
            let due = self.sentinel(DUE);
            let first = self.next(due);
            if first != due {
                self.unlink(first);
                let link = self.links.get_mut(first as usize)?;
                // The due ring also holds what cascades.
                if link.when <= self.elapsed {
                    link.when = IDLE;
                    return Some(first);
                }
                let when = link.when;
                self.link(first, when);
                continue;
            }
            match self.next_ring() {
                Some((level, slot, at)) if at <= now => {
                    self.elapsed = self.elapsed.max(at);
                    self.occupied[level] &= !(1 << slot);
                    self.splice_due(level * SLOTS + slot);
                }
                _ => {
                    self.elapsed = self.elapsed.max(now);
                    return None;
                }
            }
        }
        None
    }

    /// The ring that comes up next, and the tick at which it does.
    fn next_ring(&self) -> Option<(usize, usize, u64)> {
        for (level, occupied) in self.occupied.iter().enumerate() {
            if *occupied == 0 {
                continue;
            }
            let shift = SLOT_BITS * level as u32;
            let current = (self.elapsed >> shift) & (SLOTS as u64 - 1);
            let ahead = occupied.rotate_right(current as u32).trailing_zeros();
            let slot = (current as usize + ahead as usize) % SLOTS;
            let turn = self.elapsed >> shift >> SLOT_BITS << SLOT_BITS << shift;
            let mut at = turn + ((slot as u64) << shift);
            if (slot as u64) < current {
                // Only the top level wraps round.
                at += 1 << (shift + SLOT_BITS);
            }
            // A lower level always comes up before the next ring of a higher.
            return Some((level, slot, at));
        }
        None
    }

    /// Puts a timer that is in no ring where `when` belongs.
    fn link(&mut self, index: u32, when: u64) {
        let ring = if when <= self.elapsed {
            DUE
        } else {
            let capped = when.min(self.elapsed + SPAN - (SPAN >> SLOT_BITS));
            // The highest digit in which the two differ is the level.
            let differ = (self.elapsed ^ capped) | (SLOTS as u64 - 1);
            let level = (differ.ilog2() / SLOT_BITS) as usize;
            let level = level.min(LEVELS - 1);
            let slot = (capped >> (SLOT_BITS * level as u32)) as usize % SLOTS;
            self.occupied[level] |= 1 << slot;
            level * SLOTS + slot
        };
        let sentinel = self.sentinel(ring);
        let last = self.prev(sentinel);
        if let Some(link) = self.links.get_mut(index as usize) {
            *link = Link {
                next: sentinel,
                prev: last,
                when,
            };
        }
        self.set_next(last, index);
        self.set_prev(sentinel, index);
    }

    /// Takes a link out of its ring, if it is in one.
    fn unlink(&mut self, index: u32) {
        let (next, prev) = (self.next(index), self.prev(index));
        self.set_next(prev, next);
        self.set_prev(next, prev);
        self.set_next(index, index);
        self.set_prev(index, index);
    }

    /// Makes a whole ring due; the due ring is empty.
    fn splice_due(&mut self, ring: usize) {
        let (from, to) = (self.sentinel(ring), self.sentinel(DUE));
        let (first, last) = (self.next(from), self.prev(from));
        if first == from {
            return;
        }
        self.set_next(to, first);
        self.set_prev(first, to);
        self.set_prev(to, last);
        self.set_next(last, to);
        self.set_next(from, from);
        self.set_prev(from, from);
    }

    fn sentinel(&self, ring: usize) -> u32 {
        self.timers + ring as u32
    }

    // Links name links only, so the fallbacks below are never taken.
    fn next(&self, index: u32) -> u32 {
        self.links.get(index as usize).map_or(index, |l| l.next)
    }

    fn prev(&self, index: u32) -> u32 {
        self.links.get(index as usize).map_or(index, |l| l.prev)
    }

    fn set_next(&mut self, index: u32, next: u32) {
        if let Some(link) = self.links.get_mut(index as usize) {
            link.next = next;
        }
    }

    fn set_prev(&mut self, index: u32, prev: u32) {
        if let Some(link) = self.links.get_mut(index as usize) {
            link.prev = prev;
        }
    }
}
