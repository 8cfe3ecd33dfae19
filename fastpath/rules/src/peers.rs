//! Prefixes with holes: one binary search finds the innermost prefix around an
//! address; the ones around that are reached by parent links. Memory is linear
//! in the number of prefixes, however they nest.

use alloc::vec::Vec;

use penstock_flow::{Addr, Prefix};

/// What the prefixes of one address family lead to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Prefixes<T> {
    /// Where the innermost prefix changes: (first address, node), ascending.
    edges: Vec<(u128, Option<usize>)>,
    nodes: Vec<Node<T>>,
}

#[derive(Clone, Debug)]
struct Node<T> {
    prefix: Prefix,
    parent: Option<usize>,
    entries: Vec<Entry<T>>,
}

/// What one prefix with its holes leads to.
#[derive(Clone, Debug)]
pub(crate) struct Entry<T> {
    pub(crate) holes: Holes,
    pub(crate) value: T,
}

impl<T> Prefixes<T> {
    /// All of one family, any order, repetitions allowed.
    pub(crate) fn new(mut items: Vec<(Prefix, Holes, T)>) -> Self {
        // Enclosing prefixes come before what they enclose.
        items.sort_by_key(|(p, ..)| (p.addr().0, p.len()));
        let mut set = Self {
            edges: Vec::new(),
            nodes: Vec::new(),
        };
        // The prefixes around the current one: (last address, node).
        let mut around = Vec::<(u128, usize)>::new();
        let mut previous = None;
        for (prefix, holes, value) in items {
            let entry = Entry { holes, value };
            if previous == Some(prefix)
                && let Some(node) = set.nodes.last_mut()
            {
                node.entries.push(entry);
                continue;
            }
            previous = Some(prefix);
            let first = prefix.addr().0;
            set.close(&mut around, Some(first));
            let node = set.nodes.len();
            set.nodes.push(Node {
                prefix,
                parent: around.last().map(|(_, n)| *n),
                entries: Vec::from([entry]),
            });
            set.edge(first, Some(node));
            around.push((last(prefix), node));
        }
        set.close(&mut around, None);
        set
    }

    /// Every value whose prefix holds `addr` outside its holes, innermost first.
    pub(crate) fn around(&self, addr: Addr) -> impl Iterator<Item = &T> {
        self.nodes_around(addr)
            .flat_map(|n| &n.entries)
            .filter(move |e| !e.holes.contain(addr))
            .map(|e| &e.value)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Everything there is.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (Prefix, &Entry<T>)> {
        self.nodes
            .iter()
            .flat_map(|n| n.entries.iter().map(|e| (n.prefix, e)))
    }

    /// The entries whose prefix holds all of `prefix`, their holes aside.
    pub(crate) fn enclosing(&self, prefix: Prefix) -> impl Iterator<Item = &Entry<T>> {
        self.nodes_around(prefix.addr())
            .filter(move |n| n.prefix.len() <= prefix.len())
            .flat_map(|n| &n.entries)
    }

    /// Innermost first.
    fn nodes_around(&self, addr: Addr) -> impl Iterator<Item = &Node<T>> {
        let after = self.edges.partition_point(|(first, _)| *first <= addr.0);
        let innermost = after
            .checked_sub(1)
            .and_then(|i| self.edges.get(i))
            .and_then(|(_, node)| *node);
        let node = |i: usize| self.nodes.get(i);
        core::iter::successors(innermost.and_then(node), move |n| n.parent.and_then(node))
    }

    /// Ends the prefixes around that end before `next`.
    fn close(&mut self, around: &mut Vec<(u128, usize)>, next: Option<u128>) {
        while let Some(&(end, _)) = around.last()
            && next.is_none_or(|next| end < next)
        {
            around.pop();
            if let Some(after) = end.checked_add(1) {
                self.edge(after, around.last().map(|(_, n)| *n));
            }
        }
    }

    fn edge(&mut self, first: u128, node: Option<usize>) {
        match self.edges.last_mut() {
            Some(last) if last.0 == first => last.1 = node,
            _ => self.edges.push((first, node)),
        }
    }
}

/// The `except` of a CIDR peer, as disjoint ascending ranges: however they
/// were written, equal sets are equal values.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Holes(Vec<(u128, u128)>);

impl Holes {
    /// The holes in `prefix`; those of the other family are in none of it.
    pub(crate) fn new(prefix: Prefix, except: &[Prefix]) -> Self {
        let mut ranges: Vec<_> = except
            .iter()
            .filter(|hole| hole.is_v4() == prefix.is_v4())
            .map(|hole| (hole.addr().0, last(*hole)))
            .collect();
        ranges.sort_unstable();
        let mut out = Vec::<(u128, u128)>::with_capacity(ranges.len());
        for (first, end) in ranges {
            match out.last_mut() {
                // Touching ranges are joined: 10.0.0.0/9 and 10.128.0.0/9 are 10.0.0.0/8.
                Some(kept) if kept.1.checked_add(1).is_none_or(|after| first <= after) => {
                    kept.1 = kept.1.max(end);
                }
                _ => out.push((first, end)),
            }
        }
        Self(out)
    }

    fn contain(&self, addr: Addr) -> bool {
        let after = self.0.partition_point(|(first, _)| *first <= addr.0);
        after
            .checked_sub(1)
            .and_then(|i| self.0.get(i))
            .is_some_and(|(_, last)| addr.0 <= *last)
    }

    /// What of `prefix` lies in these holes and not in `others`: ascending ranges.
    pub(crate) fn beyond(&self, others: &Self, prefix: Prefix) -> Vec<(u128, u128)> {
        let mut out = Vec::new();
        for &(first, end) in &self.0 {
            let (mut first, end) = (first.max(prefix.addr().0), end.min(last(prefix)));
            for &(other_first, other_end) in &others.0 {
                if other_end < first {
                    continue;
                }
                if other_first > end || first > end {
                    break;
                }
                if first < other_first {
                    out.push((first, other_first - 1));
                }
                // Past the last address there is nothing.
                let Some(after) = other_end.checked_add(1) else {
                    return out;
                };
                first = after;
            }
            if first <= end {
                out.push((first, end));
            }
        }
        out
    }
}

/// The fewest prefixes that make up a range.
pub(crate) fn prefixes((mut first, end): (u128, u128)) -> Vec<Prefix> {
    let mut out = Vec::new();
    while first <= end {
        // As many host bits as `first` is aligned to and the range has room for.
        let mut bits = first.trailing_zeros();
        let room = end - first;
        while bits > 0 && low_bits(bits) > room {
            bits -= 1;
        }
        out.extend(
            u8::try_from(128 - bits)
                .ok()
                .and_then(|len| Prefix::new(Addr(first), len)),
        );
        let Some(next) = first
            .checked_add(low_bits(bits))
            .and_then(|last| last.checked_add(1))
        else {
            break;
        };
        first = next;
    }
    out
}

fn low_bits(bits: u32) -> u128 {
    u128::MAX.checked_shr(128 - bits).unwrap_or(0)
}

/// A prefix's last address.
fn last(prefix: Prefix) -> u128 {
    // A length of 128 leaves nothing to shift in.
    prefix.addr().0 | u128::MAX.checked_shr(u32::from(prefix.len())).unwrap_or(0)
}
