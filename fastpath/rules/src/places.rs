//! Where a VPC's prefix sets and CIDRs lie: from an address to their tags.
//!
//! One structure serves all lists of a VPC, so that an address is looked up once
//! per judgement however many lists are asked. Prefixes are parted by length
//! into levels, and a level by an address's first bits into buckets: a change
//! builds the buckets anew that it falls into, and a lookup looks into one
//! bucket per level.

mod bucket;
mod starts;

use alloc::sync::Arc;
use alloc::vec::Vec;

use hashbrown::HashMap;
use penstock_flow::{Addr, Prefix};

use crate::holes::Holes;
use crate::shards::Shards;
use crate::tags::{Tag, is_holed};
use bucket::{Bucket, Runs};

/// A prefix that gets a tag, or loses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) prefix: Prefix,
    pub(crate) tag: Tag,
    pub(crate) add: bool,
}

/// See the module's contract.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    v4: [Level; 2],
    v6: [Level; 4],
    holes: Shards<Tag, Arc<Holes>>,
}

/// Prefixes of some lengths, by their first bits.
#[derive(Clone, Debug, Default)]
struct Level {
    buckets: Shards<u64, Arc<Bucket>>,
}

/// First bits, and the greatest length, of each level. Between them lie at most
/// 64 bits.
const V4: [(u8, u8); 2] = [(96, 112), (112, 128)];
const V6: [(u8, u8); 4] = [(0, 32), (32, 48), (48, 64), (64, 128)];

/// Bits of an address: those from `from` to `to`.
const fn bits(addr: u128, from: u8, to: u8) -> u64 {
    let shifted = if to == 0 { 0 } else { addr >> (128 - to) };
    let width = to - from;
    if width >= 64 {
        shifted as u64
    } else {
        shifted as u64 & ((1 << width) - 1)
    }
}

/// The bucket of an address in a level: its first bits, of which 64 tell within a family.
const fn bucket_of(addr: u128, base: u8) -> u64 {
    bits(addr, base.saturating_sub(64), base)
}

impl Places {
    fn levels(&self, is_v4: bool) -> (&[(u8, u8)], &[Level]) {
        if is_v4 {
            (&V4, &self.v4)
        } else {
            (&V6, &self.v6)
        }
    }

    /// Every tag whose prefix holds `addr`, outside the tag's exceptions.
    pub(crate) fn tags(&self, addr: Addr) -> impl Iterator<Item = Tag> {
        self.runs(addr)
            .flatten()
            .copied()
            .filter(move |tag| self.counts(*tag, addr))
    }

    /// The same, told one by one.
    #[inline]
    pub(crate) fn each_tag(&self, addr: Addr, mut tell: impl FnMut(Tag)) {
        for run in self.runs(addr) {
            for tag in run {
                if self.counts(*tag, addr) {
                    tell(*tag);
                }
            }
        }
    }

    #[inline]
    fn runs(&self, addr: Addr) -> impl Iterator<Item = &[Tag]> {
        let (spans, levels) = self.levels(addr.is_v4());
        spans
            .iter()
            .zip(levels)
            .flat_map(move |(&(base, to), level)| {
                let bucket = level.buckets.get(&bucket_of(addr.0, base));
                bucket.map_or_else(Runs::none, |b| b.around(bits(addr.0, base, to)))
            })
    }

    /// Whether an address in a tag's prefix is outside its exceptions.
    #[inline]
    fn counts(&self, tag: Tag, addr: Addr) -> bool {
        !is_holed(tag) || !self.is_hole(tag, addr)
    }

    #[cold]
    fn is_hole(&self, tag: Tag, addr: Addr) -> bool {
        self.holes.get(&tag).is_some_and(|h| h.contain(addr))
    }

    /// The tags of prefixes that hold all of `prefix`, their exceptions aside.
    pub(crate) fn enclosing(&self, prefix: Prefix) -> impl Iterator<Item = Tag> {
        let addr = prefix.addr().0;
        let (spans, levels) = self.levels(prefix.is_v4());
        spans
            .iter()
            .zip(levels)
            .flat_map(move |(&(base, to), level)| {
                let bucket = level.buckets.get(&bucket_of(addr, base));
                bucket
                    .into_iter()
                    .flat_map(move |b| b.prefixes_around(bits(addr, base, to)))
            })
            .filter(move |(len, _)| *len <= prefix.len())
            .flat_map(|(_, tags)| tags.iter().copied())
    }

    /// A tag's exceptions.
    pub(crate) fn holes(&self, tag: Tag) -> Option<&Holes> {
        self.holes.get(&tag).map(|holes| &**holes)
    }

    pub(crate) fn set_holes(&mut self, tag: Tag, holes: Option<Holes>) {
        match holes {
            Some(holes) => drop(self.holes.insert(tag, Arc::new(holes))),
            None => drop(self.holes.remove(&tag)),
        }
    }

    /// Carries edits out, in any order; of two about the same the last counts.
    pub(crate) fn edit(&mut self, edits: &[Edit]) {
        let mut parts = HashMap::<(bool, usize, u64), Vec<Edit>, _>::with_hasher(
            foldhash::fast::FixedState::default(),
        );
        for edit in edits {
            let is_v4 = edit.prefix.is_v4();
            let spans: &[(u8, u8)] = if is_v4 { &V4 } else { &V6 };
            let len = edit.prefix.len();
            if let Some(level) = spans.iter().position(|(_, to)| len <= *to)
                && let Some((base, _)) = spans.get(level)
            {
                let bucket = bucket_of(edit.prefix.addr().0, *base);
                parts.entry((is_v4, level, bucket)).or_default().push(*edit);
            }
        }
        for ((is_v4, i, key), edits) in parts {
            let (spans, levels): (&[(u8, u8)], &mut [Level]) = if is_v4 {
                (&V4, &mut self.v4)
            } else {
                (&V6, &mut self.v6)
            };
            let (Some(span), Some(level)) = (spans.get(i), levels.get_mut(i)) else {
                continue;
            };
            let next = Bucket::edited(level.buckets.get(&key).map(|b| &**b), &edits, *span);
            match next {
                Some(bucket) => drop(level.buckets.insert(key, Arc::new(bucket))),
                None => drop(level.buckets.remove(&key)),
            }
        }
    }

    /// Prefixes times tags, as a measure of its memory.
    pub(crate) fn entries(&self) -> usize {
        let levels = self.v4.iter().chain(&self.v6);
        let buckets = levels.flat_map(|level| level.buckets.iter());
        buckets.map(|(_, bucket)| bucket.entries()).sum()
    }
}
