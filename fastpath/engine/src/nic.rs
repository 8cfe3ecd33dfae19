//! The NIC's match-action tables, in our own words.
//!
//! One set per NIC, of fixed capacity. The controller writes [`Entry`]s through
//! [`Engine::write`](crate::Engine::write); the flow table is the engine's own
//! and can only be read.

mod check;
pub(crate) mod exact;
pub(crate) mod flow;
mod mapping;
pub(crate) mod ranked;
pub(crate) mod tables;

use penstock_flow::{Addr, Mac, Prefix, Tuple};
use penstock_rules::model::{PortId, Vni};

use crate::counters::Traffic;

/// A table's name, as in the P4 program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// Device port and VLAN to port id.
    Vport,
    /// Known tunnels.
    Underlay,
    /// A port's own addresses.
    SpoofGuard,
    /// Regions under change.
    Fence,
    /// Queue pairs.
    RdmaQp,
    /// Address pairs for RDMA.
    RdmaPair,
    /// Connections.
    Flow,
    /// Static rules.
    Acl,
    /// Destinations.
    Mapping,
    /// Next hops.
    Nexthop,
}

impl Table {
    /// All of them, in pipeline order.
    pub const ALL: [Self; 10] = [
        Self::Vport,
        Self::Underlay,
        Self::SpoofGuard,
        Self::Fence,
        Self::RdmaQp,
        Self::RdmaPair,
        Self::Flow,
        Self::Acl,
        Self::Mapping,
        Self::Nexthop,
    ];

    /// The P4 program's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vport => "vport",
            Self::Underlay => "underlay",
            Self::SpoofGuard => "spoof_guard",
            Self::Fence => "fence",
            Self::RdmaQp => "rdma_qp",
            Self::RdmaPair => "rdma_pair",
            Self::Flow => "flow",
            Self::Acl => "acl",
            Self::Mapping => "mapping",
            Self::Nexthop => "nexthop",
        }
    }
}

impl core::fmt::Display for Table {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

/// Entries that each table takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "one per table, named like it")]
pub struct Capacities {
    pub vport: u32,
    pub underlay: u32,
    pub spoof_guard: u32,
    pub fence: u32,
    pub rdma_qp: u32,
    pub rdma_pair: u32,
    pub flow: u32,
    pub acl: u32,
    pub mapping: u32,
    pub nexthop: u32,
}

impl Default for Capacities {
    /// Room for a node of a large cluster. The RDMA tables have none: the soft
    /// NIC carries RoCE as UDP.
    fn default() -> Self {
        Self {
            vport: 1024,
            underlay: 16_384,
            spoof_guard: 4096,
            fence: 64,
            rdma_qp: 0,
            rdma_pair: 0,
            flow: 1 << 17,
            acl: 512,
            mapping: 65_536,
            nexthop: 16_384,
        }
    }
}

impl Capacities {
    /// That of one table.
    #[must_use]
    pub const fn of(&self, table: Table) -> u32 {
        match table {
            Table::Vport => self.vport,
            Table::Underlay => self.underlay,
            Table::SpoofGuard => self.spoof_guard,
            Table::Fence => self.fence,
            Table::RdmaQp => self.rdma_qp,
            Table::RdmaPair => self.rdma_pair,
            Table::Flow => self.flow,
            Table::Acl => self.acl,
            Table::Mapping => self.mapping,
            Table::Nexthop => self.nexthop,
        }
    }
}

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

/// What a fence says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceAction {
    /// The slow path decides.
    Ask,
    /// Nothing passes.
    Drop,
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
    /// Since its last packet, or since it was installed.
    pub idle_ns: u64,
    /// Of the policy that allows it.
    pub generation: u64,
}

/// One row of a table that is written from outside.
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
    /// Ternary with priority.
    Fence {
        /// Key: the region.
        key: FenceKey,
        /// Key: 1 or more, high wins.
        priority: u32,
        /// What it says.
        action: FenceAction,
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

/// What to do with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Add; the key must be new.
    Insert,
    /// Change the action; the key must be there.
    Modify,
    /// Remove; only the key counts, and it must be there.
    Delete,
}

/// One write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update {
    /// What to do.
    pub op: Op,
    /// With which entry.
    pub entry: Entry,
}

/// Why a write was refused. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// No NIC has this device id.
    #[error("no NIC has device_id {0}; attach it first")]
    UnknownDevice(u32),
    /// Insert of a key that is there.
    #[error("{0}: an entry with this key exists; modify it")]
    Exists(Table),
    /// Modify or delete of a key that is not there.
    #[error("{0}: no entry has this key; insert it")]
    Missing(Table),
    /// The table has no room.
    #[error("{table}: all {capacity} entries are used; delete some")]
    Full {
        /// Which table.
        table: Table,
        /// What it takes.
        capacity: u32,
    },
    /// A field cannot have this value.
    #[error("{table}: {field} is {value}; {remedy}")]
    Invalid {
        /// Which table.
        table: Table,
        /// Which field, as in the P4 program.
        field: &'static str,
        /// Its value.
        value: u64,
        /// What it must be.
        remedy: &'static str,
    },
}
