//! Prefixes that share their first bits: one binary search finds the innermost
//! around an address, parent links those around that. Memory is linear in the
//! number of prefixes, however they nest.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use penstock_flow::Prefix;

use super::{Edit, bits};
use crate::holes::last;
use crate::tags::Tag;

#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    /// Where the innermost prefix changes, ascending.
    starts: Starts,
    /// The innermost prefix from there on.
    innermost: Box<[u32]>,
    nodes: Box<[Node]>,
    tags: Box<[Tag]>,
}

/// No node.
const NONE: u32 = u32::MAX;

/// Most buckets speak of 16 bits: these need a quarter of the cache lines.
#[derive(Clone, Debug)]
enum Starts {
    Short(Box<[u16]>),
    Long(Box<[u64]>),
}

#[derive(Clone, Debug)]
struct Node {
    prefix: Prefix,
    parent: u32,
    /// Up to where its tags go; they begin where the node's before end.
    tags_end: u32,
}

impl Bucket {
    /// The bucket with some prefixes more or less; `None` where none is left.
    pub(crate) fn edited(before: Option<&Self>, edits: &[Edit], span: (u8, u8)) -> Option<Self> {
        // Enclosing prefixes come before what they enclose.
        let mut prefixes = BTreeMap::<Prefix, Vec<Tag>>::new();
        if let Some(before) = before {
            for (i, node) in before.nodes.iter().enumerate() {
                prefixes.insert(node.prefix, before.tags_of(i).to_vec());
            }
        }
        for edit in edits {
            let tags = prefixes.entry(edit.prefix).or_default();
            match (edit.add, tags.binary_search(&edit.tag)) {
                (true, Err(at)) => tags.insert(at, edit.tag),
                (false, Ok(at)) => drop(tags.remove(at)),
                (true, Ok(_)) | (false, Err(_)) => {}
            }
        }
        prefixes.retain(|_, tags| !tags.is_empty());
        (!prefixes.is_empty()).then(|| Self::new(prefixes, span))
    }

    fn new(prefixes: BTreeMap<Prefix, Vec<Tag>>, (base, to): (u8, u8)) -> Self {
        let mut edges = Edges {
            last: bits(u128::MAX, base, to),
            starts: Vec::new(),
            innermost: Vec::new(),
        };
        let mut nodes = Vec::<Node>::with_capacity(prefixes.len());
        let mut all_tags = Vec::new();
        // The prefixes around the current one: (last address, node).
        let mut around = Vec::<(u64, u32)>::new();
        for (prefix, tags) in prefixes {
            let first = bits(prefix.addr().0, base, to);
            edges.close(&mut around, Some(first));
            let node = u32::try_from(nodes.len()).unwrap_or(NONE);
            all_tags.extend(tags);
            nodes.push(Node {
                prefix,
                parent: around.last().map_or(NONE, |(_, n)| *n),
                tags_end: u32::try_from(all_tags.len()).unwrap_or(NONE),
            });
            edges.push(first, node);
            around.push((bits(last(prefix), base, to), node));
        }
        edges.close(&mut around, None);
        let Edges {
            starts, innermost, ..
        } = edges;
        let starts = if to - base <= 16 {
            // 16 bits fit.
            Starts::Short(starts.into_iter().map(|start| start as u16).collect())
        } else {
            Starts::Long(starts.into_boxed_slice())
        };
        Self {
            starts,
            innermost: innermost.into_boxed_slice(),
            nodes: nodes.into_boxed_slice(),
            tags: all_tags.into_boxed_slice(),
        }
    }

    /// The prefixes around, innermost first: their lengths and tags.
    #[inline]
    pub(crate) fn around(&self, place: u64) -> Nodes<'_> {
        let after = match &self.starts {
            // Places of a short bucket have 16 bits.
            Starts::Short(starts) => starts.partition_point(|start| u64::from(*start) <= place),
            Starts::Long(starts) => starts.partition_point(|start| *start <= place),
        };
        let innermost = after.checked_sub(1).and_then(|i| self.innermost.get(i));
        Nodes {
            bucket: Some(self),
            next: innermost.copied().unwrap_or(NONE),
        }
    }

    pub(crate) fn entries(&self) -> usize {
        self.nodes.len() + self.tags.len() + self.innermost.len()
    }

    fn tags_of(&self, node: usize) -> &[Tag] {
        let end = |i: usize| self.nodes.get(i).map_or(0, |n| n.tags_end as usize);
        let start = node.checked_sub(1).map_or(0, end);
        self.tags.get(start..end(node)).unwrap_or(&[])
    }
}

/// From one prefix outwards.
#[derive(Clone, Debug)]
pub(crate) struct Nodes<'a> {
    bucket: Option<&'a Bucket>,
    next: u32,
}

impl Nodes<'_> {
    pub(crate) const fn none() -> Self {
        Self {
            bucket: None,
            next: NONE,
        }
    }
}

impl<'a> Iterator for Nodes<'a> {
    type Item = (u8, &'a [Tag]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let bucket = self.bucket?;
        let i = self.next as usize;
        let node = bucket.nodes.get(i)?;
        self.next = node.parent;
        Some((node.prefix.len(), bucket.tags_of(i)))
    }
}

/// A step function being built.
struct Edges {
    /// The bucket's last place.
    last: u64,
    starts: Vec<u64>,
    innermost: Vec<u32>,
}

impl Edges {
    /// Ends the prefixes around that end before `next`.
    fn close(&mut self, around: &mut Vec<(u64, u32)>, next: Option<u64>) {
        while let Some(&(end, _)) = around.last()
            && next.is_none_or(|next| end < next)
        {
            around.pop();
            let outer = around.last().map_or(NONE, |(_, n)| *n);
            // Past the bucket's last address there is nothing.
            if end < self.last {
                self.push(end + 1, outer);
            }
        }
    }

    fn push(&mut self, start: u64, node: u32) {
        match (self.starts.last(), self.innermost.last_mut()) {
            (Some(last), Some(innermost)) if *last == start => *innermost = node,
            _ => {
                self.starts.push(start);
                self.innermost.push(node);
            }
        }
    }
}
