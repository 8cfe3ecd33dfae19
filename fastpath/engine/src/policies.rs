//! The policy in force, and those before it that are still spoken of.
//!
//! A connection names the rule that admitted it by an id of the ruleset of that
//! time. Until all have been judged again, older rulesets are kept for their
//! names; then they go back to the owner, to be dropped off the lcore.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use penstock_flow::Addr;
use penstock_rules::model::{Port, PortId, Vni};
use penstock_rules::{Decision, Fate, Judgement, Query, Region, Ruleset, closing};

use crate::connections::Connection;

/// A ruleset that an engine needs no longer. Dropping it may take long: not on
/// an lcore.
#[derive(Clone, Debug)]
pub struct Retired {
    /// The ruleset.
    pub ruleset: Arc<Ruleset>,
    /// Connections that each of its rules has admitted here, by [`Ruleset::counter`].
    pub rule_hits: Vec<u64>,
}

/// Regions that a change is fenced by at most, for what it closes, and as many
/// again for addresses that ports have lost. Each is some entries of a fence
/// table, and a slow NIC takes its time for every one.
const REGIONS: usize = 16;

/// A policy to be put in force, and what it may close: prepared off the lcore,
/// since it takes a comparison of the two policies.
#[derive(Clone, Debug)]
pub struct PolicyChange {
    next: Retired,
    /// The generation of the policy that it was compared with; 0: with none.
    from: u64,
    closing: Vec<Region>,
}

impl PolicyChange {
    /// From `before`, which is in force; `None`: nothing is.
    #[must_use]
    pub fn new(before: Option<&Ruleset>, ruleset: Arc<Ruleset>) -> Self {
        let closing = match before {
            Some(before) => {
                let mut regions = closing(before, &ruleset, REGIONS);
                regions.append(&mut without_addresses(before, &ruleset));
                regions
            }
            // What was allowed by nothing has no connections.
            None => Vec::new(),
        };
        Self {
            from: before.map_or(0, Ruleset::generation),
            closing,
            next: Retired {
                rule_hits: vec![0; ruleset.counters()],
                ruleset,
            },
        }
    }

    /// The policy.
    #[must_use]
    pub fn ruleset(&self) -> &Arc<Ruleset> {
        &self.next.ruleset
    }
}

/// All traffic of the ports that have lost an address and stay in their VPC:
/// verdicts may be what they were, but the address is not theirs any more. Where
/// these are many, of their whole VPCs, or everything.
fn without_addresses(before: &Ruleset, after: &Ruleset) -> Vec<Region> {
    let mut regions = Vec::new();
    for (id, port) in &before.policy().ports {
        let Some(now) = after.port(*id).filter(|now| now.vni == port.vni) else {
            // Closed, as a whole.
            continue;
        };
        if port.ips.iter().any(|ip| !now.ips.contains(ip)) {
            regions.push(Region {
                vni: Some(port.vni),
                port: Some(*id),
                ..Region::EVERYTHING
            });
        }
    }
    if regions.len() > REGIONS {
        for region in &mut regions {
            region.port = None;
        }
        regions.sort_unstable();
        regions.dedup();
    }
    if regions.len() > REGIONS {
        regions = vec![Region::EVERYTHING];
    }
    regions
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

    /// Puts a policy in force; answers one that there is no more room for, and
    /// what may be closed now.
    pub(crate) fn set(&mut self, change: PolicyChange) -> (Option<Retired>, Vec<Region>) {
        let PolicyChange {
            next,
            from,
            mut closing,
        } = change;
        if from != self.generation() {
            // Compared with another one, it says nothing.
            closing = vec![Region::EVERYTHING];
        }
        if let Some(old) = self.current.replace(next) {
            self.older.push(old);
        }
        let gone = (self.older.len() > KEPT).then(|| self.older.remove(0));
        (gone, closing)
    }

    /// A port's addresses, by the policy in force and by the one before.
    pub(crate) fn addresses(&self, port: PortId) -> impl Iterator<Item = Addr> {
        let both = self.current.iter().chain(self.older.last());
        both.filter_map(move |r| r.ruleset.port(port))
            .flat_map(|port| port.ips.iter().copied())
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

    /// A port, as long as it is in this VPC.
    pub(crate) fn port_in(&self, id: PortId, vni: Vni) -> Option<&Port> {
        self.port(id).filter(|port| port.vni == vni)
    }

    pub(crate) fn hits(&self) -> &[u64] {
        self.current.as_ref().map_or(&[], |c| &c.rule_hits)
    }

    /// As [`Ruleset::judge`]; closed where there is none.
    pub(crate) fn judge(&self, query: &Query) -> Judgement {
        self.rules()
            .map_or(Judgement::NO_PORT, |rules| rules.judge(query))
    }

    /// A connection was opened by this decision of the current ruleset.
    pub(crate) fn count(&mut self, decision: Decision) {
        if let Decision::Rule(id) = decision
            && let Some(current) = &mut self.current
            && let Some(counter) = current.ruleset.counter(id)
            && let Some(hits) = current.rule_hits.get_mut(counter)
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

    /// What becomes of a connection that the policy in force judges so.
    pub(crate) fn fate(
        &self,
        connection: &Connection,
        judgement: &Judgement,
        query: &Query,
    ) -> Fate {
        let Some(rules) = self.rules() else {
            return Fate::Cut;
        };
        let mut older = self.older.iter().rev().map(|r| &*r.ruleset);
        let old = older.find(|r| r.generation() == connection.generation);
        let fate = rules.fate(old, connection.decision, judgement, query);
        // What persists counts as admitted by what lets persist, whatever has become of
        // that; only a rule can refuse it.
        let by_no_rule = matches!(judgement.decision, Decision::Closed | Decision::VpcDefault);
        if connection.persists && by_no_rule && !judgement.allow() {
            return Fate::Persists;
        }
        fate
    }

    /// What a connection is known by: the rule that admits it; where it only persists,
    /// the list that had admitted it, as its rule may be gone.
    pub(crate) fn admitted_by(&self, connection: &Connection) -> &str {
        if !connection.persists {
            return self.rule_name(connection.generation, connection.decision);
        }
        let Decision::Rule(id) = connection.decision else {
            return "";
        };
        let rulesets = self.current.iter().chain(self.older.iter().rev());
        let mut lists = rulesets.filter_map(|r| r.ruleset.list(id.list));
        lists.next().map_or("", |list| &list.name)
    }
}
