//! What tenant lists allow after a change: a rule that is gone closes nothing
//! that another one allows.

use alloc::vec::Vec;

use penstock_flow::{Addr, Prefix};

use crate::holes::{Holes, prefixes};
use crate::model::{Direction, Peer, Rule, Vni};
use crate::places::Places;
use crate::program::{Program, named};
use crate::ruleset::{Network, Ruleset};
use crate::service::{Coverage, Service};
use crate::tags::{self, Tag};

/// See the module's contract.
pub(super) struct Cover<'a> {
    ruleset: &'a Ruleset,
    vni: Vni,
    network: &'a Network,
    direction: Direction,
    lists: Vec<&'a Program>,
}

impl<'a> Cover<'a> {
    pub(super) const fn new(
        ruleset: &'a Ruleset,
        vni: Vni,
        network: &'a Network,
        direction: Direction,
        lists: Vec<&'a Program>,
    ) -> Self {
        Self {
            ruleset,
            vni,
            network,
            direction,
            lists,
        }
    }

    /// Whether everyone may do everything.
    pub(super) fn is_all(&self) -> bool {
        let mut everyone = self.services(core::iter::empty());
        everyone.any(|(_, service)| service.allows_all())
    }

    /// Whether everyone may do what the rule allows.
    pub(super) fn everyone(&self, rule: &Rule) -> bool {
        self.covers(rule, core::iter::empty())
    }

    /// Whether whoever is in the same group or set may.
    pub(super) fn peer(&self, rule: &Rule, peer: &Peer) -> bool {
        self.covers(rule, named(peer).into_iter())
    }

    /// Whether an address may.
    pub(super) fn addr(&self, rule: &Rule, addr: Addr) -> bool {
        self.covers(rule, self.tags_at(addr).into_iter())
    }

    /// The parts of a prefix, but for holes, that may not.
    pub(super) fn prefix(&self, rule: &Rule, prefix: Prefix, holes: &Holes) -> Vec<Prefix> {
        let places: &Places = &self.network.places;
        let (mut whole, mut holed) = (Vec::new(), Vec::new());
        for tag in places.enclosing(prefix) {
            let beyond = places
                .holes(tag)
                .map_or_else(Vec::new, |now| now.beyond(holes, prefix));
            if beyond.is_empty() {
                whole.push(tag);
            } else {
                holed.push((tag, beyond));
            }
        }
        if prefix.len() == 128 {
            whole.extend(self.tags_at(prefix.addr()));
        }
        if self.covers(rule, whole.iter().copied()) {
            return Vec::new();
        }
        // A rule that says the same but for new holes: only these are lost.
        holed
            .into_iter()
            .filter(|(tag, _)| self.covers(rule, whole.iter().copied().chain([*tag])))
            .map(|(_, beyond)| beyond.into_iter().flat_map(prefixes).collect())
            .min_by_key(Vec::len)
            .unwrap_or_else(|| Vec::from([prefix]))
    }

    fn tags_at(&self, addr: Addr) -> Vec<Tag> {
        let groups = self.ruleset.groups_of(self.network, self.vni, addr);
        let groups = groups.iter().map(|id| tags::group(*id));
        groups.chain(self.network.places.tags(addr)).collect()
    }

    fn covers(&self, rule: &Rule, tags: impl Iterator<Item = Tag> + Clone) -> bool {
        let mut coverage = Coverage::new(rule);
        for (program, service) in self.services(tags) {
            coverage.add(service, |rank| {
                let other = program.ranked(rank);
                other.is_some_and(|other| other.stateful || !rule.stateful)
            });
        }
        coverage.is_complete()
    }

    fn services(
        &self,
        tags: impl Iterator<Item = Tag> + Clone,
    ) -> impl Iterator<Item = (&'a Program, &'a Service)> {
        let direction = self.direction;
        self.lists.iter().flat_map(move |program| {
            let services = program.way(direction).at(tags.clone());
            services.map(move |service| (*program, service))
        })
    }
}
