//! From what nodes report to what a resource's status says.
//!
//! Status is computed, never stored: after a restart it fills again as nodes
//! are reached. *Accepted* is what the store holds; *Programmed* is what nodes
//! have confirmed, and only that.

use std::collections::{BTreeMap, HashMap};

use penstock_api::v1::condition::{State, Type};
use penstock_api::v1::{Condition, NodeStatus, Resource, Status};

use crate::plan::Plan;
use crate::world::{Row, World};

pub mod board;

pub use board::Board;

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
    /// Entries in NIC tables by resource.
    pub entries: HashMap<String, u64>,
    /// Table updates sent since the controller started.
    pub writes: u64,
    /// Entries that had changed behind the controller's back, since it started.
    pub drift: u64,
}

/// Why something is not programmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// CamelCase, for programs.
    pub reason: &'static str,
    /// For people.
    pub message: String,
}

impl Problem {
    /// A reason and its explanation.
    pub fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
        }
    }
}

/// The reason that also means "not resolved".
pub const ATTACHMENT_NOT_FOUND: &str = "AttachmentNotFound";
/// There is no session, whatever the node may carry.
pub const UNREACHABLE: &str = "NodeUnreachable";
/// Another controller has the node.
pub const NOT_PRIMARY: &str = "NotPrimary";
const PENDING: &str = "Pending";

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
                PENDING,
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

/// The status of every resource.
pub fn compute(
    world: &World,
    plan: &Plan,
    reports: &HashMap<String, Report>,
) -> Vec<(String, Status)> {
    let mut by_resource: HashMap<&str, Vec<(&str, Option<&Report>)>> = HashMap::new();
    for (node, target) in &plan.nodes {
        let report = reports.get(node);
        for name in target.resources.iter().chain([node]) {
            by_resource.entry(name).or_default().push((node, report));
        }
    }
    world
        .rows
        .values()
        .map(|row| {
            let nodes = by_resource.remove(row.name()).unwrap_or_default();
            (row.name().to_owned(), status(row, plan, &nodes))
        })
        .collect()
}

fn status(row: &Row, plan: &Plan, nodes: &[(&str, Option<&Report>)]) -> Status {
    let mut shown = Vec::with_capacity(nodes.len());
    let mut first_problem: Option<(&str, Problem)> = None;
    let mut unresolved = None;
    let mut only_unknown = true;
    for (node, report) in nodes {
        let problem = problem_on(row, plan, *report);
        let report = report.cloned().unwrap_or_default();
        shown.push(NodeStatus {
            node: (*node).to_owned(),
            programmed: problem.is_none(),
            reason: problem
                .as_ref()
                .map(|problem| problem.message.clone())
                .unwrap_or_default(),
            nic_entries: if *node == row.name() {
                report.entries.values().sum()
            } else {
                report.entries.get(row.name()).copied().unwrap_or(0)
            },
            generation: report.generation,
        });
        if let Some(problem) = problem {
            if problem.reason == ATTACHMENT_NOT_FOUND {
                unresolved = Some(problem.clone());
            }
            let unknown = [UNREACHABLE, NOT_PRIMARY, PENDING].contains(&problem.reason);
            // What is known to be wrong is more interesting than what is not known.
            if first_problem.is_none() || (only_unknown && !unknown) {
                first_problem = Some((node, problem));
            }
            only_unknown &= unknown;
        }
    }
    let resolved = match unresolved {
        None => condition(Type::Resolved, State::True, "Resolved", String::new()),
        Some(problem) => condition(
            Type::Resolved,
            State::False,
            problem.reason,
            problem.message,
        ),
    };
    let total = shown.len();
    let done = shown.iter().filter(|node| node.programmed).count();
    let programmed = match first_problem {
        // Which nodes it concerns is not known yet.
        _ if plan.revision < row.revision => condition(
            Type::Programmed,
            State::Unknown,
            PENDING,
            "it is not compiled yet".to_owned(),
        ),
        None if total == 0 => condition(
            Type::Programmed,
            State::True,
            "NotNeeded",
            "no node needs it".to_owned(),
        ),
        None => condition(
            Type::Programmed,
            State::True,
            "Programmed",
            summary(row, nodes, total),
        ),
        Some((node, problem)) => condition(
            Type::Programmed,
            if only_unknown {
                State::Unknown
            } else {
                State::False
            },
            problem.reason,
            format!("{done} of {total} nodes; {node}: {}", problem.message),
        ),
    };
    Status {
        observed_generation: row.generation(),
        conditions: vec![accepted(), resolved, programmed],
        nodes: shown,
    }
}

fn summary(row: &Row, nodes: &[(&str, Option<&Report>)], total: usize) -> String {
    match nodes {
        [(node, Some(report))] if *node == row.name() => format!(
            "{} table updates and {} repairs of drift since the controller started",
            report.writes, report.drift
        ),
        _ => format!("{total} of {total} nodes"),
    }
}

fn problem_on(row: &Row, plan: &Plan, report: Option<&Report>) -> Option<Problem> {
    let Some(report) = report else {
        return Some(Problem::new(PENDING, "not contacted yet"));
    };
    if let Some(error) = &report.unreachable {
        return Some(error.clone());
    }
    if let Some(problem) = report.problems.get(row.name()) {
        return Some(problem.clone());
    }
    // A node's own status covers everything that it should carry.
    let is_node = plan.nodes.contains_key(row.name());
    let wanted = if is_node {
        plan.revision.max(row.revision)
    } else {
        row.revision
    };
    if let (true, Some(failure)) = (is_node, &report.failure) {
        return Some(failure.clone());
    }
    if report.revision < wanted {
        return Some(report.failure.clone().unwrap_or_else(|| {
            Problem::new(
                PENDING,
                format!("revision {} of {wanted} is there", report.revision),
            )
        }));
    }
    match (is_node, report.problems.iter().next()) {
        (true, Some((name, problem))) => Some(Problem::new(
            problem.reason,
            format!(
                "{} resources are not programmed, {name} among them: {}",
                report.problems.len(),
                problem.message
            ),
        )),
        _ => None,
    }
}

fn accepted() -> Condition {
    condition(Type::Accepted, State::True, "Accepted", String::new())
}

fn condition(kind: Type, state: State, reason: &str, message: String) -> Condition {
    Condition {
        r#type: kind.into(),
        state: state.into(),
        reason: reason.to_owned(),
        message,
    }
}
