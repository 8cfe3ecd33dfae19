//! Step functions over the destination port, one per protocol.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::{Class, NONE, Rank};

/// (protocol, first port) and the first rule from there to the next step,
/// ascending. Where a protocol has steps, it has one at port 0.
#[derive(Clone, Debug)]
pub(crate) struct Steps(Box<[(u32, Rank)]>);

fn key(class: Class, port: u16) -> u32 {
    u32::from(class) << 16 | u32::from(port)
}

impl Steps {
    /// Flattens ranges, which may overlap: at most two steps per range.
    pub(crate) fn new(ranges: Vec<(Class, u16, u16, Rank)>) -> Self {
        // What begins (true) and ends at each port; one past 65535 never comes.
        let mut edges = Vec::with_capacity(2 * ranges.len());
        let mut classes = Vec::new();
        for (class, first, last, rank) in ranges {
            edges.push((key(class, first), rank, true));
            // The next protocol begins with a step of its own.
            edges.push((key(class, last) + 1, rank, false));
            classes.push(class);
        }
        edges.sort_unstable();
        classes.sort_unstable();
        classes.dedup();
        // A rule may list overlapping ranges, so count them.
        let mut open = BTreeMap::<Rank, u32>::new();
        let mut out = Vec::<(u32, Rank)>::with_capacity(edges.len() + classes.len());
        let mut starts = classes.into_iter().map(|class| key(class, 0)).peekable();
        for (at, rank, begins) in edges {
            while let Some(start) = starts.next_if(|start| *start <= at) {
                step(&mut out, start, NONE);
            }
            let count = open.entry(rank).or_default();
            // An end may sort before a beginning of the same rule at the same
            // port, but never before its own: ranges are not empty.
            *count = if begins {
                *count + 1
            } else {
                count.saturating_sub(1)
            };
            if *count == 0 {
                open.remove(&rank);
            }
            let first = open.first_key_value().map_or(NONE, |(rank, _)| *rank);
            step(&mut out, at, first);
        }
        out.dedup_by(|next, kept| next.1 == kept.1 && next.0 >> 16 == kept.0 >> 16);
        Self(out.into_boxed_slice())
    }

    #[inline]
    pub(crate) fn find(&self, class: Class, port: u16) -> Rank {
        let wanted = key(class, port);
        let after = self.0.partition_point(|(key, _)| *key <= wanted);
        match after.checked_sub(1).and_then(|i| self.0.get(i)) {
            Some((key, rank)) if key >> 16 == u32::from(class) => *rank,
            _ => NONE,
        }
    }

    /// The steps from one port to another: first and last port, and rule.
    pub(crate) fn between(
        &self,
        class: Class,
        first: u16,
        last: u16,
    ) -> impl Iterator<Item = (u16, u16, Rank)> {
        let (from, to) = (key(class, first), key(class, last));
        let after = self.0.partition_point(|(key, _)| *key <= from);
        let until = self.0.partition_point(|(key, _)| *key <= to);
        let inner = self.0.get(after..until).unwrap_or(&[]);
        let starts = core::iter::once((from, self.find(class, first))).chain(inner.iter().copied());
        let ends = inner.iter().map(|(key, _)| key - 1).chain([to]);
        // Both are keys of the class.
        starts
            .zip(ends)
            .map(|((start, rank), end)| (start as u16, end as u16, rank))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

fn step(out: &mut Vec<(u32, Rank)>, at: u32, rank: Rank) {
    match out.last_mut() {
        Some(last) if last.0 == at => last.1 = rank,
        _ => out.push((at, rank)),
    }
}
