//! Protocol and destination port: the part of a rule that peers share.
//!
//! A [`Service`] is a set of rules, flattened so that one binary search finds
//! the lowest rule for a protocol and port. Peers that the same rules name
//! share one service, so a rule of p peers and q ranges costs p + q.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use penstock_flow::tuple::proto;

use crate::error::CompileError;
use crate::model::Rule;
use crate::query::RuleId;

/// The lowest rule per protocol and port.
#[derive(Clone, Debug, Default)]
pub(crate) struct Service {
    /// The lowest rule that matches every protocol.
    any: Option<RuleId>,
    /// By protocol, ascending.
    protocols: Vec<(u8, Steps)>,
}

/// A step function over `dport`: (first port, lowest rule from there on),
/// ascending, the first step at 0.
type Steps = Vec<(u16, Option<RuleId>)>;

impl Service {
    /// `rules` are `checked`.
    pub(crate) fn new<'a>(rules: impl Iterator<Item = (RuleId, &'a Rule)>) -> Self {
        let mut any = None;
        let mut ranges = BTreeMap::<u8, Vec<(u16, u16, RuleId)>>::new();
        for (id, rule) in rules {
            match rule.protocol {
                None => any = lower(any, Some(id)),
                Some(p) => ranges
                    .entry(p)
                    .or_default()
                    .extend(dports(rule).map(|(first, last)| (first, last, id))),
            }
        }
        let protocols = ranges.into_iter().map(|(p, r)| (p, steps(r))).collect();
        Self { any, protocols }
    }

    /// The lowest rule for this protocol and port.
    pub(crate) fn find(&self, proto: u8, dport: u16) -> Option<RuleId> {
        let special = self.steps(proto).and_then(|steps| {
            let after = steps.partition_point(|(first, _)| *first <= dport);
            steps.get(after.checked_sub(1)?)?.1
        });
        lower(self.any, special)
    }

    /// Whether some rule matches everything.
    pub(crate) const fn allows_all(&self) -> bool {
        self.any.is_some()
    }

    /// Whether there is no rule in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.any.is_none() && self.protocols.is_empty()
    }

    /// The protocols of which something is allowed by this one and by none of
    /// `others`; `None`: of any.
    pub(crate) fn lost(&self, others: &[&Self]) -> Vec<Option<u8>> {
        if others.iter().any(|other| other.any.is_some()) {
            return Vec::new();
        }
        if self.any.is_some() {
            return Vec::from([None]);
        }
        // Nothing changes between one step and the next of all of them.
        let is_lost = |p: u8| {
            core::iter::once(self)
                .chain(others.iter().copied())
                .filter_map(|service| service.steps(p))
                .flatten()
                .any(|&(dport, _)| {
                    self.find(p, dport).is_some()
                        && others.iter().all(|other| other.find(p, dport).is_none())
                })
        };
        let protocols = self.protocols.iter().map(|(p, _)| *p);
        protocols.filter(|p| is_lost(*p)).map(Some).collect()
    }

    fn steps(&self, proto: u8) -> Option<&Steps> {
        let i = self
            .protocols
            .binary_search_by_key(&proto, |(p, _)| *p)
            .ok()?;
        self.protocols.get(i).map(|(_, steps)| steps)
    }
}

/// The lower of two findings.
pub(crate) fn lower(a: Option<RuleId>, b: Option<RuleId>) -> Option<RuleId> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// Refuses what has no meaning.
pub(crate) fn check(rule: &Rule) -> Result<(), CompileError> {
    let name = || rule.name.clone();
    for &(first, last) in &rule.ports {
        if first > last {
            return Err(CompileError::InvertedPorts {
                rule: name(),
                first,
                last,
            });
        }
    }
    let has_ports = matches!(rule.protocol, Some(proto::TCP | proto::UDP | proto::SCTP));
    if !rule.ports.is_empty() && !has_ports {
        return Err(CompileError::PortsWithoutProtocol { rule: name() });
    }
    let is_icmp = matches!(rule.protocol, Some(proto::ICMP | proto::ICMPV6));
    let icmp_wrong = match (rule.icmp_type, rule.icmp_code) {
        (None, None) => false,
        (Some(_), _) => !is_icmp,
        (None, Some(_)) => true,
    };
    if icmp_wrong {
        return Err(CompileError::IcmpWithoutProtocol { rule: name() });
    }
    Ok(())
}

/// The ranges of `Tuple::dport` that a checked rule means.
pub(crate) fn dports(rule: &Rule) -> impl Iterator<Item = (u16, u16)> + '_ {
    let whole = match (rule.icmp_type, rule.icmp_code) {
        (Some(t), Some(c)) => {
            let v = u16::from(t) << 8 | u16::from(c);
            Some((v, v))
        }
        (Some(t), None) => Some((u16::from(t) << 8, u16::from(t) << 8 | 0xff)),
        (None, _) if rule.ports.is_empty() => Some((0, u16::MAX)),
        (None, _) => None,
    };
    let ports: &[(u16, u16)] = if whole.is_some() { &[] } else { &rule.ports };
    whole.into_iter().chain(ports.iter().copied())
}

/// Flattens overlapping ranges: at most two steps per range.
fn steps(ranges: Vec<(u16, u16, RuleId)>) -> Steps {
    // What begins (+1) and ends (-1) at each port; one past 65535 never comes.
    let mut edges = Vec::with_capacity(2 * ranges.len());
    for (first, last, id) in ranges {
        edges.push((first, id, true));
        if let Some(after) = last.checked_add(1) {
            edges.push((after, id, false));
        }
    }
    edges.sort_unstable();
    // A rule may list overlapping ranges, so count them.
    let mut open = BTreeMap::<RuleId, u32>::new();
    let mut out: Steps = Vec::from([(0, None)]);
    for (at, id, begins) in edges {
        let count = open.entry(id).or_default();
        // An end may sort before a beginning of the same rule at the same
        // port, but never before its own: ranges are not empty.
        *count = if begins {
            *count + 1
        } else {
            count.saturating_sub(1)
        };
        if *count == 0 {
            open.remove(&id);
        }
        let lowest = open.first_key_value().map(|(id, _)| *id);
        match out.last_mut() {
            Some((first, rule)) if *first == at => *rule = lowest,
            _ => out.push((at, lowest)),
        }
    }
    out.dedup_by(|next, kept| next.1 == kept.1);
    out
}
