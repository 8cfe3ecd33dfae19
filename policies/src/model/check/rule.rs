//! Rules of groups and policies.

use std::collections::BTreeSet;

use penstock_rules::model::Direction;

use super::group::direction;
use super::{At, LIMITS};
use crate::document::{self, Protocol, RuleAction};
use crate::model::{Action, IcmpKind, PortRange, Ports, Rule, Segment, Service, Tier, VpcName};

/// RoCEv2's UDP port.
const ROCE: u16 = 4791;

/// What kind of list a rule stands in.
pub(super) enum Context<'c> {
    /// A group that selects these directions.
    Group(&'c BTreeSet<Direction>),
    /// A policy; in the tenant tier one that selects these directions.
    Policy(Tier, &'c BTreeSet<Direction>),
}

impl Context<'_> {
    const fn noun(&self) -> &'static str {
        match self {
            Self::Group(_) => "group",
            Self::Policy(..) => "policy",
        }
    }

    /// The directions that rules may look, where that is bound.
    const fn selected(&self) -> Option<&BTreeSet<Direction>> {
        match self {
            Self::Group(selected) | Self::Policy(Tier::Tenant, selected) => Some(selected),
            Self::Policy(Tier::Admin | Tier::Baseline, _) => None,
        }
    }
}

impl<'a> At<'_, 'a> {
    pub(super) fn rules(
        &mut self,
        vpc: &VpcName,
        context: &Context<'_>,
        rules: &'a [document::Rule],
    ) -> Vec<Rule> {
        let noun = context.noun();
        let mut names = BTreeSet::new();
        let mut found = Vec::with_capacity(rules.len().min(LIMITS.rules_per_list));
        for (i, rule) in self
            .within("spec.rules", rules, LIMITS.rules_per_list)
            .iter()
            .enumerate()
        {
            let path = format!("spec.rules[{i}]");
            if !rule.name.is_empty() && !names.insert(&rule.name) {
                let message = format!("{} is used twice in the {noun}", rule.name);
                let hint = "give each rule its own name";
                self.problem(format!("{path}.name"), message, hint);
            }
            let Some(rule) = self.rule(&path, vpc, context, rule) else {
                continue;
            };
            if context
                .selected()
                .is_some_and(|selected| !selected.contains(&rule.direction))
            {
                self.problem(
                    format!("{path}.direction"),
                    format!(
                        "is not one of the {noun}'s directions, so the rule would allow what is open"
                    ),
                    "add the direction to spec.directions, or remove the rule",
                );
            }
            found.push(rule);
        }
        found
    }

    fn rule(
        &mut self,
        path: &str,
        vpc: &VpcName,
        context: &Context<'_>,
        rule: &'a document::Rule,
    ) -> Option<Rule> {
        let document::Rule {
            name,
            direction: way,
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
        let name = Segment::parse(name)
            .map_err(|e| self.problem(format!("{path}.name"), e.message, e.suggestion))
            .ok();
        if way.is_none() {
            let hint = "write INGRESS or EGRESS";
            self.problem(format!("{path}.direction"), "is missing", hint);
        }
        let action = self.action(path, context, *action);
        let is_tenant = context.selected().is_some();
        let priority = self.priority(&format!("{path}.priority"), is_tenant, *priority);
        if stateful.is_some() && action.is_some_and(|action| action != Action::Allow) {
            let message = "only what is allowed makes a connection";
            let hint = "remove it, or write action: ALLOW";
            self.problem(format!("{path}.stateful"), message, hint);
        }
        let protocol = protocol.unwrap_or(Protocol::Any);
        let ports = Ports {
            destination: self.ports(path, "ports", protocol, ports),
            source: self.ports(path, "sourcePorts", protocol, source_ports),
        };
        let icmp = self.icmp(path, protocol, *icmp_type, *icmp_code);
        let list = format!("{path}.peers");
        let found: Vec<_> = self
            .within(&list, peers, LIMITS.peers_per_rule)
            .iter()
            .enumerate()
            .map(|(i, peer)| self.peer(&format!("{list}[{i}]"), vpc, protocol, peer))
            .collect();
        let service = match protocol {
            Protocol::Any => Service::Any,
            Protocol::Tcp => Service::Tcp(ports),
            Protocol::Udp => Service::Udp(ports),
            Protocol::Sctp => Service::Sctp(ports),
            Protocol::Icmp => Service::Icmp(icmp?),
            Protocol::Icmpv6 => Service::Icmpv6(icmp?),
            Protocol::Rocev2 => Service::Rocev2,
        };
        let peers = found.into_iter().collect::<Option<Vec<_>>>()?;
        Some(Rule {
            name: name?,
            direction: direction((*way)?),
            action: action?,
            priority: priority?,
            service,
            peers,
            stateful: stateful.unwrap_or(true),
            log: *log,
        })
    }

    /// What the rule does; nothing where that is not for its list.
    fn action(
        &mut self,
        path: &str,
        context: &Context<'_>,
        action: Option<RuleAction>,
    ) -> Option<Action> {
        let field = format!("{path}.action");
        let found = match action {
            Some(RuleAction::Allow) => Action::Allow,
            Some(RuleAction::Deny) => Action::Deny,
            Some(RuleAction::Reject) => Action::Reject,
            Some(RuleAction::Pass) => Action::Pass,
            None if context.selected().is_some() => Action::Allow,
            None => {
                let hint = match context {
                    Context::Policy(Tier::Baseline, _) => "write ALLOW, DENY or REJECT",
                    _ => "write ALLOW, DENY, REJECT or PASS",
                };
                self.problem(field, "is missing", hint);
                return None;
            }
        };
        let word = action.unwrap_or(RuleAction::Allow).word();
        match (context, found) {
            (Context::Group(_), Action::Deny | Action::Reject | Action::Pass) => {
                let message = format!("{word} is nothing for a security group, which only allows");
                let hint = "write it in a Policy of tier ADMIN or BASELINE";
                self.problem(field, message, hint);
                None
            }
            (Context::Policy(Tier::Tenant, _), Action::Deny | Action::Reject | Action::Pass) => {
                let message = format!("{word} is nothing for the TENANT tier, which only allows");
                let hint = "write tier: ADMIN or BASELINE, or remove the rule";
                self.problem(field, message, hint);
                None
            }
            (Context::Policy(Tier::Baseline, _), Action::Pass) => {
                let message = "PASS has no tier to hand on to: BASELINE is the last";
                self.problem(field, message, "write ALLOW, DENY or REJECT");
                None
            }
            _ => Some(found),
        }
    }

    fn ports(
        &mut self,
        path: &str,
        field: &str,
        protocol: Protocol,
        ports: &'a [document::PortRange],
    ) -> Vec<PortRange> {
        let list = format!("{path}.{field}");
        let has_ports = matches!(protocol, Protocol::Tcp | Protocol::Udp | Protocol::Sctp);
        if !ports.is_empty() && !has_ports {
            let (message, hint) = if protocol == Protocol::Rocev2 {
                let message = "protocol ROCEV2 has no ports to choose from: it is UDP to port 4791";
                (message.to_owned(), "remove the ports")
            } else {
                let message = format!("protocol {} has no ports", protocol.word());
                let hint = "write protocol: TCP, UDP or SCTP, or remove the ports";
                (message, hint)
            };
            self.problem(list, message, hint);
            return Vec::new();
        }
        let mut found = Vec::with_capacity(ports.len().min(LIMITS.ranges_per_rule));
        for (i, range) in self
            .within(&list, ports, LIMITS.ranges_per_rule)
            .iter()
            .enumerate()
        {
            let at = format!("{list}[{i}]");
            let range = self.range(&at, *range);
            let is_roce = range.is_some_and(|r| (r.first, r.last) == (ROCE, ROCE));
            if is_roce && protocol == Protocol::Udp && field == "ports" {
                let message = "UDP to port 4791 is RoCEv2, which no UDP rule matches";
                self.problem(at, message, "did you mean protocol: ROCEV2?");
                continue;
            }
            found.extend(range);
        }
        found
    }

    fn range(&mut self, at: &str, range: document::PortRange) -> Option<PortRange> {
        let document::PortRange { first, last } = range;
        let last = if last == 0 { first } else { last };
        match (u16::try_from(first), u16::try_from(last)) {
            (Ok(first), Ok(last)) if first <= last => Some(PortRange { first, last }),
            (Ok(first), Ok(last)) => {
                let message = format!("first {first} is above last {last}");
                let hint = format!("did you mean first: {last}, last: {first}?");
                self.problem(at, message, hint);
                None
            }
            _ => {
                let message = format!("{} is no port", first.max(last));
                self.problem(at, message, "use 0 to 65535");
                None
            }
        }
    }

    fn icmp(
        &mut self,
        path: &str,
        protocol: Protocol,
        kind: Option<u32>,
        code: Option<u32>,
    ) -> Option<IcmpKind> {
        let field = |name| format!("{path}.{name}");
        let is_icmp = matches!(protocol, Protocol::Icmp | Protocol::Icmpv6);
        let byte = |at: &mut Self, name, value: Option<u32>| match value.map(u8::try_from) {
            Some(_) if !is_icmp => {
                let message = format!("protocol {} has no ICMP types", protocol.word());
                let hint = "write protocol: ICMP or ICMPV6, or remove it";
                at.problem(field(name), message, hint);
                None
            }
            Some(Err(_)) => {
                let message = format!("{} does not fit a byte", value.unwrap_or_default());
                at.problem(field(name), message, "use 0 to 255");
                None
            }
            Some(Ok(value)) => Some(Some(value)),
            None => Some(None),
        };
        let kind_byte = byte(self, "icmpType", kind);
        let code_byte = byte(self, "icmpCode", code);
        match (kind_byte?, code_byte?) {
            (None, None) => Some(IcmpKind::Every),
            (Some(kind), None) => Some(IcmpKind::Type(kind)),
            (Some(kind), Some(code)) => Some(IcmpKind::Code(kind, code)),
            (None, Some(_)) => {
                let hint = "give the type the code belongs to";
                self.problem(field("icmpCode"), "has no icmpType", hint);
                None
            }
        }
    }
}
