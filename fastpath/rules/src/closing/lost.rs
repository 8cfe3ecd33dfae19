//! What one allow-list allows and another does not.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cell::OnceCell;

use penstock_flow::{Addr, Prefix};

use crate::model::{Endpoint, GroupId, Vni};
use crate::peers::prefixes;
use crate::program::Program;
use crate::ruleset::Ruleset;
use crate::service::Service;

/// A part of one direction of a port: protocol and peer, `None` for all.
pub(super) type Part = (Option<u8>, Option<Prefix>);

/// All of one direction.
pub(super) const WHOLE: Part = (None, None);

/// Two rulesets, and what is worth knowing of both at once.
pub(super) struct Change<'a> {
    pub(super) old: &'a Ruleset,
    pub(super) new: &'a Ruleset,
    /// Lists longer than this are not worth looking at one by one.
    most: usize,
    /// Addresses that have left a group, by the group.
    removed: BTreeMap<GroupId, Vec<Addr>>,
    /// The old members of each group, one more than `most` at most. Seldom
    /// needed, so made late.
    members: OnceCell<BTreeMap<GroupId, Vec<Addr>>>,
}

impl<'a> Change<'a> {
    pub(super) fn new(old: &'a Ruleset, new: &'a Ruleset, most: usize) -> Self {
        let mut removed = BTreeMap::<GroupId, Vec<Addr>>::new();
        let mut after = new.policy().endpoints.iter().peekable();
        for (key, endpoint) in &old.policy().endpoints {
            while after.next_if(|(k, _)| *k < key).is_some() {}
            let groups: &[GroupId] = after
                .next_if(|(k, _)| *k == key)
                .map_or(&[], |(_, now): (_, &Endpoint)| &now.groups);
            if endpoint.groups == groups {
                continue;
            }
            for group in &endpoint.groups {
                if !groups.contains(group) {
                    removed.entry(*group).or_default().push(key.1);
                }
            }
        }
        Self {
            old,
            new,
            most,
            removed,
            members: OnceCell::new(),
        }
    }

    /// What of `old` is not in `new`. `same_rules`: they differ in the members
    /// of peer groups at most.
    pub(super) fn lost(
        &self,
        vni: Vni,
        old: &Program,
        new: &Program,
        same_rules: bool,
    ) -> Vec<Part> {
        let mut parts = Vec::new();
        if !same_rules {
            let everyone = old.everyone.lost(&[&new.everyone]);
            parts.extend(everyone.into_iter().map(|p| (p, None)));
            for is_v4 in [true, false] {
                self.lost_prefixes(vni, old, new, is_v4, &mut parts);
            }
        }
        for (group, service) in &old.groups {
            let narrowed = !same_rules && {
                let mut now: Vec<&Service> = Vec::from([&*new.everyone]);
                now.extend(new.group(*group).map(|service| &**service));
                !service.lost(&now).is_empty()
            };
            // Of a rule that stays, only they lose what it allows.
            let losers: &[Addr] = if narrowed {
                self.members(*group)
            } else {
                self.removed.get(group).map_or(&[], Vec::as_slice)
            };
            if losers.len() > self.most {
                let lost = service.lost(&[&new.everyone]);
                parts.extend(lost.into_iter().map(|p| (p, None)));
                continue;
            }
            for addr in losers {
                let lost = service.lost(&self.at(vni, new, *addr));
                parts.extend(lost.into_iter().map(|p| (p, Prefix::new(*addr, 128))));
            }
        }
        self.fit(parts)
    }

    fn lost_prefixes(
        &self,
        vni: Vni,
        old: &Program,
        new: &Program,
        is_v4: bool,
        parts: &mut Vec<Part>,
    ) {
        for (prefix, entry) in old.family(is_v4).entries() {
            let now: Vec<_> = new
                .family(is_v4)
                .enclosing(prefix)
                .map(|now| (now.holes.beyond(&entry.holes, prefix), &*now.value))
                .collect();
            let mut others = if prefix.len() == 128 {
                self.at(vni, new, prefix.addr())
            } else {
                Vec::from([&*new.everyone])
            };
            let whole = now.iter().filter(|(holes, _)| holes.is_empty());
            others.extend(whole.map(|(_, service)| *service));
            let lost = entry.value.lost(&others);
            if lost.is_empty() {
                continue;
            }
            // A rule that says the same but for new holes: only these are lost.
            let holes = now
                .iter()
                .filter(|(_, service)| {
                    others.push(service);
                    let covered = entry.value.lost(&others).is_empty();
                    others.pop();
                    covered
                })
                .map(|(holes, _)| holes.iter().copied().flat_map(prefixes).collect())
                .min_by_key(Vec::len)
                .unwrap_or_else(|| Vec::from([prefix]));
            for p in lost {
                parts.extend(holes.iter().map(|hole| (p, Some(*hole))));
            }
        }
    }

    /// What the new policy allows an address.
    fn at<'p>(&self, vni: Vni, new: &'p Program, addr: Addr) -> Vec<&'p Service> {
        new.at(addr, self.new.groups_of(vni, addr)).collect()
    }

    fn members(&self, group: GroupId) -> &[Addr] {
        let members = self.members.get_or_init(|| {
            let mut members = BTreeMap::<GroupId, Vec<Addr>>::new();
            for ((_, addr), endpoint) in &self.old.policy().endpoints {
                for group in &endpoint.groups {
                    let of_group = members.entry(*group).or_default();
                    if of_group.len() <= self.most {
                        of_group.push(*addr);
                    }
                }
            }
            members
        });
        members.get(&group).map_or(&[], Vec::as_slice)
    }

    /// No more parts than regions are wanted: first every peer, then every protocol.
    fn fit(&self, mut parts: Vec<Part>) -> Vec<Part> {
        tidy(&mut parts);
        if parts.len() > self.most {
            for (_, peer) in &mut parts {
                *peer = None;
            }
            tidy(&mut parts);
        }
        if parts.len() > self.most {
            parts = Vec::from([WHOLE]);
        }
        parts
    }
}

/// In order, each once, and none that is inside one about every peer.
fn tidy(parts: &mut Vec<Part>) {
    parts.sort_unstable();
    parts.dedup();
    // `None` sorts first, so these few are at the head of their protocol.
    let about_all: Vec<Option<u8>> = parts
        .iter()
        .filter(|(_, peer)| peer.is_none())
        .map(|(p, _)| *p)
        .collect();
    if about_all.contains(&None) {
        parts.clear();
        parts.push(WHOLE);
        return;
    }
    parts.retain(|(p, peer)| peer.is_none() || !about_all.contains(p));
}
