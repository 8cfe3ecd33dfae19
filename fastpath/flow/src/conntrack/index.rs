//! From a hash to the slab slots that may hold its key.
//!
//! Buckets of one cache line: eight 16-bit tags and eight slot numbers. An entry
//! sits in its home bucket, or, if that is full, in the next one with room; each
//! bucket counts the entries that had to pass it by, so that a search ends at the
//! first bucket nobody passed, and deletion leaves nothing behind. Sized for at
//! most five entries per bucket, so nearly every search is one line.

use alloc::vec::Vec;

const LANES: usize = 8;
const ENTRIES_PER_BUCKET: usize = 5;

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Bucket {
    tags: [u16; LANES],
    slots: [u32; LANES],
    /// Entries of earlier buckets that found this one full.
    passed: u32,
    /// Which lanes hold an entry.
    used: u8,
}

const EMPTY: Bucket = Bucket {
    tags: [0; LANES],
    slots: [0; LANES],
    passed: 0,
    used: 0,
};

/// The index. It compares tags only: its user compares keys.
#[derive(Debug)]
pub(super) struct Index {
    /// A power of two of them, at least one.
    buckets: Vec<Bucket>,
    mask: usize,
}

const fn tag(hash: u64) -> u16 {
    (hash >> 48) as u16
}

impl Index {
    /// With room for `entries`.
    pub(super) fn new(entries: u32) -> Self {
        let buckets = (entries as usize / ENTRIES_PER_BUCKET + 1).next_power_of_two();
        Self {
            buckets: alloc::vec![EMPTY; buckets],
            mask: buckets - 1,
        }
    }

    fn buckets_from(&self, hash: u64) -> impl Iterator<Item = (usize, &Bucket)> {
        let home = hash as usize;
        (home..home.saturating_add(self.buckets.len()))
            .map(|at| at & self.mask)
            .filter_map(|at| self.buckets.get(at).map(|bucket| (at, bucket)))
    }

    /// The slot with `hash` that `is` accepts.
    #[inline]
    pub(super) fn find(&self, hash: u64, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        let home = hash as usize & self.mask;
        let mut at = home;
        loop {
            let bucket = self.buckets.get(at)?;
            let mut lanes = bucket.lanes(tag(hash));
            while lanes != 0 {
                let slot = bucket.slots[lanes.trailing_zeros() as usize % LANES];
                if is(slot) {
                    return Some(slot);
                }
                lanes &= lanes - 1;
            }
            at = (at + 1) & self.mask;
            if bucket.passed == 0 || at == home {
                return None;
            }
        }
    }

    /// Adds a slot that is not in the index; false if every bucket is full.
    pub(super) fn insert(&mut self, hash: u64, slot: u32) -> bool {
        let found = self.buckets_from(hash).find(|(_, b)| b.used != u8::MAX);
        let Some((target, _)) = found else {
            return false;
        };
        self.pass_by(hash, target, 1);
        if let Some(bucket) = self.buckets.get_mut(target) {
            let lane = bucket.used.trailing_ones() as usize % LANES;
            bucket.tags[lane] = tag(hash);
            bucket.slots[lane] = slot;
            bucket.used |= 1 << lane;
        }
        true
    }

    /// Removes a slot that was added with `hash`.
    pub(super) fn remove(&mut self, hash: u64, slot: u32) {
        let mut found = None;
        for (at, bucket) in self.buckets_from(hash) {
            let held = |lane: &usize| bucket.used & 1 << lane != 0 && bucket.slots[*lane] == slot;
            if let Some(lane) = (0..LANES).find(held) {
                found = Some((at, lane));
                break;
            }
            if bucket.passed == 0 {
                break;
            }
        }
        if let Some((at, lane)) = found {
            if let Some(bucket) = self.buckets.get_mut(at) {
                bucket.used &= !(1 << lane);
            }
            self.pass_by(hash, at, -1);
        }
    }

    /// Counts an entry up or down in the buckets before `target`.
    fn pass_by(&mut self, hash: u64, target: usize, by: i32) {
        let mut at = hash as usize & self.mask;
        while at != target {
            if let Some(bucket) = self.buckets.get_mut(at) {
                bucket.passed = bucket.passed.saturating_add_signed(by);
            }
            at = (at + 1) & self.mask;
        }
    }
}

impl Bucket {
    /// The lanes in use whose tag is `tag`, as bits.
    #[inline]
    fn lanes(&self, tag: u16) -> u8 {
        let mut equal = 0;
        for (lane, t) in self.tags.iter().enumerate() {
            equal |= u8::from(*t == tag) << lane;
        }
        equal & self.used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colliding_hashes_spill_over_and_vanish_without_trace() {
        let mut index = Index::new(40);
        let hash = 0xabcd_0000_0000_0003;
        for slot in 0..30 {
            assert!(index.insert(hash, slot));
        }
        for slot in 0..30 {
            assert_eq!(index.find(hash, |s| s == slot), Some(slot));
        }
        for slot in (0..30).rev() {
            index.remove(hash, slot);
            assert_eq!(index.find(hash, |s| s == slot), None);
        }
        assert!(index.buckets.iter().all(|b| b.used == 0 && b.passed == 0));
    }

    #[test]
    fn a_bucket_is_one_cache_line() {
        assert_eq!(size_of::<Bucket>(), 64);
    }
}
