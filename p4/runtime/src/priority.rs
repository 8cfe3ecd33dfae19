//! Which entry wins.
//!
//! P4Runtime lets the higher number win; everything above speaks of ranks, where
//! 0 is looked at first. [`Priority::from_rank`] is the one place that turns the
//! order round.

use std::fmt;
use std::num::NonZeroI32;

/// P4Runtime's number: 1 or more, the higher wins. Orders like it wins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(NonZeroI32);

/// The largest rank. 24 bits are what hardware and bmv2 are sure to have.
pub const MAX_RANK: u32 = (1 << 24) - 2;

const TOP: i32 = 1 << 24;

impl Priority {
    /// From the wire: `None` for zero and below.
    #[must_use]
    pub const fn new(number: i32) -> Option<Self> {
        match NonZeroI32::new(number) {
            Some(number) if number.get() > 0 => Some(Self(number)),
            _ => None,
        }
    }

    /// The priority of the rule at `rank`, where 0 is looked at first. `None`
    /// above [`MAX_RANK`].
    #[must_use]
    pub const fn from_rank(rank: u32) -> Option<Self> {
        if rank > MAX_RANK {
            return None;
        }
        Self::new(TOP - 1 - rank as i32)
    }

    /// The inverse of [`Self::from_rank`]; `None` for numbers it never yields.
    #[must_use]
    pub const fn rank(self) -> Option<u32> {
        let number = self.0.get();
        if number < TOP {
            Some((TOP - 1 - number) as u32)
        } else {
            None
        }
    }

    /// P4Runtime's number.
    #[must_use]
    pub const fn get(self) -> i32 {
        self.0.get()
    }
}

/// See [`Priority::from_rank`].
#[must_use]
pub const fn from_rank(rank: u32) -> Option<Priority> {
    Priority::from_rank(rank)
}

impl fmt::Debug for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_ranks_win() {
        assert_eq!(Priority::from_rank(0).map(Priority::get), Some(0xff_ffff));
        assert!(Priority::from_rank(0) > Priority::from_rank(1));
        assert_eq!(
            Priority::from_rank(MAX_RANK).map(Priority::get),
            Some(1),
            "zero is no priority"
        );
        assert_eq!(Priority::from_rank(MAX_RANK + 1), None);
        for rank in [0, 1, 4_711, MAX_RANK] {
            assert_eq!(Priority::from_rank(rank).unwrap().rank(), Some(rank));
        }
        assert_eq!(Priority::new(i32::MAX).unwrap().rank(), None);
    }

    #[test]
    fn zero_and_below_are_no_priorities() {
        assert_eq!(Priority::new(0), None);
        assert_eq!(Priority::new(-1), None);
    }
}
