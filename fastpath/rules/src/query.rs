//! What is asked of a ruleset, and what it answers.

use penstock_flow::Addr;

use crate::model::{Direction, PortId};

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

/// A rule of one [`Ruleset`](crate::Ruleset): 0 to `rule_count() - 1`, by group
/// id and then by place in the group. It means nothing to another ruleset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(pub u32);

/// Whether the packet may pass, and what decided it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Judgement {
    /// Whether it may pass.
    pub allow: bool,
    /// What decided.
    pub decision: Decision,
}

/// What decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// This rule allows it.
    Rule(RuleId),
    /// The port is selected in this direction, and no rule allows it.
    Closed,
    /// The port is not selected in this direction: its VPC's default.
    VpcDefault,
    /// The policy does not know the port.
    NoPort,
}
