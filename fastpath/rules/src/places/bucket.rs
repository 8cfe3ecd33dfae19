//! Prefixes that share their first bits: one binary search finds the innermost
//! around an address, parent links those around that. Memory is linear in the
//! number of prefixes, however they nest.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use penstock_flow::Prefix;

use super::starts::{Starts, Step};
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
    /// What a lookup does not need.
    prefixes: Box<[Named]>,
}

/// No node.
const NONE: u32 = u32::MAX;

/// A prefix, as a lookup sees it.
#[derive(Clone, Debug)]
struct Node {
    /// Its tags, and where all of them are few, those of the prefixes around it.
    tags: u32,
    len: u32,
    /// The prefix around it whose tags are not among them.
    next: u32,
}

/// Tags that a node has at most when it has those of the prefixes around it.
/// Bounded, so that memory stays linear in prefixes however they nest.
const NEAR: usize = 8;

#[derive(Clone, Debug)]
struct Named {
    prefix: Prefix,
    parent: u32,
    /// How many of its node's tags are its own.
    own: u32,
}

impl Bucket {
    /// The bucket with some prefixes more or less; `None` where none is left.
    pub(crate) fn edited(before: Option<&Self>, edits: &[Edit], span: (u8, u8)) -> Option<Self> {
        // Enclosing prefixes come before what they enclose.
        let mut prefixes = BTreeMap::<Prefix, Vec<Tag>>::new();
        if let Some(before) = before {
            for (i, named) in before.prefixes.iter().enumerate() {
                prefixes.insert(named.prefix, before.own(i).to_vec());
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
        let mut names = Vec::<Named>::with_capacity(prefixes.len());
        let mut all = Vec::<Tag>::new();
        // The prefixes around the current one: (last address, node).
        let mut around = Vec::<(u64, u32)>::new();
        for (prefix, tags) in prefixes {
            let first = bits(prefix.addr().0, base, to);
            edges.close(&mut around, Some(first));
            let node = count(nodes.len());
            let parent = around.last().map_or(NONE, |(_, n)| *n);
            let begin = all.len();
            names.push(Named {
                prefix,
                parent,
                own: count(tags.len()),
            });
            all.extend(tags);
            let outer = nodes.get(parent as usize);
            let next = match outer {
                Some(outer) if all.len() - begin + outer.len as usize <= NEAR => {
                    let outers = outer.tags as usize..(outer.tags + outer.len) as usize;
                    for i in outers {
                        let tag = all.get(i).copied();
                        let known = all.get(begin..).unwrap_or(&[]);
                        all.extend(tag.filter(|tag| !known.contains(tag)));
                    }
                    outer.next
                }
                Some(_) => parent,
                None => NONE,
            };
            nodes.push(Node {
                tags: count(begin),
                len: count(all.len() - begin),
                next,
            });
            edges.push(first, node);
            around.push((bits(last(prefix), base, to), node));
        }
        edges.close(&mut around, None);
        let Edges {
            starts, innermost, ..
        } = edges;
        let steps = starts.into_iter().zip(&innermost).map(|(start, node)| {
            let run = nodes.get(*node as usize);
            let run = run.map_or(Some((0, 0)), |node| {
                (node.next == NONE).then_some((node.tags, node.len))
            });
            (start, run)
        });
        let starts = Starts::new(steps, to - base);
        Self {
            starts,
            innermost: innermost.into_boxed_slice(),
            nodes: nodes.into_boxed_slice(),
            tags: all.into_boxed_slice(),
            prefixes: names.into_boxed_slice(),
        }
    }

    /// The tags of the prefixes around, in runs.
    #[inline]
    pub(crate) fn around(&self, place: u64) -> Runs<'_> {
        let (now, next) = match self.starts.find(place) {
            Step::At(i) => (&[][..], self.innermost.get(i).copied().unwrap_or(NONE)),
            Step::Tags(from, to) => (self.tags.get(from..to).unwrap_or(&[]), NONE),
        };
        let bucket = Some(self);
        Runs { bucket, now, next }
    }

    /// The prefixes around, innermost first: their lengths and tags.
    pub(crate) fn prefixes_around(&self, place: u64) -> impl Iterator<Item = (u8, &[Tag])> {
        let named = |i: &u32| self.prefixes.get(*i as usize);
        let innermost = Some(self.innermost(place));
        core::iter::successors(innermost, move |i| Some(named(i)?.parent))
            .map_while(move |i| Some((named(&i)?.prefix.len(), self.own(i as usize))))
    }

    fn innermost(&self, place: u64) -> u32 {
        let innermost = self.starts.position(place);
        let innermost = innermost.and_then(|i| self.innermost.get(i));
        innermost.copied().unwrap_or(NONE)
    }

    pub(crate) fn entries(&self) -> usize {
        self.nodes.len() + self.tags.len() + self.innermost.len()
    }

    /// A prefix's own tags.
    fn own(&self, i: usize) -> &[Tag] {
        let (Some(node), Some(named)) = (self.nodes.get(i), self.prefixes.get(i)) else {
            return &[];
        };
        let begin = node.tags as usize;
        self.tags
            .get(begin..begin + named.own as usize)
            .unwrap_or(&[])
    }
}

/// From one prefix outwards, tags of several prefixes at a time.
#[derive(Clone, Debug)]
pub(crate) struct Runs<'a> {
    bucket: Option<&'a Bucket>,
    now: &'a [Tag],
    next: u32,
}

impl Runs<'_> {
    pub(crate) const fn none() -> Self {
        Self {
            bucket: None,
            now: &[],
            next: NONE,
        }
    }
}

impl<'a> Iterator for Runs<'a> {
    type Item = &'a [Tag];

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if !self.now.is_empty() {
            return Some(core::mem::take(&mut self.now));
        }
        let bucket = self.bucket?;
        let node = bucket.nodes.get(self.next as usize)?;
        self.next = node.next;
        let begin = node.tags as usize;
        bucket.tags.get(begin..begin + node.len as usize)
    }
}

/// A bucket has fewer prefixes and tags than 2^32.
fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(NONE)
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
