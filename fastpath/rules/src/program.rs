//! What the ports of one set of groups share in one direction.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use penstock_flow::{Addr, Prefix};

use crate::model::{GroupId, Peer, Rule};
use crate::peers::{Holes, Prefixes};
use crate::query::RuleId;
use crate::service::{Service, lower};

/// The allow-list of a selected direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    pub(crate) everyone: Arc<Service>,
    /// By group, ascending.
    pub(crate) groups: Vec<(GroupId, Arc<Service>)>,
    pub(crate) v4: Prefixes<Arc<Service>>,
    pub(crate) v6: Prefixes<Arc<Service>>,
}

/// Services that were built already, by the rules they flatten.
pub(crate) type Services = BTreeMap<Vec<RuleId>, Arc<Service>>;

impl Program {
    /// Rules ascending by id; every one is in force.
    pub(crate) fn new(rules: &[(RuleId, &Rule)], services: &mut Services) -> Self {
        let mut everyone = Vec::new();
        let mut groups = BTreeMap::<GroupId, Vec<(RuleId, &Rule)>>::new();
        let mut cidrs = BTreeMap::<(Prefix, Holes), Vec<(RuleId, &Rule)>>::new();
        for &(id, rule) in rules {
            if rule.peers.is_empty() {
                everyone.push((id, rule));
            }
            for peer in &rule.peers {
                let named_by = match peer {
                    Peer::Group(group) => groups.entry(*group).or_default(),
                    Peer::Cidr { prefix, except } => cidrs
                        .entry((*prefix, Holes::new(*prefix, except)))
                        .or_default(),
                };
                // A rule may name a peer twice.
                if named_by.last().is_none_or(|(last, _)| *last != id) {
                    named_by.push((id, rule));
                }
            }
        }
        let mut v4 = Vec::new();
        let mut v6 = Vec::new();
        for ((prefix, holes), rules) in cidrs {
            let family = if prefix.is_v4() { &mut v4 } else { &mut v6 };
            family.push((prefix, holes, shared(&rules, services)));
        }
        Self {
            everyone: shared(&everyone, services),
            groups: groups
                .into_iter()
                .map(|(group, rules)| (group, shared(&rules, services)))
                .collect(),
            v4: Prefixes::new(v4),
            v6: Prefixes::new(v6),
        }
    }

    /// The lowest rule that allows it. `groups`: the peer's.
    pub(crate) fn find(
        &self,
        peer: Addr,
        groups: &[GroupId],
        proto: u8,
        dport: u16,
    ) -> Option<RuleId> {
        let mut found = None;
        for service in self.at(peer, groups) {
            found = lower(found, service.find(proto, dport));
        }
        found
    }

    /// What a peer of these groups is allowed, taken together.
    pub(crate) fn at(&self, peer: Addr, groups: &[GroupId]) -> impl Iterator<Item = &Service> {
        core::iter::once(&self.everyone)
            .chain(groups.iter().filter_map(|group| self.group(*group)))
            .chain(self.family(peer.is_v4()).around(peer))
            .map(|service| &**service)
    }

    /// Whether there is no rule in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.everyone.is_empty()
            && self.groups.is_empty()
            && self.v4.is_empty()
            && self.v6.is_empty()
    }

    /// What members of a group are allowed as such.
    pub(crate) fn group(&self, group: GroupId) -> Option<&Arc<Service>> {
        let i = self.groups.binary_search_by_key(&group, |(g, _)| *g).ok()?;
        self.groups.get(i).map(|(_, service)| service)
    }

    /// The prefixes of one family.
    pub(crate) const fn family(&self, is_v4: bool) -> &Prefixes<Arc<Service>> {
        if is_v4 { &self.v4 } else { &self.v6 }
    }
}

fn shared(rules: &[(RuleId, &Rule)], services: &mut Services) -> Arc<Service> {
    let key: Vec<RuleId> = rules.iter().map(|(id, _)| *id).collect();
    Arc::clone(
        services
            .entry(key)
            .or_insert_with(|| Arc::new(Service::new(rules.iter().copied()))),
    )
}
