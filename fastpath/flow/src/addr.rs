//! Addresses as the data plane carries them: one width for both families.
//!
//! An IPv4 address is its IPv4-mapped IPv6 form (RFC 4291, section 2.5.5.2), so
//! that every table has one key layout and no family tag. A mapped address
//! never appears inside a real IPv6 header: the parser drops such packets, so
//! the two families cannot meet in a table.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An IPv4 or IPv6 address, normalised to 128 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Addr(pub u128);

const MAPPED: u128 = 0xffff_0000_0000;

impl Addr {
    /// Whether this is a (mapped) IPv4 address.
    #[must_use]
    pub const fn is_v4(self) -> bool {
        self.0 >> 32 == 0xffff
    }

    /// From the four bytes of an IPv4 header field.
    #[must_use]
    pub const fn from_v4(octets: [u8; 4]) -> Self {
        Self(MAPPED | u32::from_be_bytes(octets) as u128)
    }

    /// From the sixteen bytes of an IPv6 header field, or of the wire schema.
    #[must_use]
    pub const fn from_octets(octets: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(octets))
    }

    /// Sixteen bytes in network order.
    #[must_use]
    pub const fn octets(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// The four bytes of a mapped IPv4 address; `None` for IPv6.
    #[must_use]
    pub const fn v4_octets(self) -> Option<[u8; 4]> {
        if self.is_v4() {
            Some((self.0 as u32).to_be_bytes())
        } else {
            None
        }
    }

    /// As people write it.
    #[must_use]
    pub const fn to_ip(self) -> IpAddr {
        if self.is_v4() {
            IpAddr::V4(Ipv4Addr::from_bits(self.0 as u32))
        } else {
            IpAddr::V6(Ipv6Addr::from_bits(self.0))
        }
    }

    /// Multicast in its own family (224.0.0.0/4, ff00::/8).
    #[must_use]
    pub const fn is_multicast(self) -> bool {
        if self.is_v4() {
            (self.0 as u32) >> 28 == 0xe
        } else {
            self.0 >> 120 == 0xff
        }
    }
}

impl From<IpAddr> for Addr {
    fn from(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(ip) => Self::from_v4(ip.octets()),
            IpAddr::V6(ip) => Self(ip.to_bits()),
        }
    }
}

impl fmt::Display for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_ip().fmt(f)
    }
}

impl fmt::Debug for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A prefix of normalised addresses: an IPv4 length has 96 added.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    addr: Addr,
    len: u8,
}

impl Prefix {
    /// `None` if `len` exceeds 128 or `addr` has bits beyond it.
    #[must_use]
    pub const fn new(addr: Addr, len: u8) -> Option<Self> {
        if len > 128 || addr.0 & !mask(len) != 0 {
            return None;
        }
        Some(Self { addr, len })
    }

    /// The prefix's first address.
    #[must_use]
    pub const fn addr(self) -> Addr {
        self.addr
    }

    /// Length in the normalised space, 0 to 128.
    #[must_use]
    #[expect(
        clippy::len_without_is_empty,
        reason = "the length of a prefix, not of a container"
    )]
    pub const fn len(self) -> u8 {
        self.len
    }

    /// Whether this is a prefix of (mapped) IPv4 addresses.
    #[must_use]
    pub const fn is_v4(self) -> bool {
        self.addr.is_v4() && self.len >= 96
    }

    /// Whether `addr` lies inside. A prefix speaks of its own family: `::/0`
    /// holds no IPv4 address, though the mapped ones lie in its range.
    #[must_use]
    pub const fn contains(self, addr: Addr) -> bool {
        addr.0 & mask(self.len) == self.addr.0 && addr.is_v4() == self.is_v4()
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let len = if self.is_v4() {
            self.len - 96
        } else {
            self.len
        };
        write!(f, "{}/{len}", self.addr)
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The network mask of a normalised length.
const fn mask(len: u8) -> u128 {
    if len == 0 {
        0
    } else {
        u128::MAX << (128 - len as u32)
    }
}

/// An Ethernet address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// The distributed gateway's address, the same on every node, so that a
    /// workload may move without noticing. Locally administered.
    pub const GATEWAY: Self = Self([0x02, 0x00, 0x5e, 0x00, 0x00, 0x01]);
    /// ff:ff:ff:ff:ff:ff
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// Broadcast counts as multicast (IEEE 802.3, the group bit).
    #[must_use]
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 == 1
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_share_one_width_and_print_as_themselves() {
        let v4: Addr = IpAddr::from([10, 0, 0, 1]).into();
        assert!(v4.is_v4());
        assert_eq!(alloc::format!("{v4}"), "10.0.0.1");
        assert_eq!(v4.v4_octets(), Some([10, 0, 0, 1]));
        let v6: Addr = "fd00::1".parse::<IpAddr>().expect("an address").into();
        assert!(!v6.is_v4());
        assert_eq!(Addr::from_octets(v6.octets()), v6);
    }

    #[test]
    fn a_prefix_refuses_host_bits_and_contains_its_own() {
        let net = Addr::from_v4([10, 0, 0, 0]);
        let p = Prefix::new(net, 96 + 24).expect("a prefix");
        assert_eq!(alloc::format!("{p}"), "10.0.0.0/24");
        assert!(p.contains(Addr::from_v4([10, 0, 0, 255])));
        assert!(!p.contains(Addr::from_v4([10, 0, 1, 0])));
        assert_eq!(Prefix::new(Addr::from_v4([10, 0, 0, 1]), 120), None);
        assert_eq!(Prefix::new(net, 129), None);
        let all_v6 = Prefix::new(Addr(0), 0).expect("a prefix");
        assert!(all_v6.contains(Addr(0xfd00 << 112)));
        assert!(!all_v6.contains(net));
    }
}
