//! Who is where on one NIC's underlay.
//!
//! Only wanted addresses are kept: those that a next hop uses. A wanted address
//! is asked for from the moment it is wanted, with back-off while nobody
//! answers, and again before what is known grows old; what is known stays in
//! use meanwhile. All next hops of a neighbour refer to its one entry, so a
//! changed MAC is in force for all of them at once.

use penstock_flow::{Addr, Mac};

use crate::config::Shard;
use crate::nic::exact::{Exact, NONE, Refused};

const MS: u64 = 1_000_000;
/// First pause without an answer; each further one is twice as long.
const FIRST_PAUSE: u64 = 250 * MS;
const LONGEST_PAUSE: u64 = 8_000 * MS;
/// An answer is good for this long without being asked for again.
const FRESH: u64 = 20_000 * MS;
/// Questions without an answer after which a known MAC is given up.
const GIVE_UP: u32 = 5;
/// What an engine that is not the first of its worker waits for the first one to
/// have asked: answers are seen by all.
const FOLLOW: u64 = 1_000 * MS;

#[derive(Clone, Copy, Debug)]
struct Neighbour {
    mac: Option<Mac>,
    users: u32,
    /// Asked so often since the last answer.
    tries: u32,
    /// When to ask next.
    due: u64,
}

/// A question to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) addr: Addr,
    /// Where it was last: ask there first.
    pub(crate) known: Option<Mac>,
}

#[derive(Debug)]
pub(crate) struct Neighbours {
    entries: Exact<Addr, Neighbour>,
    // Slots below this have been used; where a sweep ends.
    high: u32,
    cursor: u32,
    pub(crate) moves: u64,
    /// Questions are due so much later than the first engine's,
    lag: u64,
    /// and so many times as rare, so that all others together ask as often as it.
    stretch: u64,
}

impl Neighbours {
    pub(crate) fn new(capacity: u32, seed: u64, shard: Shard) -> Self {
        let (lag, stretch) = match shard.index {
            0 => (0, 1),
            _ => (FOLLOW, u64::from(shard.count)),
        };
        Self {
            lag,
            stretch,
            entries: Exact::new(capacity, seed),
            high: 0,
            cursor: 0,
            moves: 0,
        }
    }

    /// One more user of `addr`; its slot.
    pub(crate) fn want(&mut self, addr: Addr) -> Result<u32, Refused> {
        if let Some(slot) = self.entries.find(&addr) {
            if let Some(n) = self.entries.at_mut(slot) {
                n.users += 1;
            }
            return Ok(slot);
        }
        let fresh = Neighbour {
            mac: None,
            users: 1,
            tries: 0,
            due: 0,
        };
        let slot = self.entries.insert(addr, fresh)?;
        self.high = self.high.max(slot + 1);
        Ok(slot)
    }

    /// One user less.
    pub(crate) fn release(&mut self, slot: u32) {
        if slot == NONE {
            return;
        }
        let Some(n) = self.entries.at_mut(slot) else {
            return;
        };
        n.users = n.users.saturating_sub(1);
        if n.users == 0
            && let Some(addr) = self.entries.at(slot).map(|(addr, _)| *addr)
        {
            self.entries.remove(&addr);
        }
    }

    #[inline]
    pub(crate) fn mac(&self, slot: u32) -> Option<Mac> {
        self.entries.at(slot).and_then(|(_, n)| n.mac)
    }

    /// `addr` has said where it is. Not wanted: not kept.
    pub(crate) fn learn(&mut self, now: u64, addr: Addr, mac: Mac) {
        if mac.is_multicast() || mac == Mac::default() {
            return;
        }
        if let Some(n) = self.entries.get_mut(&addr) {
            if n.mac.is_some_and(|old| old != mac) {
                self.moves += 1;
            }
            n.mac = Some(mac);
            n.tries = 0;
            n.due = now.saturating_add(FRESH + self.lag);
        }
    }

    /// Asks what is due, looking at no more than `budget` entries.
    pub(crate) fn tick(&mut self, now: u64, budget: u32, mut ask: impl FnMut(Question) -> bool) {
        for _ in 0..budget.min(self.high) {
            if self.cursor >= self.high {
                self.cursor = 0;
            }
            let slot = self.cursor;
            self.cursor += 1;
            let Some((addr, n)) = self.entries.at(slot).map(|(a, n)| (*a, *n)) else {
                continue;
            };
            if n.due > now {
                continue;
            }
            if n.due == 0
                && self.lag > 0
                && let Some(n) = self.entries.at_mut(slot)
            {
                // Just wanted: the first engine asks.
                n.due = now.saturating_add(self.lag);
                continue;
            }
            // Half of the questions about a known neighbour go to itself alone.
            let known = n.mac.filter(|_| n.tries < 2);
            if !ask(Question { addr, known }) {
                // No room to send: it stays due.
                return;
            }
            if let Some(n) = self.entries.at_mut(slot) {
                let pause = (FIRST_PAUSE << n.tries.min(8)).min(LONGEST_PAUSE);
                n.tries = n.tries.saturating_add(1);
                n.due = now.saturating_add(pause * self.stretch);
                if n.tries > GIVE_UP {
                    n.mac = None;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const A: Addr = Addr::from_v4([192, 0, 2, 1]);
    const M1: Mac = Mac([2, 0, 0, 0, 0, 1]);
    const M2: Mac = Mac([2, 0, 0, 0, 0, 2]);

    fn ask_all(n: &mut Neighbours, now: u64) -> Vec<Question> {
        let mut asked = Vec::new();
        n.tick(now, 16, |q| {
            asked.push(q);
            true
        });
        asked
    }

    #[test]
    fn asks_with_back_off_until_answered_and_again_before_it_grows_old() {
        let mut n = Neighbours::new(4, 1, Shard::ALONE);
        let slot = n.want(A).expect("room");
        let mut now = 1;
        let mut times = Vec::new();
        while times.len() < 8 {
            if !ask_all(&mut n, now).is_empty() {
                times.push(now);
            }
            now += MS;
        }
        let pauses: Vec<u64> = times.windows(2).map(|w| (w[1] - w[0]) / MS).collect();
        assert_eq!(pauses, [250, 500, 1000, 2000, 4000, 8000, 8000]);
        assert_eq!(n.mac(slot), None);

        n.learn(now, A, M1);
        assert_eq!(n.mac(slot), Some(M1));
        assert_eq!(ask_all(&mut n, now + FRESH - 1), []);
        let refresh = Question {
            addr: A,
            known: Some(M1),
        };
        assert_eq!(ask_all(&mut n, now + FRESH), [refresh]);
        assert_eq!(n.mac(slot), Some(M1), "in use while asked about");
        n.learn(now + FRESH + 1, A, M2);
        assert_eq!((n.mac(slot), n.moves), (Some(M2), 1));
    }

    #[test]
    fn a_silent_neighbour_is_given_up_and_an_unwanted_one_forgotten() {
        let mut n = Neighbours::new(1, 1, Shard::ALONE);
        let slot = n.want(A).expect("room");
        assert_eq!(n.want(A), Ok(slot));
        n.learn(0, A, M1);
        let mut now = FRESH;
        for _ in 0..60_000 {
            ask_all(&mut n, now);
            now += MS;
        }
        assert_eq!(n.mac(slot), None);
        n.release(slot);
        let other = Addr::from_v4([192, 0, 2, 2]);
        assert_eq!(n.want(other), Err(Refused::Full));
        n.release(slot);
        assert!(n.want(other).is_ok());
        n.learn(now, A, M1);
        assert_eq!(n.entries.len(), 1, "not wanted, not kept");
    }
}
