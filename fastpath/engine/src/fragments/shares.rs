//! Who has how much of the room.
//!
//! Counted for each sender, and for each VPC: a tenant with many addresses is many
//! senders, and still one tenant. Those of another VPC are compared with by what the
//! VPCs have, those of the same one by what they have themselves.

use penstock_flow::Addr;
use penstock_rules::model::{PortId, Vni};

use super::Key;
use crate::nic::exact::{Exact, NONE};

/// Whose room a packet takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Owner {
    ingress: PortId,
    vni: Vni,
    src: Addr,
}

impl From<&Key> for Owner {
    fn from(key: &Key) -> Self {
        Self {
            ingress: key.ingress,
            vni: key.vni,
            // A port has one room, whatever addresses it has.
            src: if key.ingress == 0 { key.src } else { Addr(0) },
        }
    }
}

/// What somebody has.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    packets: u32,
    waiting: u32,
}

/// A sender's share, and its packets by age.
#[derive(Clone, Copy, Debug)]
struct OwnShare {
    share: Share,
    oldest: u32,
    newest: u32,
}

/// What a sender has of something, and its VPC with all its senders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) own: u32,
    pub(super) vpc: u32,
}

/// Whether somebody makes room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GivesWay {
    No,
    /// For its VPC, where nobody with more of its own is found.
    ForItsVpc,
    Yes,
}

impl Part {
    /// Whether the sender of `key`, which has this, makes room for that of `other`,
    /// which has `less`.
    pub(super) fn gives_way(self, key: &Key, other: &Key, less: Self) -> GivesWay {
        if key.vni == other.vni {
            return match self.own > less.own + 1 {
                true => GivesWay::Yes,
                false => GivesWay::No,
            };
        }
        match (self.vpc > less.vpc + 1, self.own > 1) {
            (false, _) => GivesWay::No,
            (true, false) => GivesWay::ForItsVpc,
            (true, true) => GivesWay::Yes,
        }
    }
}

/// See the module's contract.
#[derive(Debug)]
pub(super) struct Shares {
    owners: Exact<Owner, OwnShare>,
    vpcs: Exact<Vni, Share>,
}

impl Shares {
    /// For so many packets: each may be somebody else's.
    pub(super) fn new(packets: u32, seed: u64) -> Self {
        Self {
            owners: Exact::new(packets, seed),
            vpcs: Exact::new(packets, seed),
        }
    }

    /// Packets that are known.
    pub(super) fn packets(&self, key: &Key) -> Part {
        self.part(key, |share| share.packets)
    }

    /// Pieces that wait.
    pub(super) fn waiting(&self, key: &Key) -> Part {
        self.part(key, |share| share.waiting)
    }

    fn part(&self, key: &Key, of: impl Fn(&Share) -> u32) -> Part {
        let own = self.owners.get(&key.into()).map(|own| &own.share);
        Part {
            own: own.map_or(0, &of),
            vpc: self.vpcs.get(&key.vni).map_or(0, &of),
        }
    }

    /// The oldest packet of a sender.
    pub(super) fn oldest(&self, key: &Key) -> u32 {
        self.owners.get(&key.into()).map_or(NONE, |own| own.oldest)
    }

    /// The newest packet of a sender.
    pub(super) fn newest(&self, key: &Key) -> u32 {
        self.owners.get(&key.into()).map_or(NONE, |own| own.newest)
    }

    /// The packet in `slot` is its sender's newest.
    pub(super) fn enter(&mut self, key: &Key, slot: u32) {
        let owner = Owner::from(key);
        if self.owners.find(&owner).is_none() {
            let own = OwnShare {
                share: Share::default(),
                oldest: slot,
                newest: slot,
            };
            let entered = self.owners.insert(owner, own);
            debug_assert!(entered.is_ok(), "every owner has a packet: {entered:?}");
        }
        if self.vpcs.find(&key.vni).is_none() {
            let entered = self.vpcs.insert(key.vni, Share::default());
            debug_assert!(entered.is_ok(), "every VPC has a packet: {entered:?}");
        }
        if let Some(own) = self.owners.get_mut(&owner) {
            own.newest = slot;
        }
        self.both(key, |share| share.packets += 1);
    }

    /// The packet in `slot`, between `older` and `newer` of the same sender, is gone.
    pub(super) fn leave(&mut self, key: &Key, slot: u32, older: u32, newer: u32) {
        self.both(key, |share| {
            share.packets = share.packets.saturating_sub(1);
        });
        let owner = Owner::from(key);
        if let Some(own) = self.owners.get_mut(&owner) {
            if own.oldest == slot {
                own.oldest = newer;
            }
            if own.newest == slot {
                own.newest = older;
            }
            if own.share.packets == 0 {
                self.owners.remove(&owner);
            }
        }
        if self.vpcs.get(&key.vni).is_some_and(|all| all.packets == 0) {
            self.vpcs.remove(&key.vni);
        }
    }

    /// One more piece waits.
    pub(super) fn wait(&mut self, key: &Key) {
        self.both(key, |share| share.waiting += 1);
    }

    /// So many wait no longer.
    pub(super) fn release(&mut self, key: &Key, pieces: u32) {
        self.both(key, |share| {
            share.waiting = share.waiting.saturating_sub(pieces);
        });
    }

    fn both(&mut self, key: &Key, change: impl Fn(&mut Share)) {
        if let Some(own) = self.owners.get_mut(&key.into()) {
            change(&mut own.share);
        }
        if let Some(all) = self.vpcs.get_mut(&key.vni) {
            change(all);
        }
    }
}
