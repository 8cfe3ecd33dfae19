//! From reports to statuses.

use std::collections::HashMap;

use penstock_api::v1::condition::{State, Type};
use penstock_api::v1::resource::Spec;
use penstock_api::v1::{NicStatus, NodeStatus, Status};

use super::{Problem, Reason, Report, accepted, condition};
use crate::plan::{Plan, vpc_of};
use crate::world::{Kind, Row, World};

mod trouble;

use trouble::{degraded, peering, unresolved};

/// Nodes that a status lists: a port's own and those with problems first. The
/// condition counts all of them.
const MOST_NODES: usize = 16;

/// The status of every resource.
pub fn compute(
    world: &World,
    plan: &Plan,
    reports: &HashMap<String, Report>,
) -> Vec<(String, Status)> {
    let views: Vec<View<'_>> = plan
        .nodes
        .keys()
        .map(|name| View {
            name,
            report: reports.get(name),
        })
        .collect();
    // Nodes that carry a VPC, and with them those that know it as a peer of another.
    let mut by_vpc: HashMap<&str, Vec<View<'_>>> = HashMap::new();
    let mut around: HashMap<&str, Vec<View<'_>>> = HashMap::new();
    for (view, node) in views.iter().zip(plan.nodes.values()) {
        for vpc in &node.vpcs {
            by_vpc.entry(vpc).or_default().push(*view);
        }
        for vpc in node.vpcs.iter().chain(&node.beside) {
            around.entry(vpc).or_default().push(*view);
        }
    }
    world
        .rows
        .values()
        .map(|row| {
            let nodes = match vpc_of(row.name()) {
                Some(vpc) => {
                    let known = match row.kind() {
                        Some(Kind::Vpc | Kind::Port | Kind::SecurityGroup | Kind::Peering) => {
                            &around
                        }
                        _ => &by_vpc,
                    };
                    known.get(vpc).map_or(&[][..], Vec::as_slice)
                }
                None => views
                    .binary_search_by(|view| view.name.cmp(row.name()))
                    .ok()
                    .and_then(|at| views.get(at..=at))
                    .unwrap_or(&[]),
            };
            (row.name().to_owned(), status(row, plan, nodes))
        })
        .collect()
}

/// A node and what is known of it.
#[derive(Clone, Copy, Debug)]
struct View<'a> {
    name: &'a str,
    report: Option<&'a Report>,
}

/// What a resource's status says about nodes, added up.
#[derive(Default)]
struct Sum<'a> {
    done: usize,
    /// The problem to tell, and whose it is.
    told: Option<(&'a str, Problem)>,
    unresolved: Option<Problem>,
    something_wrong: bool,
    shown: Vec<NodeStatus>,
    hidden: Vec<View<'a>>,
}

impl<'a> Sum<'a> {
    fn add(&mut self, row: &Row, plan: &Plan, view: View<'a>, home: bool) {
        let problem = problem_on(row, plan, view.report);
        if problem.is_none() {
            self.done += 1;
        }
        if home || problem.is_some() {
            if self.shown.len() < MOST_NODES {
                self.shown.push(node_status(row, view, problem.as_ref()));
            }
        } else if self.hidden.len() < MOST_NODES {
            self.hidden.push(view);
        }
        let Some(problem) = problem else {
            return;
        };
        if problem.reason == Reason::AttachmentNotFound {
            self.unresolved = Some(problem.clone());
        }
        // What is known to be wrong is more interesting than what is not known.
        let wrong = !matches!(
            problem.reason,
            Reason::NodeUnreachable | Reason::NotPrimary | Reason::Pending
        );
        if self.told.is_none() || (wrong && !self.something_wrong) {
            self.told = Some((view.name, problem));
        }
        self.something_wrong |= wrong;
    }
}

fn status(row: &Row, plan: &Plan, nodes: &[View<'_>]) -> Status {
    let home = home(row);
    let mut sum = Sum::default();
    for view in nodes {
        sum.add(row, plan, *view, home == Some(short(view.name)));
    }
    // Nodes where all is well, as far as there is room.
    for view in sum.hidden {
        if sum.shown.len() < MOST_NODES {
            sum.shown.push(node_status(row, view, None));
        }
    }
    sum.shown.sort_by(|a, b| a.node.cmp(&b.node));

    let resolved = match sum.unresolved.or_else(|| unresolved(row, plan)) {
        None => condition(Type::Resolved, State::True, Reason::Resolved, String::new()),
        Some(problem) => condition(
            Type::Resolved,
            State::False,
            problem.reason,
            problem.message,
        ),
    };
    let (done, total) = (sum.done, nodes.len());
    let programmed = |state, reason, message| condition(Type::Programmed, state, reason, message);
    let programmed = match sum.told {
        // Which nodes it concerns is not known yet.
        _ if plan.revision < row.revision => programmed(
            State::Unknown,
            Reason::Pending,
            "it is not compiled yet".to_owned(),
        ),
        None if row.kind() == Some(Kind::Peering) => peering(row, plan, done),
        None if total == 0 => programmed(
            State::True,
            Reason::NotNeeded,
            "no node needs it".to_owned(),
        ),
        None => programmed(State::True, Reason::Programmed, summary(row, nodes)),
        Some((node, problem)) => {
            let state = if sum.something_wrong {
                State::False
            } else {
                State::Unknown
            };
            let message = if node == row.name() {
                problem.message
            } else {
                format!("{done} of {total} nodes; {node}: {}", problem.message)
            };
            programmed(state, problem.reason, message)
        }
    };
    let mut conditions = vec![accepted(), resolved, programmed];
    conditions.extend(degraded(row, plan, nodes));
    Status {
        observed_generation: row.generation(),
        conditions,
        nodes: sum.shown,
    }
}

/// The node that a port is on, by its short name.
fn home(row: &Row) -> Option<&str> {
    match &row.resource.spec {
        Some(Spec::Port(port)) => Some(short(&port.node)),
        _ => None,
    }
}

fn short(node: &str) -> &str {
    node.strip_prefix("nodes/").unwrap_or(node)
}

fn node_status(row: &Row, view: View<'_>, problem: Option<&Problem>) -> NodeStatus {
    let entries = view.report.map_or(0, |report| {
        if view.name == row.name() {
            report.entries.values().sum()
        } else {
            report.entries.get(row.name()).copied().unwrap_or(0)
        }
    });
    NodeStatus {
        node: view.name.to_owned(),
        programmed: problem.is_none(),
        reason: problem.map_or_else(String::new, |problem| problem.message.clone()),
        nic_entries: entries,
        generation: view.report.map_or(0, |report| report.generation),
        nics: match view.report {
            Some(report) if view.name == row.name() => nic_statuses(report),
            _ => Vec::new(),
        },
    }
}

fn nic_statuses(report: &Report) -> Vec<NicStatus> {
    let nics = report.nics.iter().map(|(device_id, nic)| {
        let why = nic.problem.iter().chain(&nic.uplink);
        let why: Vec<&str> = why.map(|problem| problem.message.as_str()).collect();
        NicStatus {
            device_id: *device_id,
            programmed: nic.problem.is_none(),
            reason: why.join("; "),
            tables: nic.tables.clone(),
        }
    });
    nics.collect()
}

fn summary(row: &Row, nodes: &[View<'_>]) -> String {
    match nodes {
        [
            View {
                name,
                report: Some(report),
            },
        ] if *name == row.name() => format!(
            "{} table updates and {} repairs of drift since the controller started",
            report.writes, report.drift
        ),
        _ => format!("{0} of {0} nodes", nodes.len()),
    }
}

fn problem_on(row: &Row, plan: &Plan, report: Option<&Report>) -> Option<Problem> {
    let Some(report) = report else {
        return Some(Problem::new(Reason::Pending, "not contacted yet"));
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
                Reason::Pending,
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
