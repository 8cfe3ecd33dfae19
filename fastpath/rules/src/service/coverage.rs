//! Whether services together allow all that a rule does.

use alloc::vec::Vec;

use super::{Class, NONE, Rank, Service, dports};
use crate::model::Rule;

/// What of a rule is not allowed by what has been added.
pub(crate) struct Coverage {
    class: Option<Class>,
    /// Destination ports, both ends included.
    left: Vec<(u16, u16)>,
}

impl Coverage {
    pub(crate) fn new(rule: &Rule) -> Self {
        Self {
            class: rule.protocol.map(crate::model::Protocol::class),
            left: dports(rule).collect(),
        }
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.left.is_empty()
    }

    /// Takes away what a service's rules allow, of those that `counts`.
    pub(crate) fn add(&mut self, service: &Service, counts: impl Fn(Rank) -> bool) {
        if service.any != NONE && counts(service.any) {
            self.left.clear();
        }
        // A rule about all protocols is covered by such rules only.
        let Some(class) = self.class else {
            return;
        };
        let mut left = Vec::new();
        for &(first, last) in &self.left {
            for (from, to, rank) in service.steps.between(class, first, last) {
                if rank != NONE && counts(rank) {
                    continue;
                }
                match left.last_mut() {
                    Some((_, end)) if from > 0 && *end == from - 1 => *end = to,
                    _ => left.push((from, to)),
                }
            }
        }
        self.left = left;
    }
}
