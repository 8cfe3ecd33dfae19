//! From what nodes report to what a resource's status says.
//!
//! Status is computed, never stored: after a restart it fills again as nodes
//! are reached. *Accepted* is what the store holds; *Programmed* is what nodes
//! have confirmed, and only that.

use std::collections::{BTreeMap, HashMap};

use penstock_api::v1::condition::{State, Type};
use penstock_api::v1::{Condition, NicTable, Resource, Status};

use crate::world::Row;

pub mod board;
mod compute;
mod reason;

pub use board::Board;
pub use compute::compute;
pub use reason::Reason;

/// What one node's task knows of its node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Why there is no session with the node; `None` while there is one.
    pub unreachable: Option<Problem>,
    /// The last world of which everything is on the node, `problems` apart.
    pub revision: u64,
    /// Why a newer one is not, when something went wrong.
    pub failure: Option<Problem>,
    /// The policy generation in force.
    pub generation: u64,
    /// What is not on the node though its turn has come, by resource.
    pub problems: BTreeMap<String, Problem>,
    /// What is wrong with its policy, though it is in force.
    pub complaint: Option<String>,
    /// NICs whose underlay takes less than declared.
    pub narrow: Vec<String>,
    /// Entries in NIC tables by resource.
    pub entries: HashMap<String, u64>,
    /// Each declared NIC, by device id.
    pub nics: BTreeMap<u32, Nic>,
    /// Table updates sent since the controller started.
    pub writes: u64,
    /// Entries that had changed behind the controller's back, since it started.
    pub drift: u64,
}

/// What is known of one NIC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nic {
    /// Why its tables are not as they should be.
    pub problem: Option<Problem>,
    /// Why its uplink carries nothing.
    pub uplink: Option<Problem>,
    /// Its tables that should hold something, in pipeline order.
    pub tables: Vec<NicTable>,
}

/// Why something is not programmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// For programs.
    pub reason: Reason,
    /// For people.
    pub message: String,
}

impl Problem {
    /// A reason and its explanation.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
        }
    }
}

/// A resource as answers show it.
pub fn show(row: &Row, status: Option<&Status>) -> Resource {
    let mut resource = row.resource.clone();
    resource.status = Some(status.cloned().unwrap_or_else(|| Status {
        observed_generation: row.generation(),
        conditions: vec![
            accepted(),
            condition(
                Type::Programmed,
                State::Unknown,
                Reason::Pending,
                "no node has reported yet".to_owned(),
            ),
        ],
        nodes: vec![],
    }));
    resource
}

/// A resource as the answer to its declaration shows it: whether nodes carry it
/// is not known yet, and not waited for.
pub fn show_accepted(row: &Row) -> Resource {
    let mut resource = row.resource.clone();
    resource.status = Some(Status {
        observed_generation: row.generation(),
        conditions: vec![accepted()],
        nodes: vec![],
    });
    resource
}

/// What is shown of a deleted resource.
pub fn show_gone(row: &Row) -> Resource {
    Resource {
        name: row.name().to_owned(),
        metadata: row.resource.metadata.clone(),
        ..Resource::default()
    }
}

fn accepted() -> Condition {
    condition(Type::Accepted, State::True, Reason::Accepted, String::new())
}

fn condition(kind: Type, state: State, reason: Reason, message: String) -> Condition {
    Condition {
        r#type: kind.into(),
        state: state.into(),
        reason: reason.name().to_owned(),
        message,
    }
}
