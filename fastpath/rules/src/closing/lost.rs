//! What ports of one pair of ladders may lose in one direction.

mod peers;

use alloc::borrow::Cow;
use alloc::vec::Vec;

use penstock_flow::Prefix;

use super::change::{Change, enforced};
use super::cover::Cover;
use crate::model::{Action, Direction, OnChange, Peer, Peers, Rule, Tier, Vni};
use crate::program::Program;
use crate::ruleset::Ladder;

/// A part of one direction of a port: protocol and peer, `None` for all.
pub(super) type Part = (Option<u8>, Option<Prefix>);

/// All of one direction.
pub(super) const WHOLE: Part = (None, None);

struct Pair<'a> {
    change: &'a Change<'a>,
    vni: Vni,
    direction: Direction,
    before: Vec<&'a Program>,
    after: Vec<&'a Program>,
    /// What tenant lists allow now.
    cover: Cover<'a>,
    parts: Vec<Part>,
}

/// The parts that may close. No more than are wanted.
pub(super) fn lost<'a>(
    change: &'a Change<'a>,
    vni: Vni,
    direction: Direction,
    before: &'a Ladder,
    after: &'a Ladder,
) -> Vec<Part> {
    let (Some(was), Some(is)) = (change.old.network(vni), change.new.network(vni)) else {
        return Vec::from([WHOLE]);
    };
    let before = enforced(change.old, before, was.ladder(direction));
    let after = enforced(change.new, after, is.ladder(direction));
    let tenant = after.iter().filter(|p| p.list.tier == Tier::Tenant);
    let cover = Cover::new(change.new, vni, is, direction, tenant.copied().collect());
    let mut pair = Pair {
        change,
        vni,
        direction,
        before,
        after,
        cover,
        parts: Vec::new(),
    };
    pair.dropped();
    pair.tiers(was.vpc.default_allow, is.vpc.default_allow);
    pair.fit()
}

impl<'a> Pair<'a> {
    /// Lists that cut what they had admitted when they change.
    fn dropped(&mut self) {
        let drops = |list: crate::model::ListId| {
            let lists = [self.change.old, self.change.new].map(|ruleset| ruleset.list(list));
            let mut lists = lists.into_iter().flatten();
            lists.any(|list| list.on_change == OnChange::Drop)
        };
        let mut lists = self.before.iter().chain(&self.after);
        if lists.any(|p| self.change.has_changed(p.id) && drops(p.id)) {
            self.parts.push(WHOLE);
        }
    }

    fn tiers(&mut self, default_before: bool, default_after: bool) {
        let selects = |lists: &[&Program]| lists.iter().any(|p| p.list.tier == Tier::Tenant);
        let (selected, selects) = (selects(&self.before), selects(&self.after));
        self.rules(Tier::Admin);
        match (selected, selects) {
            (true, true) => self.rules(Tier::Tenant),
            (false, true) => {
                let opened = |p: &&Program| {
                    let mut rules = self.speaking(p);
                    p.list.tier == Tier::Baseline && rules.any(|r| r.action == Action::Allow)
                };
                let was_open = default_before || self.before.iter().any(opened);
                if was_open && !self.cover.is_all() {
                    self.parts.push(WHOLE);
                }
            }
            (true, false) => {
                let refuses = |p: &&Program| {
                    let mut rules = self.speaking(p);
                    p.list.tier == Tier::Baseline && rules.any(|r| r.action != Action::Allow)
                };
                if !default_after || self.after.iter().any(refuses) {
                    let lists = self.before.clone();
                    for p in lists.iter().filter(|p| p.list.tier == Tier::Tenant) {
                        for rule in self.speaking(p).collect::<Vec<_>>() {
                            self.gone(rule, false);
                        }
                    }
                }
            }
            (false, false) => {
                self.rules(Tier::Baseline);
                if default_before && !default_after {
                    self.parts.push(WHOLE);
                }
            }
        }
    }

    fn speaking<'p>(&self, program: &'p Program) -> impl Iterator<Item = &'p Rule> + use<'p> {
        let direction = self.direction;
        let rules = program.list.rules.iter();
        rules.filter(move |rule| rule.direction == direction)
    }

    /// Rules of a tier that opened and are not there any more, and those that
    /// close and were not there before; and who has left or joined the others.
    fn rules(&mut self, tier: Tier) {
        let (before, after) = (self.before.clone(), self.after.clone());
        let of_tier = |p: &&&Program| p.list.tier == tier;
        for p in before.iter().filter(of_tier) {
            let now = after.iter().find(|now| now.id == p.id);
            let (gone, same) = self.differences(p, now.copied());
            for rule in gone {
                if opens(&rule) {
                    self.gone(&rule, tier == Tier::Tenant);
                }
            }
            for rule in same {
                self.members(&rule, tier);
            }
        }
        for p in after.iter().filter(of_tier) {
            let was = before.iter().find(|was| was.id == p.id);
            let (new, _) = self.differences(p, was.copied());
            for rule in new {
                if rule.action != Action::Allow {
                    self.spoken_of(&rule, true);
                }
            }
        }
    }

    /// The rules of a list that are not in the other, at their place, and those that are.
    fn differences(
        &self,
        these: &'a Program,
        those: Option<&'a Program>,
    ) -> (Vec<Cow<'a, Rule>>, Vec<Cow<'a, Rule>>) {
        let all = || self.speaking(these).map(Cow::Borrowed).collect();
        let Some(those) = those else {
            return (all(), Vec::new());
        };
        if !self.change.has_changed(these.id) {
            return (Vec::new(), all());
        }
        let place = |p: &'a Program| (p.list.tier, p.list.priority, &p.list.name);
        if these.list.tier != Tier::Tenant && place(these) != place(those) {
            return (all(), Vec::new());
        }
        // By name: a list's rules have names of their own.
        let mut others: Vec<&Rule> = self.speaking(those).collect();
        others.sort_by(|a, b| a.name.cmp(&b.name));
        let (mut gone, mut same) = (Vec::new(), Vec::new());
        for rule in self.speaking(these) {
            let from = others.partition_point(|other| other.name < rule.name);
            let mut named = others.iter().skip(from);
            let counterpart = named
                .by_ref()
                .take_while(|other| other.name == rule.name)
                .find(|other| rule.says_the_same_of_peers(other));
            match counterpart.map(|other| (&rule.peers, &other.peers)) {
                None | Some((Peers::Everyone, Peers::Any(_))) => gone.push(Cow::Borrowed(rule)),
                Some((Peers::Everyone, Peers::Everyone) | (Peers::Any(_), Peers::Everyone)) => {
                    same.push(Cow::Borrowed(rule));
                }
                Some((Peers::Any(these), Peers::Any(those))) if these == those => {
                    same.push(Cow::Borrowed(rule));
                }
                Some((Peers::Any(these), Peers::Any(those))) => {
                    let stays = |peer: &&Peer| those.contains(peer);
                    let (kept, left): (Vec<&Peer>, Vec<&Peer>) = these.iter().partition(stays);
                    let with = |peers: Vec<&Peer>| {
                        Cow::Owned(Rule {
                            peers: Peers::Any(peers.into_iter().cloned().collect()),
                            ..rule.clone()
                        })
                    };
                    gone.push(with(left));
                    same.push(with(kept));
                }
            }
        }
        (gone, same)
    }

    /// No more parts than regions are wanted: first every peer, then every protocol.
    fn fit(self) -> Vec<Part> {
        let (mut parts, most) = (self.parts, self.change.most);
        tidy(&mut parts);
        if parts.len() > most {
            for (_, peer) in &mut parts {
                *peer = None;
            }
            tidy(&mut parts);
        }
        if parts.len() > most {
            parts = Vec::from([WHOLE]);
        }
        parts
    }
}

/// Whether what a rule matches may pass by it.
fn opens(rule: &Rule) -> bool {
    matches!(rule.action, Action::Allow | Action::Pass)
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
