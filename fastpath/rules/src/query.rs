//! What is asked of a ruleset, and what it answers.

use penstock_flow::Addr;

use crate::model::{Direction, ListId, PortId};

/// A packet that would open a connection, as one port sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Query {
    /// Whether the packet enters or leaves the port.
    pub direction: Direction,
    /// The port that is asked.
    pub port: PortId,
    /// The other end: the source on ingress, the destination on egress.
    pub peer: Addr,
    /// IANA protocol number.
    pub proto: u8,
    /// Source port, or ICMP identifier.
    pub sport: u16,
    /// Destination port, or ICMP `type << 8 | code`.
    pub dport: u16,
}

/// A rule of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId {
    /// The list.
    pub list: ListId,
    /// The rule's place in [`List::rules`](crate::model::List::rules).
    pub index: u16,
}

/// What becomes of a packet, and what decided it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Judgement {
    /// What becomes of it.
    pub verdict: Verdict,
    /// What decided.
    pub decision: Decision,
    /// What it opens is a connection. Always, but for a rule that says otherwise.
    pub stateful: bool,
    /// The deciding rule wants it told.
    pub log: bool,
    /// It passes, but would not, were lists in audit enforced: what would refuse it.
    pub audit: Option<Decision>,
}

impl Judgement {
    /// Nobody knows the port.
    pub const NO_PORT: Self = Self {
        verdict: Verdict::Deny,
        decision: Decision::NoPort,
        stateful: true,
        log: false,
        audit: None,
    };

    /// Whether the packet may pass.
    #[must_use]
    pub const fn allow(&self) -> bool {
        matches!(self.verdict, Verdict::Allow)
    }
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It may pass.
    Allow,
    /// It may not.
    Deny,
    /// It may not, and its sender is told.
    Reject,
}

/// What decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// This rule.
    Rule(RuleId),
    /// A tenant list selects the port in this direction, and no rule allows it.
    Closed,
    /// No tier has decided: the VPC's default.
    VpcDefault,
    /// The policy does not know the port.
    NoPort,
}
