//! A part of the traffic.

use penstock_flow::Prefix;

use crate::model::{Direction, PortId, Vni};
use crate::query::Query;

/// A part of the traffic, no finer than a NIC's fence can match it: its table
/// knows no ports of TCP and no group. `None` stands for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Region {
    /// The VPC.
    pub vni: Option<Vni>,
    /// The port of this node whose verdict it is.
    pub port: Option<PortId>,
    /// As seen from the port: which side opens the connection. Its replies run
    /// the other way and belong to it.
    pub direction: Option<Direction>,
    /// IANA number.
    pub protocol: Option<u8>,
    /// The other end.
    pub peer: Option<Prefix>,
}

impl Region {
    /// All traffic.
    pub const EVERYTHING: Self = Self {
        vni: None,
        port: None,
        direction: None,
        protocol: None,
        peer: None,
    };

    /// Whether the connections of `query`, asked of a port of the VPC `vni`,
    /// lie inside.
    #[must_use]
    pub fn contains(&self, vni: Vni, query: &Query) -> bool {
        self.vni.is_none_or(|v| v == vni)
            && self.port.is_none_or(|p| p == query.port)
            && self.direction.is_none_or(|d| d == query.direction)
            && self.protocol.is_none_or(|p| p == query.proto)
            && self.peer.is_none_or(|p| p.contains(query.peer))
    }

    /// Whether all of `other` lies inside.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        all_or(self.vni, other.vni)
            && all_or(self.port, other.port)
            && all_or(self.direction, other.direction)
            && all_or(self.protocol, other.protocol)
            && self.peer.is_none_or(|outer| {
                other.peer.is_some_and(|inner| {
                    outer.len() <= inner.len()
                        && outer.is_v4() == inner.is_v4()
                        && outer.contains(inner.addr())
                })
            })
    }
}

fn all_or<T: PartialEq>(outer: Option<T>, inner: Option<T>) -> bool {
    outer.is_none() || outer == inner
}
