//! A connection on its way from one engine to another.

use penstock_flow::Tuple;
use penstock_flow::conntrack::Tracker;
use penstock_rules::model::{PortId, Vni};

use crate::counters::Traffic;
use crate::record::Name;

/// All that an engine knows of a connection, as one port sees it. It names no
/// clock, no slot and no id of a ruleset, so that another engine can go on
/// from it.
#[derive(Clone, Copy, Debug)]
pub struct FlowState {
    /// Whose connection.
    pub port: PortId,
    /// Its VPC.
    pub vni: Vni,
    /// In the opener's direction.
    pub tuple: Tuple,
    /// Opened towards the port.
    pub ingress: bool,
    /// The port at the other end, where it was on the same NIC; else 0.
    pub peer: PortId,
    /// Where its protocol stands.
    pub tracker: Tracker,
    /// Since its last packet.
    pub idle_ns: u64,
    /// Carried by the slow path.
    pub slow: Traffic,
    /// Carried by the NIC stages.
    pub nic: Traffic,
    /// Full name of the rule that admits it, or of the list that had admitted what
    /// persists; empty where none did.
    pub rule: Name,
    /// Policy would refuse it by now, and lets it go on until it ends.
    pub persists: bool,
}

/// Why a connection was not taken up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ImportError {
    /// No engine can have known it.
    Malformed,
    /// Its port is not bound here, or has no policy.
    UnknownPort,
    /// Its VPC or its near address is not the port's.
    NotThePorts,
    /// It has been silent for longer than a connection in its state may be.
    Expired,
    /// The port has a connection between the same ends.
    Duplicate,
    /// The policy in force does not admit it.
    Denied,
    /// The policy in force judges its packets one by one.
    Stateless,
    /// The port, or the table, has all connections that it may have.
    Full,
}

impl ImportError {
    /// All reasons.
    pub const ALL: [Self; 8] = [
        Self::Malformed,
        Self::UnknownPort,
        Self::NotThePorts,
        Self::Expired,
        Self::Duplicate,
        Self::Denied,
        Self::Stateless,
        Self::Full,
    ];

    /// The stable name used in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::UnknownPort => "unknown_port",
            Self::NotThePorts => "not_the_ports",
            Self::Expired => "expired",
            Self::Duplicate => "duplicate",
            Self::Denied => "denied",
            Self::Stateless => "stateless",
            Self::Full => "full",
        }
    }
}
