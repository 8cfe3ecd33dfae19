//! One packet between two ports, judged as the workers would: egress by the
//! sender's node, ingress by the receiver's, each by its own policy.

use penstock_flow::Addr;
use penstock_flow::tuple::proto;
pub use penstock_rules::Verdict;
pub use penstock_rules::model::Direction;
use penstock_rules::{Explanation, Query, Ruleset};

use crate::compile::{self, CompileError, port_id};
use crate::ids::Ids;
use crate::model::{Model, NodeName, Port, PortName};

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The sender.
    pub from: PortName,
    /// Where to.
    pub to: Destination,
    /// IANA protocol number.
    pub protocol: u8,
    /// Source port, or ICMP identifier.
    pub source_port: u16,
    /// Destination port, or ICMP `type << 8 | code`.
    pub destination_port: u16,
    /// Between ports that have both: IPv6.
    pub ipv6: bool,
}

/// Where a packet goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// To a port, in the first family both have.
    Port(PortName),
    /// To an address in the sender's VPC.
    Ip(Addr),
}

/// The verdict, and how it came about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whether it arrives.
    pub allow: bool,
    /// Where it is judged, in that order.
    pub steps: Vec<Step>,
    /// Its source address.
    pub source: Addr,
    /// Its destination address.
    pub destination: Addr,
}

/// One place where it is judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Egress at the sender, ingress at the receiver.
    pub direction: Direction,
    /// Where.
    pub node: NodeName,
    /// Whose policy; none where the packet does not reach a port.
    pub port: Option<PortName>,
    /// What and why.
    pub explanation: Explanation,
}

/// A question without an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExplainError {
    /// No such port.
    #[error("port {0} does not exist; name one that is declared")]
    NoPort(PortName),
    /// The two ends do not speak the same language.
    #[error(
        "{from} and {to} have no address of a family that both have and the packet fits; choose other ports or another protocol"
    )]
    NoFamily {
        /// The sender.
        from: PortName,
        /// The receiver.
        to: String,
    },
    /// The model cannot be compiled.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// A node's policy cannot be compiled.
    #[error("the policy of {node} cannot be compiled: {error}")]
    Rules {
        /// The node.
        node: NodeName,
        /// Why.
        error: penstock_rules::CompileError,
    },
}

/// Answers a question about the model as it is.
///
/// # Errors
/// If the question names what is not there, or what cannot be sent.
pub fn explain(model: &Model, ids: &Ids, question: &Question) -> Result<Answer, ExplainError> {
    let Question { from, to, .. } = question;
    let sender = port(model, from)?;
    let family = family(question);
    let fits = |ip: &Addr| family.is_none_or(|v4| v4 == ip.is_v4());
    let no_family = |to: String| ExplainError::NoFamily {
        from: from.clone(),
        to,
    };
    let (source, destination, receiver) = match to {
        Destination::Ip(ip) => {
            let source = sender
                .ips
                .iter()
                .find(|s| s.is_v4() == ip.is_v4() && fits(s));
            let source = source.ok_or_else(|| no_family(ip.to_string()))?;
            let owner = model
                .ports
                .iter()
                .find(|(name, port)| name.vpc() == from.vpc() && port.ips.contains(ip));
            (*source, *ip, owner)
        }
        Destination::Port(name) => {
            let receiver = port(model, name)?;
            let pair = sender.ips.iter().filter(|s| fits(s)).find_map(|s| {
                let d = receiver.ips.iter().find(|d| d.is_v4() == s.is_v4())?;
                Some((*s, *d))
            });
            let (s, d) = pair.ok_or_else(|| no_family(name.to_string()))?;
            (s, d, Some((name, receiver)))
        }
    };
    let query = |direction, id, peer| Query {
        direction,
        port: id,
        peer,
        proto: question.protocol,
        sport: question.source_port,
        dport: question.destination_port,
    };
    let judge = |name: &PortName, port: &Port, direction, peer| {
        let query = query(direction, port_id(ids, name)?, peer);
        let policy = compile::policy(model, ids, &port.node, 1)?;
        let ruleset = Ruleset::compile(policy).map_err(|error| ExplainError::Rules {
            node: port.node.clone(),
            error,
        })?;
        let judgement = ruleset.judge(&query);
        Ok::<_, ExplainError>(Step {
            direction,
            node: port.node.clone(),
            port: Some(name.clone()),
            explanation: ruleset.explain(&judgement, &query),
        })
    };
    let egress = judge(from, sender, Direction::Egress, destination)?;
    let ingress = match receiver {
        Some((name, port)) if name.vpc() == from.vpc() => {
            judge(name, port, Direction::Ingress, source)?
        }
        Some((name, port)) => {
            let reason = if model.are_peered(&from.vpc(), &name.vpc()) {
                format!(
                    "{from} and {name} are in peered VPCs, between which nothing is forwarded yet"
                )
            } else {
                format!("{from} and {name} are in different VPCs, which never reach each other")
            };
            refusal(&port.node, Some(name), reason)
        }
        None => refusal(&sender.node, None, nobody(model, from, destination)),
    };
    let steps = vec![egress, ingress];
    let allow = steps.iter().all(|step| step.explanation.allow);
    Ok(Answer {
        allow,
        steps,
        source,
        destination,
    })
}

fn port<'a>(model: &'a Model, name: &PortName) -> Result<&'a Port, ExplainError> {
    model
        .ports
        .get(name)
        .ok_or_else(|| ExplainError::NoPort(name.clone()))
}

/// The family that the packet must have, IPv4 being true.
const fn family(question: &Question) -> Option<bool> {
    match question.protocol {
        proto::ICMP => Some(true),
        proto::ICMPV6 => Some(false),
        _ if question.ipv6 => Some(false),
        _ => None,
    }
}

/// Why an address leads nowhere.
fn nobody(model: &Model, from: &PortName, ip: Addr) -> String {
    let gateway = model
        .subnets
        .iter()
        .find(|(name, subnet)| name.vpc() == from.vpc() && subnet.gateways().any(|g| g == ip));
    match gateway {
        Some((name, _)) => format!("{ip} is the gateway of {name}, not a port"),
        None => format!(
            "no port of {} has the address {ip}, so it is mapped nowhere",
            from.vpc()
        ),
    }
}

fn refusal(node: &NodeName, port: Option<&PortName>, reason: String) -> Step {
    Step {
        direction: Direction::Ingress,
        node: node.clone(),
        port: port.cloned(),
        explanation: Explanation {
            allow: false,
            verdict: Verdict::Deny,
            rule: None,
            reason,
            tiers: Vec::new(),
            near: Vec::new(),
            audit: None,
        },
    }
}
