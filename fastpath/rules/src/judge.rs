//! A packet's judgement: tier by tier.

use penstock_flow::Addr;

use crate::model::{Action, Direction, GroupId, Tier};
use crate::program::{Program, Ranked};
use crate::query::{Decision, Judgement, Query, Verdict};
use crate::ruleset::{Compiled, Ladder, Network, Ruleset};
use crate::service::Header;
use crate::shards::Slot;
use crate::tags::{self, Tag};

/// Tags of a peer that are kept at hand. What is beyond is looked up for each list anew.
const AT_HAND: usize = 32;

/// All that a judgement looks at, found once.
pub(crate) struct Case<'a> {
    ruleset: &'a Ruleset,
    direction: Direction,
    header: Header,
    /// The lists of the port's groups, and those of its VPC.
    own: &'a Ladder,
    wide: &'a Ladder,
    peer: Peer<'a>,
    pub(crate) default_allow: bool,
}

/// What the peer is in.
struct Peer<'a> {
    network: &'a Network,
    addr: Addr,
    groups: &'a [GroupId],
    /// Of its groups, and of its address; none where they are too many.
    tags: Option<&'a [Tag]>,
}

/// What a tier says.
enum Said<'a> {
    Nothing,
    Closed,
    Rule(&'a Program, &'a Ranked),
}

impl Ruleset {
    /// Judges a packet that would open a connection. Allocates nothing.
    #[must_use]
    pub fn judge(&self, query: &Query) -> Judgement {
        let mut room = Room::default();
        let Some(case) = self
            .compiled(query.port)
            .and_then(|port| Case::new(self, port, query, &mut room))
        else {
            return Judgement::NO_PORT;
        };
        let mut judgement = case.judge(false);
        if judgement.allow() && (case.own.audit || case.wide.audit) {
            let enforced = case.judge(true);
            judgement.audit = (!enforced.allow()).then_some(enforced.decision);
        }
        judgement
    }
}

impl<'a> Case<'a> {
    #[inline]
    pub(crate) fn new(
        ruleset: &'a Ruleset,
        port: &'a Compiled,
        query: &Query,
        room: &'a mut Room,
    ) -> Option<Self> {
        let vni = port.port.vni;
        let network = ruleset.network(vni)?;
        let own = port.ladder(query.direction);
        let wide = network.ladder(query.direction);
        let (mut groups, mut tags): (&[GroupId], _) = (&[], Some(&[][..]));
        if !own.is_empty() || !wide.is_empty() {
            groups = ruleset.groups_of(network, vni, query.peer);
            tags = room.gather(network, query.peer, groups);
        }
        let peer = Peer {
            network,
            addr: query.peer,
            groups,
            tags,
        };
        Some(Self {
            ruleset,
            direction: query.direction,
            header: Header::new(query.proto, query.sport, query.dport),
            own,
            wide,
            peer,
            default_allow: network.vpc.default_allow,
        })
    }

    /// `audit`: lists in audit count.
    fn judge(&self, audit: bool) -> Judgement {
        for tier in [Tier::Admin, Tier::Tenant, Tier::Baseline] {
            let said = match tier {
                Tier::Tenant => self.tenant(audit),
                Tier::Admin | Tier::Baseline => self.ordered(tier, audit),
            };
            match said {
                Said::Nothing => {}
                Said::Closed => return refusal(Decision::Closed),
                Said::Rule(program, rule) => {
                    let verdict = match rule.action {
                        Action::Pass => continue,
                        Action::Allow => Verdict::Allow,
                        Action::Deny => Verdict::Deny,
                        Action::Reject => Verdict::Reject,
                    };
                    return Judgement {
                        verdict,
                        decision: Decision::Rule(program.rule_id(rule)),
                        stateful: rule.stateful,
                        log: rule.log,
                        audit: None,
                    };
                }
            }
        }
        Judgement {
            verdict: if self.default_allow {
                Verdict::Allow
            } else {
                Verdict::Deny
            },
            ..refusal(Decision::VpcDefault)
        }
    }

    /// The admin and baseline tiers: lists of equal priority are asked together.
    fn ordered(&self, tier: Tier, audit: bool) -> Said<'a> {
        let (mut own, mut wide) = (self.own.tier(tier), self.wide.tier(tier));
        loop {
            let next = |slots: &[Slot]| {
                let program = self.ruleset.program(*slots.first()?)?;
                Some(program.priority)
            };
            let priority = match (next(own), next(wide)) {
                (Some(a), Some(b)) => a.min(b),
                (Some(a), None) | (None, Some(a)) => a,
                (None, None) => return Said::Nothing,
            };
            let mut best: Option<(&Program, &Ranked)> = None;
            for slots in [&mut own, &mut wide] {
                while let Some((slot, rest)) = slots.split_first()
                    && let Some(program) = self.ruleset.program(*slot)
                    && program.priority == priority
                {
                    *slots = rest;
                    if let Some(rule) = self.ask(program, audit)
                        && best.is_none_or(|best| precedes((program, rule), best))
                    {
                        best = Some((program, rule));
                    }
                }
            }
            if let Some((program, rule)) = best {
                return Said::Rule(program, rule);
            }
        }
    }

    /// The tenant tier: lists by name, the first with a matching rule that makes a
    /// connection; else the first with any.
    fn tenant(&self, audit: bool) -> Said<'a> {
        let mut selected = false;
        let mut best: Option<(&Program, &Ranked)> = None;
        for slots in [self.own, self.wide] {
            for slot in slots.tier(Tier::Tenant) {
                let Some(program) = self.ruleset.program(*slot) else {
                    continue;
                };
                selected |= audit || !program.audit;
                if let Some(rule) = self.ask(program, audit) {
                    if best.is_none_or(|best| makes((program, rule)) < makes(best)) {
                        best = Some((program, rule));
                    }
                    if rule.stateful {
                        break;
                    }
                }
            }
        }
        match best {
            Some((program, rule)) => Said::Rule(program, rule),
            None if selected => Said::Closed,
            None => Said::Nothing,
        }
    }

    #[inline]
    fn ask(&self, program: &'a Program, audit: bool) -> Option<&'a Ranked> {
        if program.audit && !audit {
            return None;
        }
        let peer = &self.peer;
        match peer.tags {
            Some(tags) => program.find(self.direction, self.header, tags),
            None => program.find_among(self.direction, self.header, peer.all()),
        }
    }
}

impl Peer<'_> {
    fn all(&self) -> impl Iterator<Item = Tag> {
        let groups = self.groups.iter().map(|id| tags::group(*id));
        groups.chain(self.network.places.tags(self.addr))
    }
}

/// Where a judgement keeps its peer's tags.
pub(crate) struct Room([Tag; AT_HAND]);

impl Default for Room {
    fn default() -> Self {
        Self([0; AT_HAND])
    }
}

impl Room {
    /// None where they are too many.
    #[inline]
    fn gather(&mut self, network: &Network, addr: Addr, groups: &[GroupId]) -> Option<&[Tag]> {
        let mut known = 0;
        let mut keep = |tag| {
            if let Some(place) = self.0.get_mut(known) {
                *place = tag;
            }
            known += 1;
        };
        for group in groups {
            keep(tags::group(*group));
        }
        network.places.each_tag(addr, keep);
        self.0.get(..known)
    }
}

const fn refusal(decision: Decision) -> Judgement {
    Judgement {
        decision,
        ..Judgement::NO_PORT
    }
}

fn name(program: &Program) -> (&str, u32) {
    (&program.list.name, program.id)
}

/// The order of allow rules in the tenant tier.
fn makes<'a>((program, rule): (&'a Program, &Ranked)) -> (bool, (&'a str, u32)) {
    (!rule.stateful, name(program))
}

/// Whether one rule is asked before another, their lists having one priority.
fn precedes(a: (&Program, &Ranked), b: (&Program, &Ranked)) -> bool {
    let key = |rule: &Ranked| (rule.priority, rule.action, !rule.stateful);
    let order = key(a.1).cmp(&key(b.1));
    order.then_with(|| name(a.0).cmp(&name(b.0))).is_lt()
}
