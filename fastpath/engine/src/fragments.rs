//! Packets in fragments, as far as they have to be known to judge each piece.
//!
//! Nothing is put together and nothing is copied. Only a packet's first piece has
//! ports; they are kept for its other pieces, which wait where they come before it:
//! their frames stay with the caller, each in a *place* that the table names.
//!
//! * A packet is known by who sends it (a local port; from the wire, the inner
//!   source), VPC, addresses, protocol and identification.
//! * Pieces may come in any order. One that has come before is dropped; one that
//!   overlaps another, ends behind the last, or is one of too many refuses all of the
//!   packet that is still to come (RFC 5722, for IPv4 as well).
//! * A packet whose pieces have all come is forgotten: its identification may be used
//!   again. Else it is forgotten some time after its last piece ([`REMEMBERED`]), or
//!   when its first piece has not come in time.
//! * Memory is fixed, and shared fairly: whoever has more packets, or more pieces that
//!   wait, makes room for those with less, never the other way round; first among
//!   VPCs, then among the senders of one.
//!
//! With several lcores all pieces of a packet go to one, its *home*, chosen by source
//! and destination address alone; this table is the home's. Where the ports say that
//! the flow belongs to another lcore, the home hands the pieces over to that one with
//! the ports beside them, the first one first.

mod pieces;
mod places;
mod shares;

use penstock_flow::packet::Fragment;
use penstock_flow::tuple::proto;
use penstock_flow::wheel::Wheel;
use penstock_flow::{Addr, DropReason};
use penstock_rules::model::{PortId, Vni};

use crate::config::Config;
use crate::nic::exact::{Exact, NONE};
use pieces::{Fit, Pieces};
pub use places::Release;
use places::{Line, Places};
use shares::{GivesWay, Shares};

/// How long a packet is remembered after its last piece, in nanoseconds; a refused
/// one, after it was refused.
pub const REMEMBERED: u64 = 2_000_000_000;

/// Places in the table, or in the waiting room, that a search for somebody with more
/// looks at.
const LOOKS: u32 = 64;
/// Of the room, what one sender may have at most: one part in so many.
const MOST_OF_ONE: u32 = 4;
/// Of the waiting room, what is kept free by VPCs with more than what one sender may
/// have: one part in so many.
const SPARE: u32 = 8;
/// Timers that one tick looks at.
const TIMERS_PER_TICK: usize = 256;
/// The TCP header's fixed part reaches into the third multiple of eight: a later piece
/// that begins before can only be there to write over it (RFC 3128).
const TCP_FIRST: u16 = 24;

/// Names a packet that is in fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// The sending port; 0: the wire.
    pub(crate) ingress: PortId,
    pub(crate) vni: Vni,
    pub(crate) src: Addr,
    pub(crate) dst: Addr,
    pub(crate) proto: u8,
    pub(crate) id: u32,
}

/// A flow's ports, as in a tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "as in `Tuple`")]
pub struct Ports {
    pub sport: u16,
    pub dport: u16,
}

/// What became of a packet's first piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It passed, or went where its flow is.
    Pass(Ports),
    /// It was refused.
    Drop(DropReason),
}

/// What to do with a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meet {
    /// Judge it as a packet of its own, and say what came out.
    First,
    /// It belongs to what has passed with these ports.
    Later(Ports),
    /// Its first has not come: the frame waits in this place.
    Wait { place: u32 },
}

#[derive(Debug)]
struct Datagram {
    verdict: Option<Verdict>,
    pieces: Pieces,
    waiting: Line,
    /// Of the same owner: who came before, and after.
    older: u32,
    newer: u32,
}

/// The table; see the module's contract.
#[derive(Debug)]
pub(crate) struct Fragments {
    datagrams: Exact<Key, Datagram>,
    shares: Shares,
    wheel: Wheel,
    places: Places,
    cursor: u32,
    wait: u64,
}

impl Fragments {
    pub(crate) fn new(config: &Config) -> Self {
        let most = config.max_fragmented;
        Self {
            datagrams: Exact::new(most, config.seed),
            shares: Shares::new(most, config.seed),
            wheel: Wheel::new(most, 0),
            places: Places::new(config.max_waiting_fragments),
            cursor: 0,
            wait: config.fragment_wait,
        }
    }

    /// Frames that may wait at once; places are numbered below this.
    pub(crate) fn places(&self) -> u32 {
        self.places.capacity()
    }

    /// One more piece, which came in on `device_port`.
    pub(crate) fn meet(
        &mut self,
        now: u64,
        key: &Key,
        piece: &Fragment,
        device_port: u32,
    ) -> Result<Meet, DropReason> {
        let first = piece.offset == 0;
        let slot = match self.datagrams.find(key) {
            Some(slot) => match self.datagrams.at(slot).and_then(|(_, d)| d.verdict) {
                // A new one of that name, maybe after a change of policy.
                Some(Verdict::Drop(reason)) if first && reason != DropReason::Fragment => {
                    self.forget(slot);
                    self.create(now, key)?
                }
                Some(Verdict::Drop(reason)) => return Err(reason),
                _ => slot,
            },
            None => self.create(now, key)?,
        };
        let datagram = self
            .datagrams
            .at_mut(slot)
            .ok_or(DropReason::FragmentsFull)?;
        let over_header = key.proto == proto::TCP && (1..TCP_FIRST).contains(&piece.offset);
        match datagram.pieces.add(piece) {
            Fit::New if !over_header => {}
            Fit::Duplicate => return Err(DropReason::FragmentDuplicate),
            Fit::New | Fit::Conflict => {
                self.judged(now, key, Verdict::Drop(DropReason::Fragment));
                return Err(DropReason::Fragment);
            }
        }
        match datagram.verdict {
            Some(Verdict::Pass(ports)) => {
                if datagram.pieces.complete() {
                    self.forget(slot);
                } else {
                    self.wheel.arm(slot, now.saturating_add(REMEMBERED));
                }
                Ok(Meet::Later(ports))
            }
            Some(Verdict::Drop(reason)) => Err(reason),
            None if first => Ok(Meet::First),
            None => self
                .hold(slot, key, device_port)
                .map(|place| Meet::Wait { place }),
        }
    }

    /// What became of the first piece, or of the whole packet: what waits for it is
    /// released.
    pub(crate) fn judged(&mut self, now: u64, key: &Key, verdict: Verdict) {
        let Some(slot) = self.datagrams.find(key) else {
            return;
        };
        self.release(slot, verdict);
        let Some(datagram) = self.datagrams.at_mut(slot) else {
            return;
        };
        datagram.verdict = Some(verdict);
        if datagram.pieces.complete() && matches!(verdict, Verdict::Pass(_)) {
            self.forget(slot);
        } else {
            self.wheel.arm(slot, now.saturating_add(REMEMBERED));
        }
    }

    /// A frame whose wait is over, oldest first; its place is free again.
    #[inline]
    pub(crate) fn next_release(&mut self) -> Option<Release> {
        self.places.next_release()
    }

    /// Forgets what has waited, or been silent, for too long.
    pub(crate) fn expire(&mut self, now: u64) {
        let mut budget = TIMERS_PER_TICK;
        while let Some(slot) = self.wheel.next_due(now, &mut budget) {
            self.release(slot, Verdict::Drop(DropReason::FragmentTimeout));
            self.forget(slot);
        }
    }

    /// A new packet's slot, whatever has to go for it.
    fn create(&mut self, now: u64, key: &Key) -> Result<u32, DropReason> {
        let ours = self.shares.packets(key);
        if ours.own >= (self.datagrams.capacity() / MOST_OF_ONE).max(1) {
            self.evict(self.shares.oldest(key));
        } else if self.datagrams.len() >= self.datagrams.capacity() {
            let own = (ours.own > 0).then(|| self.shares.oldest(key));
            let richer = self.richer(key).or(own);
            self.evict(richer.ok_or(DropReason::FragmentsFull)?);
        }
        let newest = self.shares.newest(key);
        let datagram = Datagram {
            verdict: None,
            pieces: Pieces::new(),
            waiting: Line::EMPTY,
            older: newest,
            newer: NONE,
        };
        let slot = self
            .datagrams
            .insert(*key, datagram)
            .map_err(|_| DropReason::FragmentsFull)?;
        if let Some(before) = self.datagrams.at_mut(newest) {
            before.newer = slot;
        }
        self.shares.enter(key, slot);
        self.wheel.arm(slot, now.saturating_add(self.wait));
        Ok(slot)
    }

    /// A place for a piece of the packet in `slot`.
    fn hold(&mut self, slot: u32, key: &Key, device_port: u32) -> Result<u32, DropReason> {
        let ours = self.shares.waiting(key);
        let all = self.places.capacity();
        let most = (all / MOST_OF_ONE).max(1);
        if ours.own >= most {
            return Err(DropReason::FragmentsFull);
        }
        // What goes frees its places only when the caller has taken the frames: some
        // are kept free for the meantime.
        if self.places.free() <= all / SPARE {
            match self.richer_waiting(key) {
                Some(richer) => self.evict(richer),
                None if ours.vpc >= most => return Err(DropReason::FragmentsFull),
                None => {}
            }
        }
        let datagram = self
            .datagrams
            .at_mut(slot)
            .ok_or(DropReason::FragmentsFull)?;
        let place = self
            .places
            .take(&mut datagram.waiting, slot, key, device_port)
            .ok_or(DropReason::FragmentsFull)?;
        self.shares.wait(key);
        Ok(place)
    }

    /// The oldest packet of somebody who makes room for one more of `key`'s sender.
    fn richer(&mut self, key: &Key) -> Option<u32> {
        let all = self.datagrams.capacity();
        let less = self.shares.packets(key);
        let from = self.look_from();
        let mut found = None;
        for i in 0..LOOKS.min(all) {
            let Some((other, _)) = self.datagrams.at(from.wrapping_add(i) % all) else {
                continue;
            };
            let has = self.shares.packets(other);
            match has.gives_way(other, key, less) {
                GivesWay::Yes => return Some(self.shares.oldest(other)),
                GivesWay::ForItsVpc => found = Some(self.shares.oldest(other)),
                GivesWay::No => {}
            }
        }
        found
    }

    /// A packet with waiting pieces, of somebody who makes room for one more.
    fn richer_waiting(&mut self, key: &Key) -> Option<u32> {
        let all = self.places.capacity();
        let less = self.shares.waiting(key);
        let from = self.look_from();
        let mut found = None;
        for i in 0..LOOKS.min(all) {
            let Some(slot) = self.places.waits_for(from.wrapping_add(i) % all) else {
                continue;
            };
            let Some((other, _)) = self.datagrams.at(slot) else {
                continue;
            };
            let has = self.shares.waiting(other);
            match has.gives_way(other, key, less) {
                GivesWay::Yes => return Some(slot),
                GivesWay::ForItsVpc => found = Some(slot),
                GivesWay::No => {}
            }
        }
        found
    }

    /// Where a search begins: each at another place.
    fn look_from(&mut self) -> u32 {
        let from = self.cursor;
        self.cursor = from.wrapping_add(LOOKS);
        from
    }

    fn evict(&mut self, slot: u32) {
        self.release(slot, Verdict::Drop(DropReason::FragmentsFull));
        self.forget(slot);
    }

    /// All that waits for the packet in `slot` waits no longer.
    fn release(&mut self, slot: u32, verdict: Verdict) {
        let Some((key, _)) = self.datagrams.at(slot) else {
            return;
        };
        let key = *key;
        let Some(datagram) = self.datagrams.at_mut(slot) else {
            return;
        };
        let released = self.places.release(&mut datagram.waiting, verdict);
        self.shares.release(&key, released);
    }

    /// Removes a packet for which nothing waits.
    fn forget(&mut self, slot: u32) {
        let Some((key, datagram)) = self.datagrams.at(slot) else {
            return;
        };
        let (key, older, newer) = (*key, datagram.older, datagram.newer);
        self.wheel.cancel(slot);
        self.datagrams.remove(&key);
        if let Some(before) = self.datagrams.at_mut(older) {
            before.newer = newer;
        }
        if let Some(behind) = self.datagrams.at_mut(newer) {
            behind.older = older;
        }
        self.shares.leave(&key, slot, older, newer);
    }
}

#[cfg(test)]
mod tests;
