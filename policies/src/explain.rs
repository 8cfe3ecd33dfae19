//! One packet between two ports, judged as the workers would: egress by the
//! sender's node, ingress by the receiver's, each by its own policy. And what then
//! carries it: the route, who enforces the verdict, the NICs' entries.

mod route;

use penstock_flow::tuple::proto;
use penstock_flow::{Addr, Tuple};
pub use penstock_rules::Verdict;
pub use penstock_rules::model::{Action, Direction, Tier};
pub use penstock_rules::{Explanation, Match, NearMiss, Outcome, TierSays};
use penstock_rules::{Query, Ruleset};

use crate::compile::{self, CompileError, port_id};
use crate::ids::Ids;
use crate::model::{Model, NodeName, Port, PortName};

use route::End;
pub use route::{FlowEntry, Hop, Route};

/// The UDP port of VXLAN.
const VXLAN_PORT: u16 = 4789;

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
    /// Its way from the sender's NIC; none where it is mapped nowhere.
    pub route: Option<Route>,
    /// What NICs' flow tables get, if it passes and its connection is established.
    pub entries: Vec<FlowEntry>,
}

/// One place where it is judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Egress at the sender, ingress at the receiver.
    pub direction: Direction,
    /// Where.
    pub node: NodeName,
    /// Which of the node's NICs.
    pub device_id: u32,
    /// Whose policy; none where the packet does not reach a port.
    pub port: Option<PortName>,
    /// What and why.
    pub explanation: Explanation,
    /// Who carries the verdict out on a packet that no connection owns.
    pub first: Enforcer,
    /// Who deals with the packets of the established connection; none: it makes none.
    pub established: Option<Enforcer>,
}

/// Who carries out what policy says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enforcer {
    /// The node's slow path, which the NIC asks.
    Software,
    /// The NIC's own `flow` stage.
    Flow,
    /// The NIC's `mapping` does not lead there.
    Mapping,
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
        let explanation = ruleset.explain(&judgement, &query);
        let makes = explanation.allow && explanation.stateful;
        Ok::<_, ExplainError>(Step {
            direction,
            node: port.node.clone(),
            device_id: port.nic,
            port: Some(name.clone()),
            explanation,
            first: Enforcer::Software,
            established: makes.then_some(Enforcer::Software),
        })
    };
    let mut egress = judge(from, sender, Direction::Egress, destination)?;
    if (question.protocol, question.destination_port) == (proto::UDP, VXLAN_PORT) {
        let reason = "UDP to port 4789 is VXLAN, and tunnels inside a VPC are never forwarded";
        egress.explanation = refused(reason.to_owned());
    }
    let ingress = match receiver {
        Some((name, port)) if name.vpc() == from.vpc() => {
            judge(name, port, Direction::Ingress, source)?
        }
        Some((name, _)) => {
            let reason = if model.are_peered(&from.vpc(), &name.vpc()) {
                format!(
                    "{from} and {name} are in peered VPCs, between which nothing is forwarded yet"
                )
            } else {
                format!("{from} and {name} are in different VPCs, which never reach each other")
            };
            refusal(sender, Some(name), reason)
        }
        None => refusal(sender, None, nobody(model, from, destination)),
    };
    let mut answer = Answer {
        allow: egress.explanation.allow && ingress.explanation.allow,
        steps: vec![egress, ingress],
        source,
        destination,
        route: None,
        entries: Vec::new(),
    };
    if !answer.allow {
        // Nothing is established of which an end refuses the first packet.
        for step in &mut answer.steps {
            step.established = None;
        }
    }
    if let Some((name, port)) = receiver.filter(|(name, _)| name.vpc() == from.vpc()) {
        let tuple = Tuple {
            src: source,
            dst: destination,
            proto: question.protocol,
            sport: question.source_port,
            dport: question.destination_port,
        };
        let from = End {
            name: from,
            port: sender,
        };
        answer.carried(model, ids, from, End { name, port }, tuple)?;
    }
    Ok(answer)
}

impl Answer {
    /// What becomes of the packet; who refuses first says how.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let refusing = self.steps.iter().find(|step| !step.explanation.allow);
        refusing.map_or(Verdict::Allow, |step| step.explanation.verdict)
    }

    fn carried(
        &mut self,
        model: &Model,
        ids: &Ids,
        from: End<'_>,
        to: End<'_>,
        tuple: Tuple,
    ) -> Result<(), ExplainError> {
        self.route = route::route(model, ids, from, to, tuple.dst)?;
        let Some(route) = self.route.as_ref().filter(|_| self.allow) else {
            return Ok(());
        };
        self.entries = route::entries(ids, route.vni, from, to, tuple, &self.steps)?;
        for step in &mut self.steps {
            let has = |e: &FlowEntry| e.node == step.node && e.device_id == step.device_id;
            if self.entries.iter().any(has) {
                step.established = Some(Enforcer::Flow);
            }
        }
        Ok(())
    }
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

/// It ends at the sender's node, before any receiver is asked.
fn refusal(sender: &Port, port: Option<&PortName>, reason: String) -> Step {
    Step {
        direction: Direction::Ingress,
        node: sender.node.clone(),
        device_id: sender.nic,
        port: port.cloned(),
        explanation: refused(reason),
        first: Enforcer::Mapping,
        established: None,
    }
}

/// Whatever policy says.
const fn refused(reason: String) -> Explanation {
    Explanation {
        allow: false,
        verdict: Verdict::Deny,
        rule: None,
        reason,
        stateful: true,
        log: false,
        tiers: Vec::new(),
        near: Vec::new(),
        audit: None,
    }
}
