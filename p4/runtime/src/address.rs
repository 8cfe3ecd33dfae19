//! Addresses as the tables hold them: 128 bits, IPv4 as `::ffff:a.b.c.d`.

use std::net::{IpAddr, Ipv6Addr};

use crate::{Lpm, Ternary};

/// How much longer an IPv4 prefix is in 128-bit form.
const MAPPED: u32 = 96;

/// The 128-bit form.
///
/// ```
/// use p4runtime::address;
/// let address = "10.0.0.1".parse().unwrap();
/// assert_eq!(address::key(address), 0xffff_0a00_0001);
/// assert_eq!(address::from_key(0xffff_0a00_0001), address);
/// ```
#[must_use]
pub fn key(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// Back from the 128-bit form.
#[must_use]
pub fn from_key(key: u128) -> IpAddr {
    Ipv6Addr::from_bits(key).to_canonical()
}

/// A prefix, its length counted in the address's own family. `None` if it is
/// longer than the address.
#[must_use]
pub fn prefix(address: IpAddr, prefix_len: u32) -> Option<Lpm<u128>> {
    Lpm::new(key(address), length(address, prefix_len)?)
}

/// The same for a ternary field.
#[must_use]
pub fn ternary(address: IpAddr, prefix_len: u32) -> Option<Ternary<u128>> {
    Ternary::prefix(key(address), length(address, prefix_len)?)
}

fn length(address: IpAddr, prefix_len: u32) -> Option<u32> {
    let (own, more) = match address {
        IpAddr::V4(_) => (32, MAPPED),
        IpAddr::V6(_) => (128, 0),
    };
    (prefix_len <= own).then_some(prefix_len + more)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv4_prefixes_match_no_ipv6() {
        let v4 = |text: &str| text.parse::<IpAddr>().unwrap();
        let all = prefix(v4("0.0.0.0"), 0).unwrap();
        assert_eq!(all.prefix_len(), 96);
        assert!(all.matches(key(v4("192.0.2.1"))));
        assert!(!all.matches(key(v4("2001:db8::1"))));
        assert!(prefix(v4("::"), 0).unwrap().matches(key(v4("10.0.0.1"))));
        assert_eq!(prefix(v4("10.0.0.0"), 33), None);
        assert_eq!(ternary(v4("::1"), 129), None);
    }
}
