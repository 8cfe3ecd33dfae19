//! Two rulesets, and what is different between them.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::OnceCell;

use penstock_flow::{Addr, Prefix};

use crate::model::{Direction, GroupId, List, ListId, Peer, SetId, Vni};
use crate::program::Program;
use crate::ruleset::{Ladder, Network, Ruleset};
use crate::shards::Slot;

/// An address whose groups are not what they were.
#[derive(Clone, Debug)]
pub(super) struct Moved {
    pub(super) addr: Addr,
    pub(super) before: Vec<GroupId>,
    pub(super) after: Vec<GroupId>,
}

/// See the module's contract.
pub(super) struct Change<'a> {
    pub(super) old: &'a Ruleset,
    pub(super) new: &'a Ruleset,
    /// Lists longer than this are not worth looking at one by one.
    pub(super) most: usize,
    /// Lists that say something else, or apply to others, than they did.
    changed: BTreeSet<ListId>,
    /// Those, and lists whose peers are others than they were: by their places
    /// before, and after.
    touched: [Vec<bool>; 2],
    /// VPCs of which everything has to be looked at.
    vpcs: BTreeSet<Vni>,
    /// By the VPC that sees it.
    moved: BTreeMap<Vni, Vec<Moved>>,
    /// Sets of other prefixes than before.
    pub(super) sets: BTreeSet<SetId>,
    /// Members of each group before and after, one more than `most` at most.
    /// Seldom needed, so made late.
    members: [OnceCell<BTreeMap<GroupId, Vec<Addr>>>; 2],
}

impl<'a> Change<'a> {
    pub(super) fn new(old: &'a Ruleset, new: &'a Ruleset, most: usize) -> Self {
        let moved = moved(old, new);
        let groups: BTreeSet<GroupId> = moved
            .values()
            .flatten()
            .flat_map(|m| m.before.iter().chain(&m.after).copied())
            .collect();
        let sets: BTreeSet<SetId> = differing(old.parts().sets, new.parts().sets, |a, b| {
            Arc::ptr_eq(&a.it, &b.it) || a.it.prefixes == b.it.prefixes
        });
        let changed = changed_lists(old, new);
        let mut change = Self {
            old,
            new,
            most,
            vpcs: differing(old.parts().vpcs, new.parts().vpcs, |a, b| {
                a.vpc.default_allow == b.vpc.default_allow
            }),
            touched: [Vec::new(), Vec::new()],
            changed,
            moved,
            sets,
            members: [OnceCell::new(), OnceCell::new()],
        };
        change.touched = [change.touched(old, &groups), change.touched(new, &groups)];
        for list in &change.changed {
            for ruleset in [old, new] {
                if let Some(list) = ruleset.list(*list)
                    && list.applies == crate::model::Applies::Vpc
                {
                    change.vpcs.insert(list.vni);
                }
            }
        }
        // A list of a whole VPC that names who moved.
        for (i, ruleset) in [old, new].into_iter().enumerate() {
            for (vni, network) in ruleset.parts().vpcs.iter() {
                let ladders = [Direction::Ingress, Direction::Egress].map(|d| network.ladder(d));
                let mut slots = ladders.iter().flat_map(|ladder| ladder.slots());
                if slots.any(|slot| change.is_touched(i, *slot)) {
                    change.vpcs.insert(*vni);
                }
            }
        }
        change
    }

    fn touched(&self, ruleset: &Ruleset, groups: &BTreeSet<GroupId>) -> Vec<bool> {
        let mut touched = Vec::new();
        let names = |peer: &Peer| match peer {
            Peer::Cidr { .. } => false,
            Peer::Group(id) => groups.contains(id),
            Peer::Set(id) => self.sets.contains(id),
        };
        let looks = !groups.is_empty() || !self.sets.is_empty();
        for (id, slot) in ruleset.parts().lists.iter() {
            let is_touched = self.changed.contains(id)
                || looks
                    && ruleset.program(*slot).is_some_and(|program| {
                        let mut rules = program.list.rules.iter();
                        rules.any(|rule| rule.peers.named().iter().any(names))
                    });
            if is_touched {
                let slot = *slot as usize;
                if touched.len() <= slot {
                    touched.resize(slot + 1, false);
                }
                if let Some(place) = touched.get_mut(slot) {
                    *place = true;
                }
            }
        }
        touched
    }

    fn is_touched(&self, which: usize, slot: Slot) -> bool {
        let touched = self.touched.get(which);
        touched.is_some_and(|touched| touched.get(slot as usize) == Some(&true))
    }

    /// Whether anything may be different for ports of these lists.
    pub(super) fn concerns(
        &self,
        vni: Vni,
        direction: Direction,
        before: &Ladder,
        after: &Ladder,
    ) -> bool {
        let _ = direction;
        before != after
            || self.vpcs.contains(&vni)
            || before.slots().iter().any(|slot| self.is_touched(0, *slot))
            || after.slots().iter().any(|slot| self.is_touched(1, *slot))
    }

    /// Whether a list is not what it was.
    pub(super) fn has_changed(&self, list: ListId) -> bool {
        self.changed.contains(&list)
    }

    /// Addresses whose groups are not what they were, as a VPC sees it.
    pub(super) fn moved(&self, vni: Vni) -> &[Moved] {
        self.moved.get(&vni).map_or(&[], Vec::as_slice)
    }

    /// The members of a group, before or after; `None`: too many to look at.
    pub(super) fn members(&self, after: bool, group: GroupId) -> Option<&[Addr]> {
        let (ruleset, cell) = match (&self.members, after) {
            ([cell, _], false) => (self.old, cell),
            ([_, cell], true) => (self.new, cell),
        };
        let members = cell.get_or_init(|| {
            let mut members = BTreeMap::<GroupId, Vec<Addr>>::new();
            for ((_, addr), member) in ruleset.endpoints() {
                for group in member.groups() {
                    let of_group = members.entry(*group).or_default();
                    if of_group.len() <= self.most {
                        of_group.push(addr);
                    }
                }
            }
            members
        });
        let found = members.get(&group).map_or(&[][..], Vec::as_slice);
        (found.len() <= self.most).then_some(found)
    }

    /// The prefixes of a set, before or after; `None`: too many to look at.
    pub(super) fn prefixes(&self, after: bool, set: SetId) -> Option<&[Prefix]> {
        let ruleset = if after { self.new } else { self.old };
        let found = ruleset.set(set).map_or(&[][..], |set| &set.prefixes);
        (found.len() <= self.most).then_some(found)
    }
}

/// The keys in either map whose values are not the same in both.
fn differing<K: Copy + Ord + core::hash::Hash, V: Clone>(
    old: &crate::shards::Shards<K, V>,
    new: &crate::shards::Shards<K, V>,
    same: impl Fn(&V, &V) -> bool,
) -> BTreeSet<K> {
    let mut keys = BTreeSet::new();
    for (these, those) in [(old, new), (new, old)] {
        for (key, value) in these.unshared(those) {
            if those.get(key).is_none_or(|other| !same(value, other)) {
                keys.insert(*key);
            }
        }
    }
    keys
}

/// Lists that are in one ruleset only, or not the same in both.
fn changed_lists(old: &Ruleset, new: &Ruleset) -> BTreeSet<ListId> {
    let mut changed = BTreeSet::new();
    for (these, those) in [(old, new), (new, old)] {
        for (id, list) in these.lists() {
            if those.list(id).is_none_or(|other| !same_list(list, other)) {
                changed.insert(id);
            }
        }
    }
    changed
}

fn same_list(a: &Arc<List>, b: &Arc<List>) -> bool {
    Arc::ptr_eq(a, b) || a == b
}

/// The addresses whose groups a VPC sees otherwise than before.
fn moved(old: &Ruleset, new: &Ruleset) -> BTreeMap<Vni, Vec<Moved>> {
    let endpoints = differing(old.parts().endpoints, new.parts().endpoints, |a, b| {
        a.groups() == b.groups()
    });
    let mut moved = BTreeMap::new();
    for (vni, before) in old.parts().vpcs.iter() {
        let Some(after) = new.network(*vni) else {
            continue;
        };
        let mut seen = BTreeSet::from([*vni]);
        seen.extend(&before.vpc.peers);
        seen.extend(&after.vpc.peers);
        let mut addrs: BTreeSet<Addr> = BTreeSet::new();
        if !endpoints.is_empty() {
            for other in &seen {
                let of_other = (*other, Addr(0))..=(*other, Addr(u128::MAX));
                addrs.extend(endpoints.range(of_other).map(|(_, addr)| *addr));
            }
        }
        let mut peers = before
            .vpc
            .peers
            .symmetric_difference(&after.vpc.peers)
            .peekable();
        if peers.peek().is_some() {
            let others: BTreeSet<Vni> = peers.copied().collect();
            for ruleset in [old, new] {
                let all = ruleset.endpoints();
                let of_others = all.filter(|((vni, _), _)| others.contains(vni));
                addrs.extend(of_others.map(|((_, addr), _)| addr));
            }
        }
        let found: Vec<Moved> = addrs
            .into_iter()
            .filter_map(|addr| {
                let groups = |ruleset: &Ruleset, network: &Network| {
                    ruleset.groups_of(network, *vni, addr).to_vec()
                };
                let (before, after) = (groups(old, before), groups(new, after));
                (before != after).then_some(Moved {
                    addr,
                    before,
                    after,
                })
            })
            .collect();
        if !found.is_empty() {
            moved.insert(*vni, found);
        }
    }
    moved
}

/// The enforced lists of a ladder and of its VPC, in one direction.
pub(super) fn enforced<'a>(
    ruleset: &'a Ruleset,
    own: &'a Ladder,
    wide: &'a Ladder,
) -> Vec<&'a Program> {
    own.slots()
        .iter()
        .chain(wide.slots())
        .filter_map(|slot| ruleset.program(*slot))
        .filter(|program| !program.list.audit)
        .collect()
}
