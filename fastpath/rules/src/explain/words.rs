//! Packets, protocols and ports as people write them.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

use penstock_flow::Addr;
use penstock_flow::tuple::proto;

use crate::model::Direction;
use crate::query::Query;
use crate::service::ROCE_PORT;

/// A query as one reads a packet.
pub(super) struct Packet<'a>(pub(super) &'a Query);

impl Packet<'_> {
    pub(super) fn what(&self) -> String {
        let Query { proto, dport, .. } = *self.0;
        match proto {
            proto::ICMP | proto::ICMPV6 => {
                format!(
                    "{} type {} code {}",
                    Protocol(proto),
                    dport >> 8,
                    dport & 0xff
                )
            }
            proto::UDP if dport == ROCE_PORT => "RoCEv2".to_string(),
            proto::TCP | proto::UDP | proto::SCTP => {
                format!("{} to port {dport}", Protocol(proto))
            }
            _ => Protocol(proto).to_string(),
        }
    }
}

impl fmt::Display for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let peer: Addr = self.0.peer;
        let way = match self.0.direction {
            Direction::Ingress => "from",
            Direction::Egress => "towards",
        };
        write!(f, "{} {way} {peer}", self.what())
    }
}

/// A protocol by its name.
pub(super) struct Protocol(pub(super) u8);

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            proto::TCP => f.write_str("TCP"),
            proto::UDP => f.write_str("UDP"),
            proto::SCTP => f.write_str("SCTP"),
            proto::ICMP => f.write_str("ICMP"),
            proto::ICMPV6 => f.write_str("ICMPv6"),
            other => write!(f, "protocol {other}"),
        }
    }
}

/// Ports, both ends included.
pub(super) struct Range(pub(super) (u16, u16));

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = self.0;
        if first == last {
            write!(f, "{first}")
        } else {
            write!(f, "{first}-{last}")
        }
    }
}
