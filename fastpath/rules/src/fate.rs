//! What becomes of a connection when the policy has changed.

use alloc::sync::Arc;

use crate::model::{List, ListId, OnChange, Tier};
use crate::query::{Decision, Judgement, Query};
use crate::ruleset::Ruleset;

/// What becomes of a connection that has been judged again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// It goes on, admitted by the new judgement from now on.
    Admitted,
    /// It would not be admitted any more, and goes on until it ends: what had
    /// admitted it still counts as its admission.
    Persists,
    /// It ends now.
    Cut,
}

impl Ruleset {
    /// What becomes of a connection that `admitted` let in when `old` was in
    /// force, and that this ruleset judges so. `old`: `None` where it is not at
    /// hand; then every list counts as changed.
    ///
    /// What the judgement allows goes on, unless the list that admitted it, or
    /// the one that allows it now, cuts when it changes and has changed. What a
    /// rule refuses goes on if the rule's list lets persist. What is closed or
    /// denied by default goes on if the list that admitted it lets persist, or
    /// if all lists that close it do.
    #[must_use]
    pub fn fate(
        &self,
        old: Option<&Self>,
        admitted: Decision,
        judgement: &Judgement,
        query: &Query,
    ) -> Fate {
        let lists = Lists { old, new: self };
        let admitting = list_of(admitted);
        let deciding = list_of(judgement.decision);
        if judgement.allow() {
            let mut both = [admitting, deciding].into_iter().flatten();
            let cuts = |id| lists.on_change(id) == Some(OnChange::Drop) && lists.changed(id);
            return if both.any(cuts) {
                Fate::Cut
            } else {
                Fate::Admitted
            };
        }
        let persists = |id| lists.on_change(id) == Some(OnChange::Persist);
        let goes_on = match judgement.decision {
            Decision::Rule(rule) => persists(rule.list),
            Decision::Closed => admitting.is_some_and(persists) || self.all_persist(query),
            Decision::VpcDefault => admitting.is_some_and(persists),
            Decision::NoPort => false,
        };
        if goes_on { Fate::Persists } else { Fate::Cut }
    }

    /// Whether all lists that select the port let what they close persist.
    fn all_persist(&self, query: &Query) -> bool {
        let Some(port) = self.compiled(query.port) else {
            return false;
        };
        let network = self.network(port.port.vni);
        let own = port.ladder(query.direction).tier(Tier::Tenant);
        let wide = network.map_or(&[][..], |n| n.ladder(query.direction).tier(Tier::Tenant));
        let programs = own.iter().chain(wide).filter_map(|s| self.program(*s));
        programs
            .filter(|program| !program.list.audit)
            .all(|program| program.list.on_change == OnChange::Persist)
    }
}

const fn list_of(decision: Decision) -> Option<ListId> {
    match decision {
        Decision::Rule(rule) => Some(rule.list),
        Decision::Closed | Decision::VpcDefault | Decision::NoPort => None,
    }
}

/// Lists before and after.
struct Lists<'a> {
    old: Option<&'a Ruleset>,
    new: &'a Ruleset,
}

impl<'a> Lists<'a> {
    fn old(&self, id: ListId) -> Option<&'a Arc<List>> {
        self.old.and_then(|old| old.list(id))
    }

    /// What a list says now; where it is gone, what it said.
    fn on_change(&self, id: ListId) -> Option<OnChange> {
        let list = self.new.list(id).or_else(|| self.old(id));
        list.map(|list| list.on_change)
    }

    /// Whether a list says something else than it did, or speaks of others. What
    /// it says about changes and what it tells are no part of that.
    fn changed(&self, id: ListId) -> bool {
        match (self.old(id), self.new.list(id)) {
            (Some(old), Some(new)) => !Arc::ptr_eq(old, new) && !old.says_the_same(new),
            _ => true,
        }
    }
}
