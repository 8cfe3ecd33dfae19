//! Step functions over the destination port, one per protocol.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::{Class, NONE, Rank};

/// First ports and, from each to the next, the first rule: by protocol, the first
/// step of each at port 0. One block of memory, for most are small and all are
/// looked up cold: the number of protocols; for each its class and, in two halves,
/// where its steps end; the first ports; the rules.
#[derive(Clone, Debug)]
pub(crate) struct Steps(Box<[u16]>);

/// Where a protocol's entry begins, and how large it is.
const ENTRIES: usize = 1;
const ENTRY: usize = 3;

impl Steps {
    /// Flattens ranges, which may overlap: at most two steps per range, and one.
    pub(crate) fn new(ranges: Vec<(Class, u16, u16, Rank)>) -> Self {
        let mut classes = BTreeMap::<Class, Vec<(u16, u16, Rank)>>::new();
        for (class, first, last, rank) in ranges {
            classes.entry(class).or_default().push((first, last, rank));
        }
        if classes.is_empty() {
            return Self(Box::default());
        }
        let mut data = Vec::new();
        let (mut starts, mut ranks) = (Vec::new(), Vec::new());
        // There are 257 classes.
        data.push(u16::try_from(classes.len()).unwrap_or(0));
        for (class, ranges) in classes {
            for (start, rank) in flatten(ranges) {
                starts.push(start);
                ranks.push(rank);
            }
            let end = starts.len();
            data.extend([class, (end & 0xffff) as u16, (end >> 16) as u16]);
        }
        data.extend(starts);
        data.extend(ranks);
        Self(data.into_boxed_slice())
    }

    #[inline]
    pub(crate) fn find(&self, class: Class, port: u16) -> Rank {
        let (starts, ranks) = self.of(class);
        let after = starts.partition_point(|start| *start <= port);
        let step = after.wrapping_sub(1);
        ranks.get(step).copied().unwrap_or(NONE)
    }

    /// A protocol's first ports and rules.
    #[inline]
    fn of(&self, class: Class) -> (&[u16], &[Rank]) {
        let Some((n, rest)) = self.0.split_first() else {
            return (&[], &[]);
        };
        let (entries, steps) = rest.split_at(usize::from(*n) * ENTRY);
        let (starts, ranks) = steps.split_at(steps.len() / 2);
        let mut from = 0;
        for entry in entries.chunks_exact(ENTRY) {
            let [found, low, high] = *entry else {
                break;
            };
            let end = usize::from(low) | usize::from(high) << 16;
            if found == class {
                let range = from..end;
                let starts = starts.get(range.clone()).unwrap_or(&[]);
                return (starts, ranks.get(range).unwrap_or(&[]));
            }
            from = end;
        }
        (&[], &[])
    }

    /// The steps from one port to another: first and last port, and rule.
    pub(crate) fn between(
        &self,
        class: Class,
        first: u16,
        last: u16,
    ) -> impl Iterator<Item = (u16, u16, Rank)> {
        let (starts, ranks) = self.of(class);
        let after = starts.partition_point(|start| *start <= first);
        let until = starts.partition_point(|start| *start <= last);
        let starts = starts.get(after..until).unwrap_or(&[]);
        let ranks = ranks.get(after..until).unwrap_or(&[]);
        let inner = starts.iter().copied().zip(ranks.iter().copied());
        let begins = core::iter::once((first, self.find(class, first))).chain(inner);
        // A step that is not the first does not begin at 0.
        let ends = starts
            .iter()
            .map(|start| start.wrapping_sub(1))
            .chain([last]);
        begins
            .zip(ends)
            .map(|((start, rank), end)| (start, end, rank))
    }

    pub(crate) const fn len(&self) -> usize {
        self.0.len().saturating_sub(ENTRIES) / 2
    }
}

/// A protocol's steps; the first at 0.
fn flatten(ranges: Vec<(u16, u16, Rank)>) -> Vec<(u16, Rank)> {
    // What begins (true) and ends at each port; one past 65535 never comes.
    let mut edges = Vec::with_capacity(2 * ranges.len());
    for (first, last, rank) in ranges {
        edges.push((first, rank, true));
        if let Some(after) = last.checked_add(1) {
            edges.push((after, rank, false));
        }
    }
    edges.sort_unstable();
    // A rule may list overlapping ranges, so count them.
    let mut open = BTreeMap::<Rank, u32>::new();
    let mut out = Vec::from([(0, NONE)]);
    for (at, rank, begins) in edges {
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
        match out.last_mut() {
            Some((start, last)) if *start == at => *last = first,
            _ => out.push((at, first)),
        }
    }
    out.dedup_by(|next, kept| next.1 == kept.1);
    out
}
