//! Election ids: who is primary.

use crate::v1;

/// Of the bids for one device and role, the highest wins. Zero is no bid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub u128);

impl Id {
    /// The lowest id that beats this one; `None` at the end of all ids.
    #[must_use]
    pub const fn next(self) -> Option<Self> {
        match self.0.checked_add(1) {
            Some(id) => Some(Self(id)),
            None => None,
        }
    }
}

impl From<v1::Uint128> for Id {
    fn from(v1::Uint128 { high, low }: v1::Uint128) -> Self {
        Self(u128::from(high) << 64 | u128::from(low))
    }
}

impl From<Id> for v1::Uint128 {
    fn from(Id(id): Id) -> Self {
        Self {
            high: (id >> 64) as u64,
            low: id as u64,
        }
    }
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn high_decides_first() {
        let id = |high, low| Id::from(v1::Uint128 { high, low });
        assert!(id(1, 0) > id(0, u64::MAX));
        assert_eq!(id(0, u64::MAX).next(), Some(id(1, 0)));
        assert_eq!(Id(u128::MAX).next(), None);
        let wire = v1::Uint128::from(id(3, 7));
        assert_eq!((wire.high, wire.low), (3, 7));
    }
}
