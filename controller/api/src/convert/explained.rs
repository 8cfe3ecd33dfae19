//! What came of judging one packet, as a message.

use penstock_policies::explain::{Answer, Direction, Step, Verdict};

use crate::v1;

/// An answer as Explain gives it.
#[must_use]
pub fn from_answer(answer: &Answer) -> v1::ExplainResponse {
    let Answer {
        allow,
        steps,
        source,
        destination,
    } = answer;
    // Who refuses first says how.
    let refusing = steps.iter().find(|step| !step.explanation.allow);
    let verdict = match refusing {
        _ if *allow => Verdict::Allow,
        Some(step) => step.explanation.verdict,
        None => Verdict::Deny,
    };
    v1::ExplainResponse {
        verdict: action(verdict).into(),
        steps: steps.iter().map(write_step).collect(),
        source_ip: source.to_string(),
        destination_ip: destination.to_string(),
    }
}

fn write_step(step: &Step) -> v1::Step {
    let Step {
        direction,
        node,
        port,
        explanation,
    } = step;
    let direction = match direction {
        Direction::Ingress => v1::Direction::Ingress,
        Direction::Egress => v1::Direction::Egress,
    };
    v1::Step {
        direction: direction.into(),
        node: node.to_string(),
        port: port.as_ref().map_or_else(String::new, ToString::to_string),
        verdict: action(explanation.verdict).into(),
        rule: explanation.rule.clone().unwrap_or_default(),
        reason: explanation.to_string(),
    }
}

const fn action(verdict: Verdict) -> v1::Action {
    match verdict {
        Verdict::Allow => v1::Action::Allow,
        Verdict::Deny => v1::Action::Deny,
        Verdict::Reject => v1::Action::Reject,
    }
}
