//! Protocol and ports: the part of a rule that peers share.
//!
//! A [`Service`] is a set of rules of one list, flattened so that one binary
//! search finds the first of them for a protocol and destination port. Rules
//! with source ports stand aside, as bitmaps. Peers that the same rules name
//! share one service, so a rule of p peers and q ranges costs p + q.

mod cells;
mod check;
mod coverage;
mod sourced;
mod steps;

use alloc::boxed::Box;
use alloc::vec::Vec;

use penstock_flow::tuple::proto;

use crate::model::{Protocol, Rule};

pub(crate) use cells::{Cells, Reach};
pub(crate) use check::{check, dports};
pub(crate) use coverage::Coverage;
use sourced::Sourced;
use steps::Steps;

/// A rule's place in its list's order.
pub(crate) type Rank = u16;

/// No rule; after all others.
pub(crate) const NONE: Rank = Rank::MAX;

/// Where `RoCEv2` goes.
pub(crate) const ROCE_PORT: u16 = 4791;

/// A protocol, `RoCEv2` being one of its own.
pub(crate) type Class = u16;

const ROCE: Class = 256;

impl Protocol {
    pub(crate) const fn class(self) -> Class {
        match self {
            Self::Number(p) => p as Class,
            Self::Roce => ROCE,
        }
    }

    /// The protocol that NICs see.
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Number(p) => p,
            Self::Roce => proto::UDP,
        }
    }
}

/// What rules are asked about a packet, but for its peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) class: Class,
    pub(crate) sport: u16,
    pub(crate) dport: u16,
}

impl Header {
    pub(crate) const fn new(proto: u8, sport: u16, dport: u16) -> Self {
        let class = if proto == proto::UDP && dport == ROCE_PORT {
            ROCE
        } else {
            proto as Class
        };
        Self {
            class,
            sport,
            dport,
        }
    }
}

/// The first rule per protocol and ports.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    /// The first that matches every protocol.
    any: Rank,
    steps: Steps,
    /// Rules with source ports, by protocol.
    sourced: Box<[(Class, Sourced)]>,
}

impl Service {
    /// `rules` are checked, and ascend by rank.
    pub(crate) fn new<'a>(rules: impl Iterator<Item = (Rank, &'a Rule)>) -> Self {
        let mut any = NONE;
        let mut ranges = Vec::new();
        let mut sourced = Vec::<(Class, Vec<(Rank, &Rule)>)>::new();
        for (rank, rule) in rules {
            let Some(protocol) = rule.protocol else {
                any = any.min(rank);
                continue;
            };
            let class = protocol.class();
            if rule.source_ports.is_empty() {
                ranges.extend(dports(rule).map(|(first, last)| (class, first, last, rank)));
                continue;
            }
            match sourced.iter_mut().find(|(c, _)| *c == class) {
                Some((_, rules)) => rules.push((rank, rule)),
                None => sourced.push((class, Vec::from([(rank, rule)]))),
            }
        }
        Self {
            any,
            steps: Steps::new(ranges),
            sourced: sourced
                .into_iter()
                .map(|(class, rules)| (class, Sourced::new(&rules)))
                .collect(),
        }
    }

    /// The first rule for this header.
    #[inline]
    pub(crate) fn find(&self, header: Header) -> Rank {
        let mut found = self.any.min(self.steps.find(header.class, header.dport));
        for (class, sourced) in &self.sourced {
            if *class == header.class {
                found = found.min(sourced.find(header.sport, header.dport));
            }
        }
        found
    }

    /// Whether some rule matches everything.
    pub(crate) const fn allows_all(&self) -> bool {
        self.any != NONE
    }

    /// Entries, as a measure of its memory.
    pub(crate) fn entries(&self) -> usize {
        let sourced: usize = self.sourced.iter().map(|(_, s)| s.entries()).sum();
        self.steps.len() + sourced + 1
    }
}
