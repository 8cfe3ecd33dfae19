//! What a peer is known by: tags, and tables from tags to services.

use alloc::boxed::Box;
use alloc::vec;

use crate::model::{GroupId, SetId};
use crate::service::Cells;

/// One thing that a peer may be in: a group, a prefix set or a CIDR with its
/// exceptions. A list looks up the tags of a peer, not the peer.
pub(crate) type Tag = u64;

const SET: Tag = 1 << 61;
const HOLED: Tag = 1 << 62;
const CIDR: Tag = 1 << 63;

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

/// Services by tag: open addressing, at most half full. Most that is asked for is
/// not there, or speaks of other ports, so a filter is asked first: a word for a
/// tag, in which its service's cells are set, turned by the tag's hash because
/// others may share the word.
#[derive(Clone, Debug, Default)]
pub(crate) struct TagTable {
    /// A power of two, about one for each tag, or nothing.
    filter: Box<[u64]>,
    filter_shift: u32,
    /// A power of two, or nothing.
    entries: Box<[(Tag, u32)]>,
    shift: u32,
    len: usize,
}

impl TagTable {
    /// Tags, what each leads to, and the cells where that matches anything.
    pub(crate) fn new(items: impl ExactSizeIterator<Item = (Tag, u32, Cells)>) -> Self {
        let len = items.len();
        if len == 0 {
            return Self::default();
        }
        let size = (2 * len).next_power_of_two();
        let words = len.next_power_of_two().max(2);
        let mut table = Self {
            filter: vec![0; words].into_boxed_slice(),
            filter_shift: 64 - words.trailing_zeros(),
            entries: vec![(EMPTY, 0); size].into_boxed_slice(),
            shift: 64 - size.trailing_zeros(),
            len,
        };
        let mask = size - 1;
        for (tag, value, cells) in items {
            let hash = hash(tag);
            if let Some(word) = table.filter.get_mut((hash >> table.filter_shift) as usize) {
                *word |= cells.turned(hash as u32);
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

    /// Which of the tags, at most 32, may lead to something in this cell: a bit each.
    /// Nothing here depends on what is found, so that all of it is read at once.
    #[inline]
    pub(crate) fn may(&self, tags: &[Tag], cell: u32) -> u32 {
        if self.len == 0 {
            return 0;
        }
        let mut may = 0;
        for (i, tag) in (0..).zip(tags) {
            let hash = hash(*tag);
            let word = self.filter.get((hash >> (self.filter_shift & 63)) as usize);
            let cells = Cells(word.copied().unwrap_or(0));
            may |= u32::from(cells.has(cell, hash as u32)) << (i & 31);
        }
        may
    }

    #[inline]
    pub(crate) fn get(&self, tag: Tag) -> Option<u32> {
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
