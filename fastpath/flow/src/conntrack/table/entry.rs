//! What the table hands out: handles and entries.

use crate::conntrack::Direction;
use crate::{Key, Orientation};

/// Names an entry. After the entry is removed, the handle finds nothing, even
/// when its slot is used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle {
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl Handle {
    /// The slot, below the table's capacity: an index for side tables.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.index
    }
}

/// One connection.
#[derive(Debug)]
pub struct Entry<V> {
    pub(super) key: Key,
    pub(super) original: Orientation,
    pub(super) deadline: u64,
    /// What the table's user keeps of it.
    pub value: V,
}

impl<V> Entry<V> {
    /// Its key.
    #[must_use]
    pub const fn key(&self) -> &Key {
        &self.key
    }

    /// The direction of a packet with `orientation` along the key.
    #[must_use]
    #[inline]
    pub const fn direction(&self, orientation: Orientation) -> Direction {
        Direction::of(orientation, self.original)
    }

    /// The orientation of a packet that runs in `direction`.
    #[must_use]
    pub const fn orientation(&self, direction: Direction) -> Orientation {
        match direction {
            Direction::Original => self.original,
            Direction::Reply => self.original.reverse(),
        }
    }

    /// When it expires, in nanoseconds.
    #[must_use]
    pub const fn deadline(&self) -> u64 {
        self.deadline
    }

    /// Puts the deadline off. No timer is touched: the armed one fires, sees the
    /// later deadline and is armed again. To bring it forward, use
    /// [`super::Table::expire_at`].
    #[inline]
    pub fn keep_until(&mut self, deadline: u64) {
        self.deadline = self.deadline.max(deadline);
    }
}
