//! The five-tuple that names a flow inside its VPC.

use crate::Addr;

/// IANA protocol numbers that Penstock tells apart.
pub mod proto {
    /// ICMP for IPv4.
    pub const ICMP: u8 = 1;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// ICMP for IPv6.
    pub const ICMPV6: u8 = 58;
    /// SCTP.
    pub const SCTP: u8 = 132;
}

/// Inner source, destination, protocol and ports.
///
/// For ICMP and ICMPv6, `sport` is the identifier (0 where the type has none)
/// and `dport` is `type << 8 | code`, literally as in the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tuple {
    /// Source address.
    pub src: Addr,
    /// Destination address.
    pub dst: Addr,
    /// IANA protocol number.
    pub proto: u8,
    /// Source port, or ICMP identifier.
    pub sport: u16,
    /// Destination port, or ICMP `type << 8 | code`.
    pub dport: u16,
}

impl Tuple {
    /// The tuple that a reply carries; `None` for an ICMP message that has no
    /// reply, or is one.
    #[must_use]
    pub const fn reply(&self) -> Option<Self> {
        let (sport, dport) = match (self.proto, self.dport) {
            // Echo (RFC 792, RFC 4443): the identifier stays, the type flips.
            (proto::ICMP, 0x0800) => (self.sport, 0x0000),
            (proto::ICMPV6, 0x8000) => (self.sport, 0x8100),
            (proto::ICMP | proto::ICMPV6, _) => return None,
            _ => (self.dport, self.sport),
        };
        Some(Self {
            src: self.dst,
            dst: self.src,
            proto: self.proto,
            sport,
            dport,
        })
    }

    /// ICMP type and code, where the protocol has them.
    #[must_use]
    pub const fn icmp(&self) -> Option<(u8, u8)> {
        match self.proto {
            proto::ICMP | proto::ICMPV6 => Some(((self.dport >> 8) as u8, self.dport as u8)),
            _ => None,
        }
    }
}
