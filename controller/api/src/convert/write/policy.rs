//! Groups, policies and their rules as messages.

use penstock_policies::document;

use crate::v1;

pub(super) fn write_group(group: &document::SecurityGroup) -> v1::SecurityGroup {
    let document::SecurityGroup {
        rules,
        directions,
        selector,
        mode,
        on_change,
    } = group;
    v1::SecurityGroup {
        rules: rules.iter().map(write_rule).collect(),
        directions: write_directions(directions),
        selector: selector.as_ref().map(write_selector),
        mode: write_mode(*mode).into(),
        on_change: write_on_change(*on_change).into(),
    }
}

pub(super) fn write_policy(policy: &document::Policy) -> v1::Policy {
    let document::Policy {
        tier,
        priority,
        applies_to,
        directions,
        mode,
        on_change,
        rules,
    } = policy;
    v1::Policy {
        tier: match tier {
            None => v1::Tier::Unspecified,
            Some(document::Tier::Admin) => v1::Tier::Admin,
            Some(document::Tier::Tenant) => v1::Tier::Tenant,
            Some(document::Tier::Baseline) => v1::Tier::Baseline,
        }
        .into(),
        priority: *priority,
        applies_to: applies_to.as_ref().map(
            |document::AppliesTo {
                 security_groups,
                 ports,
                 selector,
             }| v1::AppliesTo {
                security_groups: security_groups.clone(),
                ports: ports.clone(),
                selector: selector.as_ref().map(write_selector),
            },
        ),
        directions: write_directions(directions),
        mode: write_mode(*mode).into(),
        on_change: write_on_change(*on_change).into(),
        rules: rules.iter().map(write_rule).collect(),
    }
}

const fn write_mode(mode: Option<document::Mode>) -> v1::Mode {
    match mode {
        None => v1::Mode::Unspecified,
        Some(document::Mode::Enforce) => v1::Mode::Enforce,
        Some(document::Mode::Audit) => v1::Mode::Audit,
    }
}

const fn write_on_change(on_change: Option<document::OnChange>) -> v1::OnChange {
    match on_change {
        None => v1::OnChange::Unspecified,
        Some(document::OnChange::Reevaluate) => v1::OnChange::Reevaluate,
        Some(document::OnChange::Persist) => v1::OnChange::Persist,
        Some(document::OnChange::Drop) => v1::OnChange::Drop,
    }
}

fn write_directions(directions: &[document::Direction]) -> Vec<i32> {
    let ways = directions.iter();
    ways.map(|way| write_direction(Some(*way)).into()).collect()
}

const fn write_direction(direction: Option<document::Direction>) -> v1::Direction {
    match direction {
        None => v1::Direction::Unspecified,
        Some(document::Direction::Ingress) => v1::Direction::Ingress,
        Some(document::Direction::Egress) => v1::Direction::Egress,
    }
}

fn write_rule(rule: &document::Rule) -> v1::Rule {
    let document::Rule {
        name,
        direction,
        action,
        priority,
        protocol,
        ports,
        source_ports,
        icmp_type,
        icmp_code,
        peers,
        stateful,
        log,
    } = rule;
    v1::Rule {
        name: name.clone(),
        direction: write_direction(*direction).into(),
        protocol: write_protocol(*protocol).into(),
        ports: write_ports(ports),
        icmp_type: *icmp_type,
        icmp_code: *icmp_code,
        peers: peers
            .iter()
            .map(|peer| v1::Peer {
                peer: write_peer(peer),
            })
            .collect(),
        action: match action {
            None => v1::Action::Unspecified,
            Some(document::RuleAction::Allow) => v1::Action::Allow,
            Some(document::RuleAction::Deny) => v1::Action::Deny,
            Some(document::RuleAction::Reject) => v1::Action::Reject,
            Some(document::RuleAction::Pass) => v1::Action::Pass,
        }
        .into(),
        priority: *priority,
        source_ports: write_ports(source_ports),
        stateful: *stateful,
        log: *log,
    }
}

fn write_ports(ports: &[document::PortRange]) -> Vec<v1::PortRange> {
    ports
        .iter()
        .map(|document::PortRange { first, last }| v1::PortRange {
            first: *first,
            last: *last,
        })
        .collect()
}

/// Validation refuses a peer of several, which the schema cannot say.
fn write_peer(peer: &document::Peer) -> Option<v1::peer::Peer> {
    use v1::peer::Peer;
    let document::Peer {
        cidr,
        prefix_set,
        security_group,
        selector,
        port,
        vpc,
    } = peer;
    if let Some(document::Cidr { prefix, except }) = cidr {
        return Some(Peer::Cidr(v1::Cidr {
            prefix: prefix.clone(),
            except: except.clone(),
        }));
    }
    let named = [
        prefix_set.clone().map(Peer::PrefixSet),
        security_group.clone().map(Peer::SecurityGroup),
        selector.as_ref().map(write_selector).map(Peer::Selector),
        port.clone().map(Peer::Port),
        vpc.clone().map(Peer::Vpc),
    ];
    named.into_iter().flatten().next()
}

fn write_selector(selector: &document::Selector) -> v1::Selector {
    let document::Selector {
        match_labels,
        match_expressions,
        vpc,
    } = selector;
    let labels = match_labels.iter();
    let expressions = match_expressions.iter().map(
        |document::Expression {
             key,
             operator,
             values,
         }| v1::Expression {
            key: key.clone(),
            operator: match operator {
                None => v1::Operator::Unspecified,
                Some(document::Operator::In) => v1::Operator::In,
                Some(document::Operator::NotIn) => v1::Operator::NotIn,
                Some(document::Operator::Exists) => v1::Operator::Exists,
                Some(document::Operator::DoesNotExist) => v1::Operator::DoesNotExist,
            }
            .into(),
            values: values.clone(),
        },
    );
    v1::Selector {
        match_labels: labels.map(|(k, v)| (k.clone(), v.clone())).collect(),
        match_expressions: expressions.collect(),
        vpc: vpc.clone(),
    }
}

/// A document's protocol in the schema.
#[must_use]
pub const fn write_protocol(protocol: Option<document::Protocol>) -> v1::Protocol {
    match protocol {
        None => v1::Protocol::Unspecified,
        Some(document::Protocol::Any) => v1::Protocol::Any,
        Some(document::Protocol::Tcp) => v1::Protocol::Tcp,
        Some(document::Protocol::Udp) => v1::Protocol::Udp,
        Some(document::Protocol::Sctp) => v1::Protocol::Sctp,
        Some(document::Protocol::Icmp) => v1::Protocol::Icmp,
        Some(document::Protocol::Icmpv6) => v1::Protocol::Icmpv6,
        Some(document::Protocol::Rocev2) => v1::Protocol::Rocev2,
    }
}
