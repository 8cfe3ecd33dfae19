//! The NIC's match-action tables, in our own words.
//!
//! One set per NIC, of fixed capacity. The controller writes [`Entry`]s through
//! [`Engine::write`](crate::Engine::write); `fence` and `flow` are the engine's
//! own and can only be read.

mod check;
pub(crate) mod driver;
mod entry;
pub(crate) mod exact;
pub(crate) mod flow;
mod mapping;
pub(crate) mod ranked;
pub(crate) mod rows;
pub(crate) mod tables;

pub use entry::{AclAction, AclKey, Entry, FenceKey, FlowAction, FlowEntry, Hop, Range, Ternary};

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
    /// A table that the engine writes itself.
    #[error("{0}: the engine writes this table itself; it can only be read")]
    ReadOnly(Table),
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
