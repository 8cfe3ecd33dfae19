//! Proofs that the tables of NICs do what the model says, and nothing else.
//!
//! It reads the validated model and the rows themselves, as they are to be written or as
//! they were read back, and shares with the compiler nothing that decides. Everything is
//! exact: address spaces are cut into intervals and policies into cells on which every
//! rule is constant, and each is looked at. Nothing is sampled.
//!
//! * [`node`] proves the tables of one node's NICs, without those of others: what each
//!   row may say follows from the model and from where the worker has put its interfaces;
//! * [`reach`] follows packets through the tables of all NICs, from port to port, and
//!   finds which VPCs reach which. It does not ask what rows should say.
//!
//! Two results are kept apart. A [`Violation`] is a row that does what it should not. A
//! [`Gap`] is a row that is missing: something is not forwarded, which is safe. What takes
//! more than [`Limits`] is [`Unproved`], which counts as a failure.
#![forbid(unsafe_code)]

mod acl;
mod cut;
mod facts;
mod finding;
mod judge;
mod lpm;
mod nic;
pub mod offline;
mod reach;
mod row;

use std::collections::BTreeMap;

use penstock_flow::Mac;
use penstock_policies::Ids;
use penstock_policies::model::{Model, NodeName};
use penstock_policies::nic::Interfaces;

pub use finding::{Gap, Packet, Report, Unproved, Violation, Wrong};
pub use judge::{Judged, Verdict, judge};
pub use reach::{Destination, Path, Reach, reach};
pub use row::{Acl, AclAction, Bind, Hop, Row, Table, Ternary};

/// A node's tables, and what its worker has told.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// Where ports and uplinks are.
    pub interfaces: Interfaces,
    /// The MACs of uplinks, by device port.
    pub macs: BTreeMap<u32, Mac>,
    /// Rows were read back: workers have filled in their neighbours' MACs and uplinks.
    pub live: bool,
    /// The rows of each NIC, by device id.
    pub programs: BTreeMap<u32, Vec<Row>>,
}

/// How much a proof may cost.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Cells to look at.
    pub cells: u64,
    /// Violations of one NIC after which no more are told.
    pub violations: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            cells: 4_000_000,
            violations: 32,
        }
    }
}

/// Proves the tables of one node's NICs, or tells what is wrong with them.
#[must_use]
pub fn node(model: &Model, ids: &Ids, node: &NodeName, host: &Host, limits: Limits) -> Report {
    let facts = facts::Facts::new(model, ids);
    let mut report = Report::default();
    nic::node(&facts, node, host, limits, &mut report);
    report
}

/// The same for all nodes.
#[must_use]
pub fn nodes(model: &Model, ids: &Ids, hosts: &BTreeMap<NodeName, Host>, limits: Limits) -> Report {
    let facts = facts::Facts::new(model, ids);
    let mut report = Report::default();
    for (name, host) in hosts {
        nic::node(&facts, name, host, limits, &mut report);
    }
    report
}
