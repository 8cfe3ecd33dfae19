//! What a peer is known by: tags, and tables from tags to services.

use alloc::boxed::Box;
use alloc::vec;

use crate::model::{GroupId, SetId};

/// One thing that a peer may be in: a group, a prefix set or a CIDR with its
/// exceptions. A list looks up the tags of a peer, not the peer.
pub(crate) type Tag = u64;

const SET: Tag = 1 << 61;
const HOLED: Tag = 1 << 62;
const CIDR: Tag = 1 << 63;

/// Bits of a table's filter for each tag.
const FILTER: usize = 16;

/// No tag.
const EMPTY: Tag = Tag::MAX;

pub(crate) const fn group(id: GroupId) -> Tag {
    id as Tag
}

pub(crate) const fn set(id: SetId) -> Tag {
    SET | id as Tag
}

/// The `n`th CIDR of a VPC; whether it has exceptions shows.
pub(crate) const fn cidr(n: u64, holed: bool) -> Tag {
    CIDR | n | if holed { HOLED } else { 0 }
}

/// Whether a tag's exceptions have to be looked at.
pub(crate) const fn is_holed(tag: Tag) -> bool {
    tag & HOLED != 0
}

/// Services by tag: open addressing, at most half full. Most tags that are asked
/// for are not there, so a filter of a sixteenth's density is asked first, which
/// stays in the nearest cache and nearly always says no.
#[derive(Clone, Debug, Default)]
pub(crate) struct TagTable {
    /// A bit for each tag that is there, by the first bits of its hash.
    filter: Box<[u64]>,
    filter_shift: u32,
    /// A power of two, or nothing.
    entries: Box<[(Tag, u32)]>,
    shift: u32,
    len: usize,
}

impl TagTable {
    pub(crate) fn new(items: impl ExactSizeIterator<Item = (Tag, u32)>) -> Self {
        let len = items.len();
        if len == 0 {
            return Self::default();
        }
        let size = (2 * len).next_power_of_two();
        let bits = (FILTER * len).next_power_of_two().max(64);
        let mut table = Self {
            filter: vec![0; bits / 64].into_boxed_slice(),
            filter_shift: 64 - bits.trailing_zeros(),
            entries: vec![(EMPTY, 0); size].into_boxed_slice(),
            shift: 64 - size.trailing_zeros(),
            len,
        };
        let mask = size - 1;
        for (tag, value) in items {
            let bit = hash(tag) >> table.filter_shift;
            if let Some(word) = table.filter.get_mut((bit / 64) as usize) {
                *word |= 1 << (bit % 64);
            }
            let mut at = table.place(tag);
            while let Some(entry) = table.entries.get_mut(at) {
                if entry.0 == EMPTY {
                    *entry = (tag, value);
                    break;
                }
                at = (at + 1) & mask;
            }
        }
        table
    }

    #[inline]
    pub(crate) fn get(&self, tag: Tag) -> Option<u32> {
        let bit = hash(tag).checked_shr(self.filter_shift)?;
        let word = self.filter.get((bit / 64) as usize)?;
        if word >> (bit % 64) & 1 == 0 {
            return None;
        }
        self.look_up(tag)
    }

    fn look_up(&self, tag: Tag) -> Option<u32> {
        let mask = self.entries.len().checked_sub(1)?;
        let mut at = self.place(tag);
        // At most half full, so an empty entry comes.
        while let Some((found, value)) = self.entries.get(at) {
            if *found == tag {
                return Some(*value);
            }
            if *found == EMPTY {
                return None;
            }
            at = (at + 1) & mask;
        }
        None
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn place(&self, tag: Tag) -> usize {
        (hash(tag) >> self.shift) as usize
    }
}

#[inline]
const fn hash(tag: Tag) -> u64 {
    tag.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
