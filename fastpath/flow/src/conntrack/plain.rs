//! Protocols without states of their own: UDP, ICMP, and what is not known.

use super::{Direction, Verdict};
use crate::packet::{Ip, L4};
use crate::tuple::proto;

/// Which timeouts apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// UDP.
    Udp,
    /// ICMP and ICMPv6, except errors, which belong to other connections.
    Icmp,
    /// Any other protocol.
    Other,
}

/// A connection that is known by its packets alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain {
    /// Which timeouts apply.
    pub class: Class,
    /// Both directions have been seen.
    pub replied: bool,
}

impl Plain {
    /// From the first packet; `None` if it cannot open a connection: an echo
    /// reply, an error, a fragment, a control message.
    #[must_use]
    pub const fn open(ip: &Ip) -> Option<Self> {
        let class = match (ip.l4_kind, ip.tuple.proto) {
            (L4::Echo, _) if ip.tuple.reply().is_none() => return None,
            (L4::Echo, _) | (L4::Other, proto::ICMP | proto::ICMPV6) => Class::Icmp,
            (L4::Udp | L4::Dhcp(_), _) => Class::Udp,
            (L4::Other, _) => Class::Other,
            (L4::Tcp(_) | L4::IcmpError(_) | L4::Neighbour(_) | L4::Fragment(_), _) => return None,
        };
        Some(Self {
            class,
            replied: false,
        })
    }

    /// One more packet.
    pub const fn packet(&mut self, direction: Direction) -> Verdict {
        if matches!(direction, Direction::Reply) {
            self.replied = true;
        }
        Verdict::Pass
    }
}
