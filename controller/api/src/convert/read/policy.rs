//! Groups, policies and their rules as documents.

use penstock_policies::document;

use super::super::Invalid;
use super::unknown;
use crate::v1;

pub(super) fn read_group(
    group: &v1::SecurityGroup,
    wrong: &mut Vec<Invalid>,
) -> document::SecurityGroup {
    let v1::SecurityGroup {
        rules,
        directions,
        selector,
        mode,
        on_change,
    } = group;
    document::SecurityGroup {
        rules: read_rules(rules, wrong),
        directions: read_directions(directions, wrong),
        selector: selector
            .as_ref()
            .map(|it| read_selector(it, "spec.selector", wrong)),
        mode: read_mode(*mode, wrong),
        on_change: read_on_change(*on_change, wrong),
    }
}

pub(super) fn read_policy(policy: &v1::Policy, wrong: &mut Vec<Invalid>) -> document::Policy {
    let v1::Policy {
        tier,
        priority,
        applies_to,
        directions,
        mode,
        on_change,
        rules,
    } = policy;
    document::Policy {
        tier: match v1::Tier::try_from(*tier) {
            Ok(v1::Tier::Unspecified) => None,
            Ok(v1::Tier::Admin) => Some(document::Tier::Admin),
            Ok(v1::Tier::Tenant) => Some(document::Tier::Tenant),
            Ok(v1::Tier::Baseline) => Some(document::Tier::Baseline),
            Err(e) => {
                let all = document::Tier::ALL;
                unknown(wrong, "spec.tier", e.0, all, document::Tier::word)
            }
        },
        priority: *priority,
        applies_to: applies_to.as_ref().map(
            |v1::AppliesTo {
                 security_groups,
                 ports,
                 selector,
             }| document::AppliesTo {
                security_groups: security_groups.clone(),
                ports: ports.clone(),
                selector: selector
                    .as_ref()
                    .map(|it| read_selector(it, "spec.appliesTo.selector", wrong)),
            },
        ),
        directions: read_directions(directions, wrong),
        mode: read_mode(*mode, wrong),
        on_change: read_on_change(*on_change, wrong),
        rules: read_rules(rules, wrong),
    }
}

fn read_mode(mode: i32, wrong: &mut Vec<Invalid>) -> Option<document::Mode> {
    match v1::Mode::try_from(mode) {
        Ok(v1::Mode::Unspecified) => None,
        Ok(v1::Mode::Enforce) => Some(document::Mode::Enforce),
        Ok(v1::Mode::Audit) => Some(document::Mode::Audit),
        Err(e) => {
            let all = document::Mode::ALL;
            unknown(wrong, "spec.mode", e.0, all, document::Mode::word)
        }
    }
}

fn read_on_change(on_change: i32, wrong: &mut Vec<Invalid>) -> Option<document::OnChange> {
    match v1::OnChange::try_from(on_change) {
        Ok(v1::OnChange::Unspecified) => None,
        Ok(v1::OnChange::Reevaluate) => Some(document::OnChange::Reevaluate),
        Ok(v1::OnChange::Persist) => Some(document::OnChange::Persist),
        Ok(v1::OnChange::Drop) => Some(document::OnChange::Drop),
        Err(e) => {
            let all = document::OnChange::ALL;
            unknown(wrong, "spec.onChange", e.0, all, document::OnChange::word)
        }
    }
}

fn read_directions(ways: &[i32], wrong: &mut Vec<Invalid>) -> Vec<document::Direction> {
    let ways = ways.iter().enumerate();
    ways.filter_map(|(i, way)| {
        let field = format!("spec.directions[{i}]");
        // In a list, leaving a value out is no way to ask for a default.
        if *way == 0 {
            let all = document::Direction::ALL;
            return unknown(wrong, &field, 0, all, document::Direction::word);
        }
        read_direction(*way, &field, wrong)
    })
    .collect()
}

fn read_direction(
    value: i32,
    field: &str,
    wrong: &mut Vec<Invalid>,
) -> Option<document::Direction> {
    match v1::Direction::try_from(value) {
        Ok(v1::Direction::Unspecified) => None,
        Ok(v1::Direction::Ingress) => Some(document::Direction::Ingress),
        Ok(v1::Direction::Egress) => Some(document::Direction::Egress),
        Err(e) => {
            let all = document::Direction::ALL;
            unknown(wrong, field, e.0, all, document::Direction::word)
        }
    }
}

fn read_rules(rules: &[v1::Rule], wrong: &mut Vec<Invalid>) -> Vec<document::Rule> {
    let rules = rules.iter().enumerate();
    rules
        .map(|(i, rule)| read_rule(rule, &format!("spec.rules[{i}]"), wrong))
        .collect()
}

fn read_rule(rule: &v1::Rule, path: &str, wrong: &mut Vec<Invalid>) -> document::Rule {
    let v1::Rule {
        name,
        direction,
        protocol,
        ports,
        icmp_type,
        icmp_code,
        peers,
        action,
        priority,
        source_ports,
        stateful,
        log,
    } = rule;
    document::Rule {
        name: name.clone(),
        direction: read_direction(*direction, &format!("{path}.direction"), wrong),
        action: read_action(*action, &format!("{path}.action"), wrong),
        priority: *priority,
        protocol: read_protocol(*protocol, &format!("{path}.protocol"), wrong),
        ports: read_ports(ports),
        source_ports: read_ports(source_ports),
        icmp_type: *icmp_type,
        icmp_code: *icmp_code,
        peers: peers
            .iter()
            .enumerate()
            .map(|(i, v1::Peer { peer })| {
                read_peer(peer.as_ref(), &format!("{path}.peers[{i}]"), wrong)
            })
            .collect(),
        stateful: *stateful,
        log: *log,
    }
}

fn read_action(value: i32, field: &str, wrong: &mut Vec<Invalid>) -> Option<document::RuleAction> {
    match v1::Action::try_from(value) {
        Ok(v1::Action::Unspecified) => None,
        Ok(v1::Action::Allow) => Some(document::RuleAction::Allow),
        Ok(v1::Action::Deny) => Some(document::RuleAction::Deny),
        Ok(v1::Action::Reject) => Some(document::RuleAction::Reject),
        Ok(v1::Action::Pass) => Some(document::RuleAction::Pass),
        Err(e) => {
            let all = document::RuleAction::ALL;
            unknown(wrong, field, e.0, all, document::RuleAction::word)
        }
    }
}

fn read_protocol(value: i32, field: &str, wrong: &mut Vec<Invalid>) -> Option<document::Protocol> {
    match v1::Protocol::try_from(value) {
        Ok(v1::Protocol::Unspecified) => None,
        Ok(v1::Protocol::Any) => Some(document::Protocol::Any),
        Ok(v1::Protocol::Tcp) => Some(document::Protocol::Tcp),
        Ok(v1::Protocol::Udp) => Some(document::Protocol::Udp),
        Ok(v1::Protocol::Sctp) => Some(document::Protocol::Sctp),
        Ok(v1::Protocol::Icmp) => Some(document::Protocol::Icmp),
        Ok(v1::Protocol::Icmpv6) => Some(document::Protocol::Icmpv6),
        Ok(v1::Protocol::Rocev2) => Some(document::Protocol::Rocev2),
        Err(e) => {
            let all = document::Protocol::ALL;
            unknown(wrong, field, e.0, all, document::Protocol::word)
        }
    }
}

fn read_ports(ports: &[v1::PortRange]) -> Vec<document::PortRange> {
    ports
        .iter()
        .map(|v1::PortRange { first, last }| document::PortRange {
            first: *first,
            last: *last,
        })
        .collect()
}

/// A peer of none is refused by validation, with the rest.
fn read_peer(
    peer: Option<&v1::peer::Peer>,
    path: &str,
    wrong: &mut Vec<Invalid>,
) -> document::Peer {
    use v1::peer::Peer;
    let mut found = document::Peer::default();
    match peer {
        None => {}
        Some(Peer::Cidr(v1::Cidr { prefix, except })) => {
            found.cidr = Some(document::Cidr {
                prefix: prefix.clone(),
                except: except.clone(),
            });
        }
        Some(Peer::PrefixSet(name)) => found.prefix_set = Some(name.clone()),
        Some(Peer::SecurityGroup(name)) => found.security_group = Some(name.clone()),
        Some(Peer::Selector(selector)) => {
            let field = format!("{path}.selector");
            found.selector = Some(read_selector(selector, &field, wrong));
        }
        Some(Peer::Port(name)) => found.port = Some(name.clone()),
        Some(Peer::Vpc(name)) => found.vpc = Some(name.clone()),
    }
    found
}

fn read_selector(
    selector: &v1::Selector,
    path: &str,
    wrong: &mut Vec<Invalid>,
) -> document::Selector {
    let v1::Selector {
        match_labels,
        match_expressions,
        vpc,
    } = selector;
    let labels = match_labels.iter();
    let mut expressions = Vec::with_capacity(match_expressions.len());
    for (i, expression) in match_expressions.iter().enumerate() {
        let v1::Expression {
            key,
            operator,
            values,
        } = expression;
        let field = format!("{path}.matchExpressions[{i}].operator");
        expressions.push(document::Expression {
            key: key.clone(),
            operator: read_operator(*operator, &field, wrong),
            values: values.clone(),
        });
    }
    document::Selector {
        match_labels: labels.map(|(k, v)| (k.clone(), v.clone())).collect(),
        match_expressions: expressions,
        vpc: vpc.clone(),
    }
}

fn read_operator(value: i32, field: &str, wrong: &mut Vec<Invalid>) -> Option<document::Operator> {
    match v1::Operator::try_from(value) {
        Ok(v1::Operator::Unspecified) => None,
        Ok(v1::Operator::In) => Some(document::Operator::In),
        Ok(v1::Operator::NotIn) => Some(document::Operator::NotIn),
        Ok(v1::Operator::Exists) => Some(document::Operator::Exists),
        Ok(v1::Operator::DoesNotExist) => Some(document::Operator::DoesNotExist),
        Err(e) => {
            let all = document::Operator::ALL;
            unknown(wrong, field, e.0, all, document::Operator::word)
        }
    }
}
