//! Roles: which client writes which table.

use crate::pipeline::Table;

/// Holds everything that no other role owns; may not write the worker's tables.
pub const DEFAULT: &str = "";

/// The controller.
pub const CONTROLLER: &str = "penstock.controller";

/// The worker itself. No client can take it.
pub const WORKER: &str = "penstock.worker";

/// Who writes a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// The controller only.
    Controller,
    /// The worker only: read-only to every client.
    Worker,
    /// Both: an entry belongs to whoever wrote it.
    Shared,
}

/// Who writes this table.
#[must_use]
pub const fn owner(table: Table) -> Owner {
    match table {
        Table::Vport | Table::Underlay | Table::SpoofGuard | Table::Acl | Table::Mapping => {
            Owner::Controller
        }
        Table::Fence | Table::RdmaQp | Table::RdmaPair | Table::Flow | Table::Drops => {
            Owner::Worker
        }
        // Neighbours on the underlay are the worker's.
        Table::Nexthop => Owner::Shared,
    }
}

/// Whether a client, in whatever role, may write this table.
#[must_use]
pub const fn client_may_write(table: Table) -> bool {
    !matches!(owner(table), Owner::Worker)
}
