//! What the tables' rows match and what they do.

use penstock_flow::{Addr, Mac, Prefix, Tuple};
use penstock_rules::model::{PortId, Vni};

use super::Table;
use crate::counters::Traffic;

/// Value under mask; a mask of zero matches everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ternary<T> {
    /// Bits outside the mask are zero.
    pub value: T,
    /// Bits that count.
    pub mask: T,
}

impl<T> Ternary<T>
where
    T: Copy + PartialEq + core::ops::BitAnd<Output = T>,
{
    /// Whether `x` is one of its values.
    #[must_use]
    pub fn matches(&self, x: T) -> bool {
        x & self.mask == self.value
    }

    pub(crate) fn is_canonical(&self) -> bool {
        self.value & self.mask == self.value
    }
}

/// A range, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Range {
    /// First value inside.
    pub low: u16,
    /// Last value inside.
    pub high: u16,
}

impl Range {
    /// Everything.
    pub const ANY: Self = Self {
        low: 0,
        high: u16::MAX,
    };

    /// Whether `x` is inside.
    #[must_use]
    pub fn matches(&self, x: u16) -> bool {
        self.low <= x && x <= self.high
    }
}

impl Default for Range {
    fn default() -> Self {
        Self::ANY
    }
}

/// What a static rule says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AclAction {
    /// Denied.
    Drop,
    /// Passes without a connection.
    Allow,
    /// The slow path decides.
    Ask,
}

/// What an `acl` entry matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AclKey {
    /// 0: leaving a port; 1: arriving from the wire.
    pub direction: Ternary<u8>,
    /// VPC.
    pub vni: Ternary<u32>,
    /// The port it left, 0 from the wire.
    pub port_id: Ternary<u32>,
    /// Inner source.
    pub src: Ternary<u128>,
    /// Inner destination.
    pub dst: Ternary<u128>,
    /// IP protocol.
    pub proto: Ternary<u8>,
    /// Source port.
    pub sport: Range,
    /// Destination port, or ICMP type and code.
    pub dport: Range,
}

/// What a `fence` entry matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FenceKey {
    /// VPC.
    pub vni: Ternary<u32>,
    /// The port it left, 0 from the wire.
    pub port_id: Ternary<u32>,
    /// Inner source.
    pub src: Ternary<u128>,
    /// Inner destination.
    pub dst: Ternary<u128>,
    /// IP protocol.
    pub proto: Ternary<u8>,
}

/// Where a next hop leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hop {
    /// A port of this NIC.
    ToPort {
        /// Which.
        device_port: u32,
        /// 802.1Q tag; 0: untagged.
        vlan: u16,
        /// The endpoint's MAC.
        dst_mac: Mac,
    },
    /// Another end of the underlay.
    ToVtep {
        /// Outer source.
        src_vtep: Addr,
        /// Outer destination.
        dst_vtep: Addr,
        /// Outer source MAC.
        src_mac: Mac,
        /// Outer destination MAC; zero: the worker resolves it.
        dst_mac: Mac,
        /// The VNI on the wire.
        vni: Vni,
        /// Bytes of the inner IP packet.
        mtu: u16,
        /// The uplink.
        device_port: u32,
    },
    /// The front-end network, as a plain frame. Refused on write: this engine
    /// takes nothing back from there, so its replies could not be judged.
    ToFrontEnd {
        /// Which device port leads there.
        device_port: u32,
        /// Ethernet source.
        src_mac: Mac,
        /// Ethernet destination.
        dst_mac: Mac,
    },
}

/// What a `flow` entry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowAction {
    /// Sends to this next hop.
    Forward(u32),
    /// Drops.
    Deny,
}

/// A row of the flow table, to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowEntry {
    /// Key: the sending port; 0: the wire.
    pub ingress: PortId,
    /// Key: VPC.
    pub vni: Vni,
    /// Key: the flow.
    pub tuple: Tuple,
    /// What it does.
    pub action: FlowAction,
    /// What it has carried.
    pub hits: Traffic,
    /// Since its last packet, or since it was offered.
    pub idle_ns: u64,
}

/// One row of a table, except `flow`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Exact (device port, VLAN).
    Vport {
        /// Key: the device port.
        device_port: u32,
        /// Key: 802.1Q tag; 0: untagged.
        vlan: u16,
        /// The port it is.
        port_id: PortId,
        /// Its VPC.
        vni: Vni,
    },
    /// Exact (source VTEP, destination VTEP, VNI on the wire).
    Underlay {
        /// Key: outer source.
        src_vtep: Addr,
        /// Key: outer destination.
        dst_vtep: Addr,
        /// Key: VNI on the wire.
        vni: Vni,
        /// The VPC to decapsulate into.
        decap_vni: Vni,
    },
    /// Exact (port, MAC, IP): all key.
    SpoofGuard {
        /// Key: the port.
        port_id: PortId,
        /// Key: a source MAC it may use.
        mac: Mac,
        /// Key: a source address it may use with it.
        ip: Addr,
    },
    /// Ternary with priority: the slow path decides. The engine's own, to read.
    Fence {
        /// Key: the region.
        key: FenceKey,
        /// Key: which of the fences it belongs to; it decides nothing.
        priority: u32,
    },
    /// Ternary and range with priority.
    Acl {
        /// Key: the packets.
        key: AclKey,
        /// Key: 1 or more, high wins.
        priority: u32,
        /// What it says.
        action: AclAction,
    },
    /// Exact VPC, longest prefix of the destination.
    Mapping {
        /// Key: VPC.
        vni: Vni,
        /// Key: destinations.
        dst: Prefix,
        /// The next hop's id.
        nexthop: u32,
    },
    /// Exact id.
    Nexthop {
        /// Key: 1 or more.
        id: u32,
        /// Where it leads.
        hop: Hop,
    },
}

impl Entry {
    /// The table it belongs to.
    #[must_use]
    pub const fn table(&self) -> Table {
        match self {
            Self::Vport { .. } => Table::Vport,
            Self::Underlay { .. } => Table::Underlay,
            Self::SpoofGuard { .. } => Table::SpoofGuard,
            Self::Fence { .. } => Table::Fence,
            Self::Acl { .. } => Table::Acl,
            Self::Mapping { .. } => Table::Mapping,
            Self::Nexthop { .. } => Table::Nexthop,
        }
    }
}
