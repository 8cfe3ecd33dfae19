//! Values of P4 fields: unsigned integers of a fixed number of bits.

use std::fmt;
use std::hash::Hash;

/// A value that fits its P4 field by construction.
pub trait Field: Copy + Ord + Hash + fmt::Debug {
    /// Number of bits.
    const WIDTH: u32;

    /// No bit set.
    const ZERO: Self;

    /// All bits set.
    const ONES: Self;

    /// The value, right-aligned.
    fn to_u128(self) -> u128;

    /// The value, unless it has more than [`Self::WIDTH`] bits.
    fn from_u128(value: u128) -> Option<Self>;

    /// The bits that both have.
    #[must_use]
    fn and(self, other: Self) -> Self;
}

macro_rules! whole {
    ($($ty:ty)*) => {$(
        impl Field for $ty {
            const WIDTH: u32 = <$ty>::BITS;
            const ZERO: Self = 0;
            const ONES: Self = <$ty>::MAX;

            fn to_u128(self) -> u128 {
                self.into()
            }

            fn from_u128(value: u128) -> Option<Self> {
                value.try_into().ok()
            }

            fn and(self, other: Self) -> Self {
                self & other
            }
        }
    )*};
}

whole!(u8 u16 u32 u64 u128);

macro_rules! odd {
    ($(#[$doc:meta])* $name:ident, $inner:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name<const W: u32>($inner);

        impl<const W: u32> $name<W> {
            /// The largest value: all bits set.
            pub const MAX: Self = Self(<$inner>::MAX >> (<$inner>::BITS - W));

            /// The value, unless it has more than `W` bits.
            #[must_use]
            pub const fn new(value: $inner) -> Option<Self> {
                if value <= Self::MAX.0 {
                    Some(Self(value))
                } else {
                    None
                }
            }

            /// The lowest `W` bits of a value.
            #[must_use]
            pub const fn truncate(value: $inner) -> Self {
                Self(value & Self::MAX.0)
            }

            /// The value.
            #[must_use]
            pub const fn get(self) -> $inner {
                self.0
            }
        }

        impl<const W: u32> Field for $name<W> {
            const WIDTH: u32 = W;
            const ZERO: Self = Self(0);
            const ONES: Self = Self::MAX;

            fn to_u128(self) -> u128 {
                self.0.into()
            }

            fn from_u128(value: u128) -> Option<Self> {
                <$inner>::try_from(value).ok().and_then(Self::new)
            }

            fn and(self, other: Self) -> Self {
                Self(self.0 & other.0)
            }
        }

        impl<const W: u32> From<$name<W>> for $inner {
            fn from(value: $name<W>) -> Self {
                value.0
            }
        }

        impl<const W: u32> fmt::Debug for $name<W> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }

        impl<const W: u32> fmt::Display for $name<W> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

odd!(
    /// An integer of `W` bits, fewer than 64: a VNI, a VLAN id, a MAC address.
    Bits,
    u64
);
odd!(
    /// An integer of `W` bits, 65 to 127.
    Wide,
    u128
);

impl From<u8> for Bits<24> {
    fn from(value: u8) -> Self {
        Self(value.into())
    }
}

impl From<u16> for Bits<24> {
    fn from(value: u16) -> Self {
        Self(value.into())
    }
}

impl From<u8> for Bits<12> {
    fn from(value: u8) -> Self {
        Self(value.into())
    }
}

impl From<bool> for Bits<1> {
    fn from(value: bool) -> Self {
        Self(value.into())
    }
}

/// A MAC address as it stands on the wire.
impl From<[u8; 6]> for Bits<48> {
    fn from(mac: [u8; 6]) -> Self {
        let [a, b, c, d, e, f] = mac;
        Self(u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
    }
}

/// A MAC address as it stands on the wire.
impl From<Bits<48>> for [u8; 6] {
    fn from(value: Bits<48>) -> Self {
        let [_, _, a, b, c, d, e, f] = value.0.to_be_bytes();
        [a, b, c, d, e, f]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_widths_hold_what_fits() {
        assert_eq!(Bits::<12>::new(4095).map(Bits::get), Some(4095));
        assert_eq!(Bits::<12>::new(4096), None);
        assert_eq!(Bits::<12>::truncate(0xf_123).get(), 0x123);
        assert_eq!(Bits::<1>::MAX.get(), 1);
        assert_eq!(Wide::<112>::MAX.get(), (1 << 112) - 1);
        assert_eq!(Bits::<24>::from_u128(1 << 24), None);
    }

    #[test]
    fn mac_addresses_keep_their_order() {
        let mac = [0x02, 0x00, 0x5e, 0x00, 0x00, 0x01];
        assert_eq!(Bits::<48>::from(mac).get(), 0x0200_5e00_0001);
        assert_eq!(<[u8; 6]>::from(Bits::<48>::from(mac)), mac);
    }
}
