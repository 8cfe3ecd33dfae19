//! What has been found, in names.

use std::collections::{BTreeMap, BTreeSet};

use penstock_rules::{Judgement, Verdict};

use super::classes::{Class, Classes};
use super::ranges;
use crate::model::{PortName, VpcName};

/// Ports, or ICMP types times 256 and codes; both ends included.
pub(super) type Ports = (u16, u16);

/// Everything that changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// By VPC, then by what changes.
    pub changes: Vec<Change>,
    /// Pairs of classes that were compared.
    pub pairs: u64,
    /// Packets that were judged, twice each.
    pub packets: u64,
}

/// The same change for all these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Where.
    pub vpc: VpcName,
    /// The family that it is about, where its ports have both and only one changes so.
    pub over: Option<Family>,
    /// Who sends: ports, with the address where only that is meant, and ranges outside.
    pub from: Vec<String>,
    /// Who gets it.
    pub to: Vec<String>,
    /// What changes.
    pub traffic: Vec<Traffic>,
}

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// By its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }
}

/// Packets, and what becomes of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Traffic {
    /// As in documents; `OTHER`: each that no rule can name.
    pub protocol: &'static str,
    /// Both ends included.
    pub source_ports: Ports,
    /// Destination ports; ICMP: type times 256, and code.
    pub ports: Vec<Ports>,
    /// In a word.
    pub effect: Effect,
    /// Before.
    pub before: Outcome,
    /// After.
    pub after: Outcome,
}

/// What a change does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// It had not passed.
    Opens,
    /// It had passed.
    Closes,
    /// It passes, or does not, in another way.
    Changes,
}

impl Effect {
    pub(super) const fn of(before: Outcome, after: Outcome) -> Self {
        match (before.passes(), after.passes()) {
            (false, true) => Self::Opens,
            (true, false) => Self::Closes,
            _ => Self::Changes,
        }
    }
}

/// What becomes of a packet between its two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// It passes both.
    Allow {
        /// The sender's end makes no connection of it.
        stateless_out: bool,
        /// Nor does the receiver's.
        stateless_in: bool,
    },
    /// An end drops it, or is not there.
    Deny,
    /// An end drops it and tells the sender.
    Reject,
}

impl Outcome {
    /// Whether it passes.
    #[must_use]
    pub const fn passes(self) -> bool {
        matches!(self, Self::Allow { .. })
    }

    /// Who refuses first says how; an end outside says nothing.
    pub(super) fn of([egress, ingress]: [Option<Judgement>; 2]) -> Self {
        let refusing = [&egress, &ingress];
        let refusing = refusing.into_iter().flatten().find(|it| !it.allow());
        let stateless = |end: &Option<Judgement>| end.as_ref().is_some_and(|it| !it.stateful);
        match refusing.map(|it| it.verdict) {
            Some(Verdict::Reject) => Self::Reject,
            Some(Verdict::Deny | Verdict::Allow) => Self::Deny,
            None => Self::Allow {
                stateless_out: stateless(&egress),
                stateless_in: stateless(&ingress),
            },
        }
    }

    /// In words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Allow {
                stateless_out: false,
                stateless_in: false,
            } => "allow",
            Self::Allow {
                stateless_out: true,
                stateless_in: false,
            } => "allow, stateless at the sender",
            Self::Allow {
                stateless_out: false,
                stateless_in: true,
            } => "allow, stateless at the receiver",
            Self::Allow { .. } => "allow, stateless",
            Self::Deny => "deny",
            Self::Reject => "reject",
        }
    }
}

type Pairs = Vec<(usize, usize)>;
/// Who sends, and who gets.
type Names = (Vec<String>, Vec<String>);

/// Puts what was found into groups of names.
pub(super) fn tell(
    vpc: &VpcName,
    classes: &Classes,
    found: BTreeMap<Vec<Traffic>, Pairs>,
    into: &mut Difference,
) {
    for (traffic, pairs) in found {
        // Both families of the same ports read the same.
        let mut named: BTreeMap<Names, BTreeSet<Option<Family>>> = BTreeMap::new();
        for family in [Family::V4, Family::V6] {
            let is_v4 = family == Family::V4;
            let mine = pairs.iter().filter(|(from, _)| {
                let from = classes.all.get(*from);
                from.is_some_and(|class| class.is_v4 == is_v4)
            });
            let mut reached: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
            for (from, to) in mine {
                reached.entry(*from).or_default().insert(*to);
            }
            let mut alike: BTreeMap<BTreeSet<usize>, BTreeSet<usize>> = BTreeMap::new();
            for (from, to) in reached {
                alike.entry(to).or_default().insert(from);
            }
            for (to, from) in alike {
                let in_both = |which| has_other(classes, which, is_v4);
                let over = (in_both(&from) && in_both(&to)).then_some(family);
                let names = (names(classes, &from), names(classes, &to));
                named.entry(names).or_default().insert(over);
            }
        }
        for ((from, to), over) in named {
            let over = match over.len() {
                1 => over.first().copied().flatten(),
                _ => None,
            };
            into.changes.push(Change {
                vpc: vpc.clone(),
                over,
                from,
                to,
                traffic: traffic.clone(),
            });
        }
    }
}

/// Whether some port of these classes has an address of the other family.
fn has_other(classes: &Classes, which: &BTreeSet<usize>, is_v4: bool) -> bool {
    let all = which.iter().filter_map(|i| classes.all.get(*i));
    all.flat_map(|class| &class.ports).any(|(name, _)| {
        let other = classes.addresses.get(&(name.clone(), !is_v4));
        other.is_some_and(|count| *count > 0)
    })
}

fn names(classes: &Classes, which: &BTreeSet<usize>) -> Vec<String> {
    let all: Vec<&Class> = which.iter().filter_map(|i| classes.all.get(*i)).collect();
    let mut ports: BTreeMap<(&PortName, bool), Vec<String>> = BTreeMap::new();
    for class in &all {
        for (name, addr) in &class.ports {
            let addresses = ports.entry((name, class.is_v4)).or_default();
            addresses.push(addr.to_string());
        }
    }
    let mut names = Vec::new();
    for ((name, is_v4), addresses) in ports {
        if classes.addresses.get(&(name.clone(), is_v4)) == Some(&addresses.len()) {
            names.push(name.to_string());
        } else {
            names.push(format!("{name} ({})", addresses.join(", ")));
        }
    }
    for is_v4 in [true, false] {
        let mut outside: Vec<_> = all
            .iter()
            .filter(|class| class.is_v4 == is_v4)
            .flat_map(|class| class.outside.iter().copied())
            .collect();
        if !outside.is_empty() && outside.len() == classes.pieces[usize::from(is_v4)] {
            let family = if is_v4 { "IPv4" } else { "IPv6" };
            names.push(format!("every {family} address outside"));
            continue;
        }
        outside.sort_unstable();
        let mut merged: Vec<ranges::Range> = Vec::new();
        for (first, last) in outside {
            match merged.last_mut() {
                Some(before) if before.1.checked_add(1) == Some(first) => before.1 = last,
                _ => merged.push((first, last)),
            }
        }
        names.extend(merged.into_iter().map(ranges::text));
    }
    names
}
