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
#[derive(Clone, Debug)]
pub(crate) struct Program {
    everyone: Arc<Service>,
    /// By group, ascending.
    groups: Vec<(GroupId, Arc<Service>)>,
    v4: Prefixes<Arc<Service>>,
    v6: Prefixes<Arc<Service>>,
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
        let mut found = self.everyone.find(proto, dport);
        for group in groups {
            if let Ok(i) = self.groups.binary_search_by_key(group, |(g, _)| *g)
                && let Some((_, service)) = self.groups.get(i)
            {
                found = lower(found, service.find(proto, dport));
            }
        }
        let prefixes = if peer.is_v4() { &self.v4 } else { &self.v6 };
        for service in prefixes.around(peer) {
            found = lower(found, service.find(proto, dport));
        }
        found
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
