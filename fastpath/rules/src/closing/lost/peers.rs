//! What rules speak of: the peers of those that are gone or new, and who has
//! left or joined those that stay.

use alloc::vec::Vec;

use penstock_flow::Prefix;

use super::{Pair, opens};
use crate::holes::Holes;
use crate::model::{Action, Peer, Peers, Rule, Tier};

impl Pair<'_> {
    /// A rule that opened is gone; `covered`: what tenant lists allow now counts.
    pub(super) fn gone(&mut self, rule: &Rule, covered: bool) {
        if !covered {
            self.spoken_of(rule, false);
            return;
        }
        if self.cover.everyone(rule) {
            return;
        }
        let protocol = rule.protocol.map(crate::model::Protocol::number);
        let Peers::Any(peers) = &rule.peers else {
            self.parts.push((protocol, None));
            return;
        };
        for peer in peers {
            match peer {
                Peer::Cidr { prefix, except } => {
                    let holes = Holes::new(*prefix, except);
                    let lost = self.cover.prefix(rule, *prefix, &holes);
                    self.parts
                        .extend(lost.into_iter().map(|p| (protocol, Some(p))));
                }
                Peer::Set(id) => match self.change.prefixes(false, *id) {
                    Some(prefixes) => {
                        for prefix in prefixes {
                            let lost = self.cover.prefix(rule, *prefix, &Holes::default());
                            self.parts
                                .extend(lost.into_iter().map(|p| (protocol, Some(p))));
                        }
                    }
                    None if self.change.sets.contains(id) || !self.cover.peer(rule, peer) => {
                        self.parts.push((protocol, None));
                    }
                    None => {}
                },
                Peer::Group(id) => match self.change.members(false, *id) {
                    Some(members) => {
                        for addr in members {
                            if !self.cover.addr(rule, *addr) {
                                self.parts.push((protocol, Prefix::new(*addr, 128)));
                            }
                        }
                    }
                    None => {
                        let mut moved = self.change.moved(self.vni).iter();
                        let left = moved.any(|m| m.before.contains(id) && !m.after.contains(id));
                        if left || !self.cover.peer(rule, peer) {
                            self.parts.push((protocol, None));
                        }
                    }
                },
            }
        }
    }

    /// All that a rule speaks of, before or after.
    pub(super) fn spoken_of(&mut self, rule: &Rule, after: bool) {
        let protocol = rule.protocol.map(crate::model::Protocol::number);
        let Peers::Any(peers) = &rule.peers else {
            self.parts.push((protocol, None));
            return;
        };
        for peer in peers {
            match peer {
                Peer::Cidr { prefix, .. } => self.parts.push((protocol, Some(*prefix))),
                Peer::Set(id) => match self.change.prefixes(after, *id) {
                    Some(prefixes) => {
                        let parts = prefixes.iter().map(|p| (protocol, Some(*p)));
                        self.parts.extend(parts);
                    }
                    None => self.parts.push((protocol, None)),
                },
                Peer::Group(id) => match self.change.members(after, *id) {
                    Some(members) => {
                        let parts = members.iter().map(|a| (protocol, Prefix::new(*a, 128)));
                        self.parts.extend(parts);
                    }
                    None => self.parts.push((protocol, None)),
                },
            }
        }
    }

    /// A rule that stays: who has left it, where it opens, and joined it, where
    /// it closes.
    pub(super) fn members(&mut self, rule: &Rule, tier: Tier) {
        let change = self.change;
        let protocol = rule.protocol.map(crate::model::Protocol::number);
        let covers = tier == Tier::Tenant;
        let changes = [(opens(rule), false), (rule.action != Action::Allow, true)];
        for peer in rule.peers.named() {
            for (_, after) in changes.into_iter().filter(|(counts, _)| *counts) {
                match peer {
                    Peer::Cidr { .. } => {}
                    Peer::Group(id) => {
                        let moved = change.moved(self.vni).iter().filter(|m| {
                            let (had, has) = (m.before.contains(id), m.after.contains(id));
                            if after { has && !had } else { had && !has }
                        });
                        let addrs: Vec<_> = moved.map(|m| m.addr).collect();
                        if addrs.len() > change.most {
                            if !(covers && self.cover.everyone(rule)) {
                                self.parts.push((protocol, None));
                            }
                            continue;
                        }
                        for addr in addrs {
                            if !(covers && self.cover.addr(rule, addr)) {
                                self.parts.push((protocol, Prefix::new(addr, 128)));
                            }
                        }
                    }
                    Peer::Set(id) if change.sets.contains(id) => {
                        self.moved_prefixes(rule, *id, after, covers);
                    }
                    Peer::Set(_) => {}
                }
            }
        }
    }

    /// A set's prefixes that are there after, or before, and not the other time.
    fn moved_prefixes(&mut self, rule: &Rule, id: crate::model::SetId, after: bool, covers: bool) {
        let protocol = rule.protocol.map(crate::model::Protocol::number);
        let (old, new) = (self.change.old.set(id), self.change.new.set(id));
        let (there, not) = if after { (new, old) } else { (old, new) };
        let not = not.map_or(&[][..], |set| &set.prefixes);
        let there = there.map_or(&[][..], |set| &set.prefixes);
        let mut count = 0;
        for prefix in there.iter().filter(|p| not.binary_search(p).is_err()) {
            count += 1;
            if count > self.change.most {
                if !(covers && self.cover.everyone(rule)) {
                    self.parts.push((protocol, None));
                }
                return;
            }
            if covers {
                let lost = self.cover.prefix(rule, *prefix, &Holes::default());
                self.parts
                    .extend(lost.into_iter().map(|p| (protocol, Some(p))));
            } else {
                self.parts.push((protocol, Some(*prefix)));
            }
        }
    }
}
