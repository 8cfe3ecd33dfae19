//! Whether a rule means something.

use penstock_flow::tuple::proto;

use crate::error::CompileError;
use crate::model::{Action, Protocol, Rule, Tier};

/// Refuses what has no meaning.
pub(crate) fn check(rule: &Rule, tier: Tier) -> Result<(), CompileError> {
    let name = || rule.name.clone();
    for &(first, last) in rule.ports.iter().chain(&rule.source_ports) {
        if first > last {
            return Err(CompileError::InvertedPorts {
                rule: name(),
                first,
                last,
            });
        }
    }
    let has_ports = matches!(
        rule.protocol,
        Some(Protocol::Number(proto::TCP | proto::UDP | proto::SCTP))
    );
    if (!rule.ports.is_empty() || !rule.source_ports.is_empty()) && !has_ports {
        return Err(CompileError::PortsWithoutProtocol { rule: name() });
    }
    let is_icmp = matches!(
        rule.protocol,
        Some(Protocol::Number(proto::ICMP | proto::ICMPV6))
    );
    let icmp_wrong = match (rule.icmp_type, rule.icmp_code) {
        (None, None) => false,
        (Some(_), _) => !is_icmp,
        (None, Some(_)) => true,
    };
    if icmp_wrong {
        return Err(CompileError::IcmpWithoutProtocol { rule: name() });
    }
    let action_fits = match tier {
        Tier::Admin => true,
        Tier::Tenant => rule.action == Action::Allow,
        Tier::Baseline => rule.action != Action::Pass,
    };
    if !action_fits {
        return Err(CompileError::ActionOfTier { rule: name() });
    }
    if !rule.stateful && rule.action != Action::Allow {
        return Err(CompileError::StatelessRefusal { rule: name() });
    }
    Ok(())
}

/// The ranges of `Tuple::dport` that a checked rule means.
pub(crate) fn dports(rule: &Rule) -> impl Iterator<Item = (u16, u16)> + '_ {
    let whole = match (rule.icmp_type, rule.icmp_code) {
        (Some(t), Some(c)) => {
            let v = u16::from(t) << 8 | u16::from(c);
            Some((v, v))
        }
        (Some(t), None) => Some((u16::from(t) << 8, u16::from(t) << 8 | 0xff)),
        (None, _) if rule.ports.is_empty() => Some((0, u16::MAX)),
        (None, _) => None,
    };
    let ports: &[(u16, u16)] = if whole.is_some() { &[] } else { &rule.ports };
    whole.into_iter().chain(ports.iter().copied())
}
