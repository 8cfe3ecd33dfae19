//! A judgement in words.

mod misses;
mod tiers;
mod words;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use self::words::Packet;
use crate::model::{Action, Direction, List, Tier};
use crate::query::{Decision, Judgement, Query, Verdict};
use crate::ruleset::Ruleset;
pub use tiers::{Match, Outcome, TierSays};

/// How many near misses are worth reading.
const NEAR: usize = 8;

/// Why a packet may or may not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Whether it may.
    pub allow: bool,
    /// What becomes of it.
    pub verdict: Verdict,
    /// The deciding rule's full name.
    pub rule: Option<String>,
    /// One sentence.
    pub reason: String,
    /// What it opens is a connection; else each packet is judged by itself.
    pub stateful: bool,
    /// The deciding rule wants it told.
    pub log: bool,
    /// What each tier says, as far as they are asked.
    pub tiers: Vec<TierSays>,
    /// Where it is closed, or refused by default: rules that allow something like
    /// it, the closest first, at most eight.
    pub near: Vec<NearMiss>,
    /// It passes because a list is in audit: what would refuse it.
    pub audit: Option<String>,
}

/// A rule that does not match, and why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearMiss {
    /// The rule's full name.
    pub rule: String,
    /// What does not match.
    pub why: String,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        if let Some(audit) = &self.audit {
            write!(f, "\n  in audit: {audit}")?;
        }
        for near in &self.near {
            write!(f, "\n  {}: {}", near.rule, near.why)?;
        }
        Ok(())
    }
}

impl Ruleset {
    /// Puts a judgement of this ruleset into words.
    #[must_use]
    pub fn explain(&self, judgement: &Judgement, query: &Query) -> Explanation {
        let reason = self.reason(judgement.verdict, judgement.decision, query);
        let rule = match judgement.decision {
            Decision::Rule(id) => Some(self.rule_name(id).to_string()),
            Decision::Closed | Decision::VpcDefault | Decision::NoPort => None,
        };
        let near = match judgement.decision {
            Decision::Closed => self.near(query, &[Tier::Tenant]),
            Decision::VpcDefault if !judgement.allow() => {
                self.near(query, &[Tier::Admin, Tier::Baseline])
            }
            Decision::Rule(_) | Decision::VpcDefault | Decision::NoPort => Vec::new(),
        };
        Explanation {
            allow: judgement.allow(),
            verdict: judgement.verdict,
            rule,
            reason,
            stateful: judgement.stateful,
            log: judgement.log,
            tiers: self.tiers(query),
            near,
            audit: judgement.audit.map(|decision| {
                // Whether it would tell the sender is the rule's affair.
                let verdict = match decision {
                    Decision::Rule(id) => match self.rule(id).map(|rule| rule.action) {
                        Some(Action::Reject) => Verdict::Reject,
                        _ => Verdict::Deny,
                    },
                    _ => Verdict::Deny,
                };
                self.reason(verdict, decision, query)
            }),
        }
    }

    fn reason(&self, verdict: Verdict, decision: Decision, query: &Query) -> String {
        let packet = Packet(query);
        let port = self.port(query.port);
        let name = port.map_or("?", |port| &port.name);
        let way = match query.direction {
            Direction::Ingress => "ingress",
            Direction::Egress => "egress",
        };
        let does = match verdict {
            Verdict::Allow => "allows",
            Verdict::Deny => "denies",
            Verdict::Reject => "rejects",
        };
        match decision {
            Decision::Rule(id) => format!("rule {} {does} {packet}", self.rule_name(id)),
            Decision::Closed => {
                let lists = self.asked(query, Tier::Tenant);
                let names: Vec<&str> = lists.iter().map(|(_, list)| list.name.as_str()).collect();
                format!(
                    "{way} of port {name} is closed by {}, and no rule of its groups allows {packet}",
                    names.join(", ")
                )
            }
            Decision::VpcDefault => {
                let vpc = port.and_then(|port| self.vpc(port.vni));
                format!(
                    "no security group selects {way} of port {name}, and VPC {} {does} by default",
                    vpc.map_or("?", |vpc| &vpc.name),
                )
            }
            Decision::NoPort => {
                format!(
                    "no policy for port id {} has come yet, so it is closed",
                    query.port
                )
            }
        }
    }

    fn near(&self, query: &Query, tiers: &[Tier]) -> Vec<NearMiss> {
        let Some(port) = self.port(query.port) else {
            return Vec::new();
        };
        let lists = tiers.iter().flat_map(|tier| self.asked(query, *tier));
        let rules = lists.flat_map(|(_, list): (_, &List)| &list.rules);
        let mut found: Vec<(usize, NearMiss)> = rules
            .filter(|rule| rule.direction == query.direction && rule.action == Action::Allow)
            .map(|rule| (rule, self.misses(port.vni, rule, query)))
            // A list in audit may hold one that matches.
            .filter(|(_, misses)| !misses.is_empty())
            .map(|(rule, misses)| {
                let near = NearMiss {
                    rule: rule.name.clone(),
                    why: misses.join("; "),
                };
                (misses.len(), near)
            })
            .collect();
        found.sort_by_key(|(misses, _)| *misses);
        found.truncate(NEAR);
        found.into_iter().map(|(_, near)| near).collect()
    }
}
