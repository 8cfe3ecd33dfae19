//! Rules.

use penstock_flow::Prefix;
use penstock_rules::model::Direction;

use super::{GroupName, PortName, PrefixSetName, Segment, Selector, VpcName};

/// Says what becomes of some packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Unique in its group or policy.
    pub name: Segment,
    /// Which way it looks.
    pub direction: Direction,
    /// What it does.
    pub action: Action,
    /// Low wins; the tenant tier has none.
    pub priority: u16,
    /// What it speaks of.
    pub service: Service,
    /// The other end, any of these; empty: everyone.
    pub peers: Vec<Peer>,
    /// Whether what it allows makes a connection.
    pub stateful: bool,
    /// Whether its decisions are logged.
    pub log: bool,
}

/// What a rule does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It passes.
    Allow,
    /// It is dropped.
    Deny,
    /// It is dropped, and its sender is told.
    Reject,
    /// The next tier decides.
    Pass,
}

/// Protocol and what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Service {
    /// Every protocol.
    Any,
    /// TCP.
    Tcp(Ports),
    /// UDP, but for RoCEv2.
    Udp(Ports),
    /// SCTP.
    Sctp(Ports),
    /// ICMP for IPv4.
    Icmp(IcmpKind),
    /// ICMP for IPv6.
    Icmpv6(IcmpKind),
    /// UDP to port 4791.
    Rocev2,
}

/// Which ports, either list being all if it is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ports {
    /// From these.
    pub source: Vec<PortRange>,
    /// To these.
    pub destination: Vec<PortRange>,
}

/// Ports, `first <= last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    /// Lower end.
    pub first: u16,
    /// Upper end.
    pub last: u16,
}

/// Which ICMP messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpKind {
    /// All.
    Every,
    /// All of a type.
    Type(u8),
    /// One code of a type.
    Code(u8, u8),
}

/// The other end of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Inside `prefix` and in none of `except`.
    Cidr {
        /// Where.
        prefix: Prefix,
        /// Holes in it.
        except: Vec<Prefix>,
    },
    /// Inside one of a set of the same VPC.
    PrefixSet(PrefixSetName),
    /// A member of a group.
    Group(GroupName),
    /// A port with such labels.
    Selector(Selector),
    /// One port.
    Port(PortName),
    /// An address of a VPC's prefixes.
    Vpc(VpcName),
}

impl Peer {
    /// The VPC that it lies in, and its field; nothing where it is not bound to one.
    #[must_use]
    pub fn home(&self) -> Option<(VpcName, &'static str)> {
        match self {
            Self::Cidr { .. } => None,
            Self::PrefixSet(name) => Some((name.vpc(), "prefixSet")),
            Self::Group(name) => Some((name.vpc(), "securityGroup")),
            Self::Selector(selector) => Some((selector.vpc().clone(), "selector")),
            Self::Port(name) => Some((name.vpc(), "port")),
            Self::Vpc(name) => Some((name.clone(), "vpc")),
        }
    }
}
