//! The policy in force, and those before it that are still spoken of.
//!
//! A connection names the rule that admitted it by an id of the ruleset of that
//! time. Until all have been judged again, older rulesets are kept for their
//! names; then they go back to the owner, to be dropped off the lcore.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use penstock_rules::model::{Port, PortId};
use penstock_rules::{Decision, Judgement, Query, RuleId, Ruleset};

/// A ruleset that an engine needs no longer. Dropping it may take long: not on
/// an lcore.
#[derive(Debug)]
pub struct Retired {
    /// The ruleset.
    pub ruleset: Arc<Ruleset>,
    /// Connections that each of its rules has admitted here, by rule id.
    pub rule_hits: Vec<u64>,
}

/// Older rulesets kept at most; an even older one is let go, and what it had
/// admitted is then revoked without a rule's name.
const KEPT: usize = 8;

#[derive(Debug)]
pub(crate) struct Policies {
    current: Option<Retired>,
    // Oldest first.
    older: Vec<Retired>,
}

impl Policies {
    pub(crate) fn new() -> Self {
        Self {
            current: None,
            older: Vec::with_capacity(KEPT + 1),
        }
    }

    /// Puts `ruleset` in force; answers one that there is no more room for.
    pub(crate) fn set(&mut self, ruleset: Arc<Ruleset>) -> Option<Retired> {
        let rule_hits = vec![0; ruleset.rule_count()];
        let fresh = Retired { ruleset, rule_hits };
        if let Some(old) = self.current.replace(fresh) {
            self.older.push(old);
        }
        (self.older.len() > KEPT).then(|| self.older.remove(0))
    }

    /// An older one, where `needed` says that no name is needed any more.
    pub(crate) fn take(&mut self, needed: bool) -> Option<Retired> {
        if needed { None } else { self.older.pop() }
    }

    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.current.as_ref().map_or(0, |c| c.ruleset.generation())
    }

    #[inline]
    pub(crate) fn rules(&self) -> Option<&Ruleset> {
        self.current.as_ref().map(|c| &*c.ruleset)
    }

    pub(crate) fn port(&self, id: PortId) -> Option<&Port> {
        self.rules()?.port(id)
    }

    pub(crate) fn hits(&self) -> &[u64] {
        self.current.as_ref().map_or(&[], |c| &c.rule_hits)
    }

    /// As [`Ruleset::judge`]; closed where there is none.
    pub(crate) fn judge(&self, query: &Query) -> Judgement {
        self.rules().map_or(
            Judgement {
                allow: false,
                decision: Decision::NoPort,
            },
            |rules| rules.judge(query),
        )
    }

    /// A connection was opened by this decision of the current ruleset.
    pub(crate) fn count(&mut self, decision: Decision) {
        if let Decision::Rule(RuleId(id)) = decision
            && let Some(current) = &mut self.current
            && let Some(hits) = current.rule_hits.get_mut(id as usize)
        {
            *hits += 1;
        }
    }

    /// The name of the rule that decided under `generation`; empty where none
    /// did, or where that ruleset is gone.
    pub(crate) fn rule_name(&self, generation: u64, decision: Decision) -> &str {
        let Decision::Rule(id) = decision else {
            return "";
        };
        self.current
            .iter()
            .chain(self.older.iter().rev())
            .find(|r| r.ruleset.generation() == generation)
            .map_or("", |r| r.ruleset.rule_name(id))
    }
}
