//! What became of a resource, in a word.

use penstock_api::v1;
use penstock_api::v1::condition::{State, Type};

/// Whether every node concerned carries what is declared now.
pub(super) fn programmed(resource: &v1::Resource) -> bool {
    current(resource) && is(resource, Type::Programmed, State::True)
}

/// One word, and how many nodes have it.
pub(super) fn word(resource: &v1::Resource) -> String {
    let nodes = resource
        .status
        .as_ref()
        .map_or(&[][..], |status| &status.nodes);
    let done = nodes.iter().filter(|node| node.programmed).count();
    let word = if is(resource, Type::Degraded, State::True) {
        "Degraded"
    } else if programmed(resource) {
        "Programmed"
    } else if is(resource, Type::Accepted, State::False) {
        "Refused"
    } else {
        "Pending"
    };
    if nodes.is_empty() {
        word.to_owned()
    } else {
        format!("{word} {done}/{}", nodes.len())
    }
}

/// Why it is not simply programmed; empty if it is.
pub(super) fn reason(resource: &v1::Resource) -> String {
    let Some(status) = &resource.status else {
        return "no status yet".to_owned();
    };
    let wrong = |kind: Type, state: State| {
        status
            .conditions
            .iter()
            .find(move |c| c.r#type() == kind && c.state() == state)
            .map(|c| match (c.reason.as_str(), c.message.as_str()) {
                (reason, "") => reason.to_owned(),
                ("", message) => message.to_owned(),
                (reason, message) => format!("{reason}: {message}"),
            })
    };
    wrong(Type::Degraded, State::True)
        .or_else(|| wrong(Type::Resolved, State::False))
        .or_else(|| wrong(Type::Programmed, State::False))
        .or_else(|| wrong(Type::Programmed, State::Unknown))
        .or_else(|| (!current(resource)).then(|| "the status is of an older spec".to_owned()))
        .unwrap_or_default()
}

/// Whether the status speaks of the spec that is shown.
fn current(resource: &v1::Resource) -> bool {
    let generation = resource.metadata.as_ref().map_or(0, |m| m.generation);
    resource
        .status
        .as_ref()
        .is_some_and(|s| s.observed_generation >= generation)
}

fn is(resource: &v1::Resource, kind: Type, state: State) -> bool {
    resource.status.as_ref().is_some_and(|status| {
        status
            .conditions
            .iter()
            .any(|c| c.r#type() == kind && c.state() == state)
    })
}
