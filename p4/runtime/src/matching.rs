//! Match values of key fields, always in canonical form: two values that match
//! the same packets in the same way are equal.

use std::fmt;

use crate::Field;

/// A value and how many of its leading bits count.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lpm<T> {
    value: T,
    prefix_len: u32,
}

impl<T: Field> Lpm<T> {
    /// The prefix; bits behind it are cleared. `None` if it is longer than the
    /// field.
    #[must_use]
    pub fn new(value: T, prefix_len: u32) -> Option<Self> {
        let value = value.and(prefix_mask(prefix_len)?);
        Some(Self { value, prefix_len })
    }

    /// This value only.
    #[must_use]
    pub fn exact(value: T) -> Self {
        Self {
            value,
            prefix_len: T::WIDTH,
        }
    }

    /// The value; bits behind the prefix are zero.
    #[must_use]
    pub fn value(self) -> T {
        self.value
    }

    /// How many leading bits count; 0 matches everything.
    #[must_use]
    pub fn prefix_len(self) -> u32 {
        self.prefix_len
    }

    /// Whether a packet's value matches.
    #[must_use]
    pub fn matches(self, value: T) -> bool {
        Self::new(value, self.prefix_len) == Some(self)
    }
}

impl<T: fmt::Debug> fmt::Debug for Lpm<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x?}/{}", self.value, self.prefix_len)
    }
}

/// A value and which of its bits count.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ternary<T> {
    value: T,
    mask: T,
}

impl<T: Field> Ternary<T> {
    /// Bits outside the mask are cleared.
    #[must_use]
    pub fn new(value: T, mask: T) -> Self {
        let value = value.and(mask);
        Self { value, mask }
    }

    /// Everything.
    ///
    /// ```
    /// use p4runtime::Ternary;
    /// assert!(Ternary::<u32>::any().matches(7));
    /// ```
    #[must_use]
    pub fn any() -> Self {
        Self::new(T::ZERO, T::ZERO)
    }

    /// This value only.
    #[must_use]
    pub fn exact(value: T) -> Self {
        Self::new(value, T::ONES)
    }

    /// Values that begin like this one. `None` if the prefix is longer than the
    /// field.
    #[must_use]
    pub fn prefix(value: T, prefix_len: u32) -> Option<Self> {
        Some(Self::new(value, prefix_mask(prefix_len)?))
    }

    /// The value; bits outside the mask are zero.
    #[must_use]
    pub fn value(self) -> T {
        self.value
    }

    /// Which bits count; 0 matches everything.
    #[must_use]
    pub fn mask(self) -> T {
        self.mask
    }

    /// Whether a packet's value matches.
    #[must_use]
    pub fn matches(self, value: T) -> bool {
        value.and(self.mask) == self.value
    }
}

impl<T: fmt::Debug> fmt::Debug for Ternary<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x?}&{:x?}", self.value, self.mask)
    }
}

/// All values from `low` to `high`, both included.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Range<T> {
    low: T,
    high: T,
}

impl<T: Field> Range<T> {
    /// The range. `None` if it is empty.
    #[must_use]
    pub fn new(low: T, high: T) -> Option<Self> {
        (low <= high).then_some(Self { low, high })
    }

    /// Everything.
    #[must_use]
    pub fn any() -> Self {
        Self {
            low: T::ZERO,
            high: T::ONES,
        }
    }

    /// This value only.
    #[must_use]
    pub fn exact(value: T) -> Self {
        Self {
            low: value,
            high: value,
        }
    }

    /// The smallest value.
    #[must_use]
    pub fn low(self) -> T {
        self.low
    }

    /// The largest value.
    #[must_use]
    pub fn high(self) -> T {
        self.high
    }

    /// Whether a packet's value matches.
    #[must_use]
    pub fn matches(self, value: T) -> bool {
        self.low <= value && value <= self.high
    }

    /// Whether every value matches.
    #[must_use]
    pub fn is_any(self) -> bool {
        self == Self::any()
    }
}

impl<T: fmt::Debug> fmt::Debug for Range<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}..={:?}", self.low, self.high)
    }
}

/// `None` if the prefix is longer than the field.
fn prefix_mask<T: Field>(prefix_len: u32) -> Option<T> {
    let free = T::WIDTH.checked_sub(prefix_len)?;
    let leading = u128::MAX.checked_shl(free).unwrap_or(0);
    T::from_u128(T::ONES.to_u128() & leading)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bits;

    #[test]
    fn values_are_canonical() {
        let prefix = |value, len| Lpm::new(value, len).unwrap();
        assert_eq!(prefix(0x1234_u16, 8), prefix(0x12ff, 8));
        assert_eq!(prefix(0x1234_u16, 0), prefix(0, 0));
        assert_eq!(prefix(7, 16), Lpm::exact(7));
        assert_eq!(Lpm::new(0_u16, 17), None);
        assert_eq!(Ternary::new(0x12_u8, 0xf0), Ternary::new(0x1f, 0xf0));
        assert_eq!(Ternary::prefix(7_u32, 0), Some(Ternary::any()));
        assert_eq!(Ternary::prefix(7_u32, 32), Some(Ternary::exact(7)));
        assert_eq!(Range::new(5_u16, 4), None);
        assert!(Range::<u16>::any().is_any());
    }

    #[test]
    fn matching_is_what_it_says() {
        let net = Lpm::new(0x0a00_0000_u32, 8).unwrap();
        assert!(net.matches(0x0aff_ffff) && !net.matches(0x0b00_0000));
        let odd = Ternary::new(Bits::<24>::MAX, Bits::from(1_u8));
        assert!(odd.matches(Bits::from(3_u8)) && !odd.matches(Bits::from(2_u8)));
        let range = Range::new(10_u16, 20).unwrap();
        assert!(range.matches(10) && range.matches(20) && !range.matches(21));
    }
}
