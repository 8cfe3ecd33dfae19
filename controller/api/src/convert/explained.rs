//! What came of judging one packet, as a message.

use penstock_policies::explain::{
    self, Answer, Direction, Enforcer, Explanation, Hop, Outcome, Verdict,
};

use crate::v1;

/// Matching rules of a tier that are told; more are counted.
const MOST_MATCHES: usize = 64;

/// An answer as Explain gives it.
#[must_use]
pub fn from_answer(answer: &Answer) -> v1::ExplainResponse {
    let Answer {
        allow: _,
        steps,
        source,
        destination,
        route,
        entries,
    } = answer;
    v1::ExplainResponse {
        verdict: verdict(answer.verdict()).into(),
        steps: steps.iter().map(step).collect(),
        source_ip: source.to_string(),
        destination_ip: destination.to_string(),
        route: route.as_ref().map(self::route),
        entries: entries.iter().map(entry).collect(),
    }
}

fn step(step: &explain::Step) -> v1::Step {
    let explain::Step {
        direction,
        node,
        device_id,
        port,
        explanation,
        first,
        established,
    } = step;
    let Explanation {
        allow: _,
        verdict,
        rule,
        reason,
        stateful,
        log,
        tiers,
        near,
        audit,
    } = explanation;
    let direction = match direction {
        Direction::Ingress => v1::Direction::Ingress,
        Direction::Egress => v1::Direction::Egress,
    };
    v1::Step {
        direction: direction.into(),
        node: node.to_string(),
        port: port.as_ref().map_or_else(String::new, ToString::to_string),
        verdict: self::verdict(*verdict).into(),
        rule: rule.clone().unwrap_or_default(),
        reason: reason.clone(),
        tiers: tiers.iter().map(tier).collect(),
        near_misses: near.iter().map(near_miss).collect(),
        audit: audit.clone().unwrap_or_default(),
        stateful: *stateful,
        log: *log,
        device_id: *device_id,
        first_packet: enforcer(*first).into(),
        established: established.map_or(0, |it| enforcer(it).into()),
    }
}

fn tier(says: &explain::TierSays) -> v1::TierSays {
    let explain::TierSays {
        tier,
        outcome,
        matches,
    } = says;
    let tier = match tier {
        explain::Tier::Admin => v1::Tier::Admin,
        explain::Tier::Tenant => v1::Tier::Tenant,
        explain::Tier::Baseline => v1::Tier::Baseline,
    };
    let outcome = match outcome {
        Outcome::Decided => v1::tier_says::Outcome::Decided,
        Outcome::Passed => v1::tier_says::Outcome::Passed,
        Outcome::Closed => v1::tier_says::Outcome::Closed,
        Outcome::NotSelected => v1::tier_says::Outcome::NotSelected,
        Outcome::NoMatch => v1::tier_says::Outcome::NoMatch,
    };
    let left_out = matches.len().saturating_sub(MOST_MATCHES);
    v1::TierSays {
        tier: tier.into(),
        outcome: outcome.into(),
        matches: matches.iter().take(MOST_MATCHES).map(found).collect(),
        matches_left_out: u32::try_from(left_out).unwrap_or(u32::MAX),
    }
}

fn found(found: &explain::Match) -> v1::RuleMatch {
    let explain::Match {
        rule,
        action,
        decides,
        audit,
    } = found;
    let action = match action {
        explain::Action::Allow => v1::Action::Allow,
        explain::Action::Deny => v1::Action::Deny,
        explain::Action::Reject => v1::Action::Reject,
        explain::Action::Pass => v1::Action::Pass,
    };
    v1::RuleMatch {
        rule: rule.clone(),
        action: action.into(),
        decides: *decides,
        audit: *audit,
    }
}

fn near_miss(near: &explain::NearMiss) -> v1::NearMiss {
    let explain::NearMiss { rule, why } = near;
    v1::NearMiss {
        rule: rule.clone(),
        why: why.clone(),
    }
}

fn route(route: &explain::Route) -> v1::Route {
    let explain::Route {
        vni,
        mapping,
        nexthop,
        hop,
    } = route;
    let hop = match hop {
        Hop::Port {
            port,
            attachment,
            vlan,
        } => v1::route::Hop::Local(v1::LocalHop {
            port: port.to_string(),
            attachment: attachment.clone(),
            vlan: (*vlan).into(),
        }),
        Hop::Tunnel {
            from,
            to,
            node,
            device_id,
            mtu,
        } => v1::route::Hop::Tunnel(v1::TunnelHop {
            source_vtep: from.to_string(),
            destination_vtep: to.to_string(),
            node: node.to_string(),
            device_id: *device_id,
            mtu: (*mtu).into(),
        }),
    };
    v1::Route {
        vni: *vni,
        mapping: mapping.to_string(),
        nexthop: *nexthop,
        hop: Some(hop),
    }
}

fn entry(entry: &explain::FlowEntry) -> v1::FlowEntry {
    let explain::FlowEntry {
        node,
        device_id,
        ingress,
        vni,
        tuple,
        nexthop,
        to,
    } = entry;
    v1::FlowEntry {
        node: node.to_string(),
        device_id: *device_id,
        ingress_port: (ingress.as_ref()).map_or_else(String::new, ToString::to_string),
        vni: *vni,
        source_ip: tuple.src.to_string(),
        destination_ip: tuple.dst.to_string(),
        protocol: tuple.proto.into(),
        source_port: tuple.sport.into(),
        destination_port: tuple.dport.into(),
        nexthop: *nexthop,
        to_port: to.to_string(),
    }
}

const fn enforcer(enforcer: Enforcer) -> v1::Enforcer {
    match enforcer {
        Enforcer::Software => v1::Enforcer::Software,
        Enforcer::Flow => v1::Enforcer::NicFlow,
        Enforcer::Mapping => v1::Enforcer::NicMapping,
    }
}

const fn verdict(verdict: Verdict) -> v1::Action {
    match verdict {
        Verdict::Allow => v1::Action::Allow,
        Verdict::Deny => v1::Action::Deny,
        Verdict::Reject => v1::Action::Reject,
    }
}
