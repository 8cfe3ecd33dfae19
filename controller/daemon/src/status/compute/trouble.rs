//! What is to be said of a resource beside how many nodes carry it.

use penstock_api::v1::Condition;
use penstock_api::v1::condition::{State, Type};
use penstock_api::v1::resource::Spec;

use super::super::{Problem, Reason, condition};
use super::{View, short};
use crate::plan::Plan;
use crate::world::Row;

/// What of a resource cannot be found, whatever the node.
pub(super) fn unresolved(row: &Row, plan: &Plan) -> Option<Problem> {
    if let Some(message) = plan.lone.get(row.name()) {
        return Some(Problem::new(Reason::WaitsForPeer, message.clone()));
    }
    let (first, more) = plan.unresolved.get(row.name())?.split_first()?;
    let message = match more.len() {
        0 => first.clone(),
        more => format!("{first}; and {more} more like this"),
    };
    Some(Problem::new(Reason::PeerUnresolved, message))
}

/// A peering is never simply there: alone it has no effect, and of two halves rules
/// know, but not what forwards.
pub(super) fn peering(row: &Row, plan: &Plan, done: usize) -> Condition {
    let (reason, message) = match plan.lone.get(row.name()) {
        Some(message) => (Reason::WaitsForPeer, message.clone()),
        None => (
            Reason::NotForwarded,
            format!(
                "the rules of {done} nodes know the peer, but packets between peered VPCs \
                 are not forwarded yet"
            ),
        ),
    };
    condition(Type::Programmed, State::False, reason, message)
}

/// What is wrong with NICs of a node, or with the one that a port is on, though the rest
/// works; and where MTUs do not fit. Given only where there is something.
pub(super) fn degraded(row: &Row, plan: &Plan, nodes: &[View<'_>]) -> Option<Condition> {
    let all = [
        broken(row, nodes),
        unkept(row, nodes),
        narrow(row, plan, nodes),
    ];
    all.into_iter().flatten().reduce(|mut worse, also| {
        worse.message = format!("{}; {}: {}", worse.message, also.reason, also.message);
        worse
    })
}

fn unkept(row: &Row, nodes: &[View<'_>]) -> Option<Condition> {
    let view = nodes.iter().find(|view| view.name == row.name())?;
    let report = view.report.filter(|it| it.unreachable.is_none())?;
    let words = report.complaint.clone()?;
    let kind = Type::Degraded;
    Some(condition(kind, State::True, Reason::NotKept, words))
}

fn broken(row: &Row, nodes: &[View<'_>]) -> Option<Condition> {
    let (node, only) = match &row.resource.spec {
        Some(Spec::Port(port)) => (short(&port.node), Some(port.nic.max(1))),
        Some(Spec::Node(_)) => (short(row.name()), None),
        _ => return None,
    };
    let view = nodes.iter().find(|view| short(view.name) == node)?;
    // Of a node without a session nothing is known.
    let report = view.report.filter(|it| it.unreachable.is_none())?;
    let wrong: Vec<&Problem> = report
        .nics
        .iter()
        .filter(|(id, _)| only.is_none_or(|only| only == **id))
        .filter_map(|(_, nic)| match only {
            // A port's own entries have their own problems.
            Some(_) => nic.uplink.as_ref(),
            None => nic.uplink.as_ref().or(nic.problem.as_ref()),
        })
        .collect();
    let first = wrong.first()?;
    let message = match (only, wrong.len()) {
        (None, count) => format!("{count} of {} NICs; {}", report.nics.len(), first.message),
        (Some(_), _) => first.message.clone(),
    };
    Some(condition(
        Type::Degraded,
        State::True,
        first.reason,
        message,
    ))
}

fn narrow(row: &Row, plan: &Plan, nodes: &[View<'_>]) -> Option<Condition> {
    let planned = plan.narrow.get(row.name());
    let found = nodes
        .iter()
        .filter(|view| view.name == row.name())
        .filter_map(|view| view.report)
        .flat_map(|report| &report.narrow);
    let all: Vec<&String> = found.chain(planned.into_iter().flatten()).collect();
    let (first, more) = all.split_first()?;
    let message = match more.len() {
        0 => (*first).clone(),
        more => format!("{first}; and {more} more like this"),
    };
    let kind = Type::Degraded;
    Some(condition(kind, State::True, Reason::MtuTooSmall, message))
}
