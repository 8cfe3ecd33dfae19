//! What each tier says about a packet: rule by rule, as a reader would go
//! through them, and by none of the tables that judge.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Ordering;

use crate::model::{Action, List, ListId, Rule, Tier, Vni};
use crate::query::Query;
use crate::ruleset::Ruleset;

/// What a tier says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierSays {
    /// The tier.
    pub tier: Tier,
    /// What comes of it.
    pub outcome: Outcome,
    /// All rules that match, in the order in which they are asked.
    pub matches: Vec<Match>,
}

/// What comes of a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A rule of it decides.
    Decided,
    /// A rule of it passes on to the next tier.
    Passed,
    /// Tenant: the port is selected, and no rule allows the packet.
    Closed,
    /// Tenant: no list selects the port in this direction.
    NotSelected,
    /// No rule of it matches.
    NoMatch,
}

/// A rule that matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// Its full name.
    pub rule: String,
    /// What it says.
    pub action: Action,
    /// It is the one that counts in its tier.
    pub decides: bool,
    /// Its list is in audit, so it does not count.
    pub audit: bool,
}

impl Ruleset {
    /// The lists of a tier that speak of a query's port in its direction, those
    /// in audit included, in order.
    pub(super) fn listed(&self, query: &Query, tier: Tier) -> Vec<(ListId, &List)> {
        let Some(port) = self.compiled(query.port) else {
            return Vec::new();
        };
        let own = port.ladder(query.direction).tier(tier);
        let network = self.network(port.port.vni);
        let wide = network.map_or(&[][..], |n| n.ladder(query.direction).tier(tier));
        let programs = own.iter().chain(wide).filter_map(|s| self.program(*s));
        let mut lists: Vec<(ListId, &List)> = programs
            .map(|program| (program.id, Arc::as_ref(&program.list)))
            .collect();
        lists.sort_by(|(a, x), (b, y)| (&x.name, a).cmp(&(&y.name, b)));
        lists
    }

    /// Those of them that are enforced.
    pub(super) fn asked(&self, query: &Query, tier: Tier) -> Vec<(ListId, &List)> {
        let mut lists = self.listed(query, tier);
        lists.retain(|(_, list)| !list.audit);
        lists
    }

    pub(super) fn tiers(&self, query: &Query) -> Vec<TierSays> {
        let mut all = Vec::new();
        let Some(port) = self.port(query.port) else {
            return all;
        };
        for tier in [Tier::Admin, Tier::Tenant, Tier::Baseline] {
            let says = self.tier(query, tier, port.vni);
            let decided = matches!(says.outcome, Outcome::Decided | Outcome::Closed);
            all.push(says);
            if decided {
                break;
            }
        }
        all
    }

    fn tier(&self, query: &Query, tier: Tier, vni: Vni) -> TierSays {
        let lists = self.listed(query, tier);
        let mut matching: Vec<(&List, &Rule)> = Vec::new();
        for (_, list) in &lists {
            let rules = list.rules.iter();
            let rules = rules.filter(|rule| rule.direction == query.direction);
            let rules = rules.filter(|rule| self.misses(vni, rule, query).is_empty());
            matching.extend(rules.map(|rule| (*list, rule)));
        }
        let has_order = tier != Tier::Tenant;
        matching.sort_by(|(a, x), (b, y)| {
            let order = |list: &List, rule: &Rule| (list.priority, rule.priority, rule.action);
            let ahead = if has_order {
                order(a, x).cmp(&order(b, y))
            } else {
                Ordering::Equal
            };
            // What makes a connection comes first.
            ahead
                .then(y.stateful.cmp(&x.stateful))
                .then_with(|| (&a.name, &x.name).cmp(&(&b.name, &y.name)))
        });
        let deciding = matching.iter().position(|(list, _)| !list.audit);
        let action = deciding
            .and_then(|i| matching.get(i))
            .map(|(_, r)| r.action);
        let outcome = match action {
            Some(Action::Pass) => Outcome::Passed,
            Some(_) => Outcome::Decided,
            None if tier != Tier::Tenant => Outcome::NoMatch,
            None if lists.iter().any(|(_, list)| !list.audit) => Outcome::Closed,
            None => Outcome::NotSelected,
        };
        let matches = matching
            .iter()
            .enumerate()
            .map(|(i, (list, rule))| Match {
                rule: rule.name.clone(),
                action: rule.action,
                decides: Some(i) == deciding,
                audit: list.audit,
            })
            .collect();
        TierSays {
            tier,
            outcome,
            matches,
        }
    }
}
