//! Rules of one protocol that look at both ports.
//!
//! A rule matches where its bit is set at both ports' steps: memory grows with
//! steps times rules, never with ranges of one side times ranges of the other.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

use super::{NONE, Rank, dports};
use crate::model::Rule;

#[derive(Clone, Debug)]
pub(crate) struct Sourced {
    /// Ascending: a bit's rule.
    ranks: Box<[Rank]>,
    source: Side,
    destination: Side,
}

/// One side's ports.
#[derive(Clone, Debug)]
struct Side {
    /// The first at 0.
    starts: Box<[u16]>,
    /// For each step, a bit for each rule.
    bits: Box<[u64]>,
}

impl Sourced {
    pub(crate) fn new(rules: &[(Rank, &Rule)]) -> Self {
        let source: Vec<Vec<_>> = rules.iter().map(|(_, r)| r.source_ports.clone()).collect();
        let destination: Vec<Vec<_>> = rules.iter().map(|(_, r)| dports(r).collect()).collect();
        Self {
            ranks: rules.iter().map(|(rank, _)| *rank).collect(),
            source: Side::new(&source),
            destination: Side::new(&destination),
        }
    }

    pub(crate) fn find(&self, sport: u16, dport: u16) -> Rank {
        let words = self.ranks.len().div_ceil(64);
        let source = self.source.at(sport, words);
        let destination = self.destination.at(dport, words);
        for (i, (a, b)) in source.iter().zip(destination).enumerate() {
            let both = a & b;
            if both != 0 {
                let bit = i * 64 + both.trailing_zeros() as usize;
                return self.ranks.get(bit).copied().unwrap_or(NONE);
            }
        }
        NONE
    }

    pub(crate) fn entries(&self) -> usize {
        self.source.bits.len() + self.destination.bits.len()
    }
}

impl Side {
    fn new(rules: &[Vec<(u16, u16)>]) -> Self {
        let mut starts = BTreeSet::from([0]);
        for (first, last) in rules.iter().flatten() {
            starts.insert(*first);
            starts.extend(last.checked_add(1));
        }
        let starts: Box<[u16]> = starts.into_iter().collect();
        let words = rules.len().div_ceil(64);
        let mut bits = vec![0_u64; words * starts.len()];
        for (rule, ranges) in rules.iter().enumerate() {
            for (first, last) in ranges {
                let from = starts.partition_point(|start| start < first);
                let to = starts.partition_point(|start| start <= last);
                for step in from..to {
                    if let Some(word) = bits.get_mut(step * words + rule / 64) {
                        *word |= 1 << (rule % 64);
                    }
                }
            }
        }
        Self {
            starts,
            bits: bits.into_boxed_slice(),
        }
    }

    fn at(&self, port: u16, words: usize) -> &[u64] {
        let step = self.starts.partition_point(|start| *start <= port) - 1;
        self.bits
            .get(step * words..(step + 1) * words)
            .unwrap_or(&[])
    }
}
