//! Rules, as written.

use serde::Serialize;

use super::{Selector, is_zero};

/// Says what becomes of some packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// Unique in its group or policy.
    pub name: String,
    /// Must be given.
    pub direction: Option<Direction>,
    /// Must be given in ADMIN and BASELINE; else only ALLOW, the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<RuleAction>,
    /// Low wins, default 1000; ADMIN and BASELINE only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
    /// Default any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    /// Destination ports; empty: all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<PortRange>,
    /// Source ports; empty: all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub source_ports: Vec<PortRange>,
    /// Absent: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icmp_type: Option<u32>,
    /// Absent: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icmp_code: Option<u32>,
    /// The other end; empty: everyone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<Peer>,
    /// Whether a packet that is allowed makes a connection; default true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stateful: Option<bool>,
    /// Whether a packet that the rule decides about is logged.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub log: bool,
}

/// Ports, both ends included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PortRange {
    /// Lower end.
    pub first: u32,
    /// Upper end; 0: `first`.
    #[serde(skip_serializing_if = "is_zero")]
    pub last: u32,
}

/// The other end of a rule: exactly one of the fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Peer {
    /// Addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cidr: Option<Cidr>,
    /// A prefix set of the same VPC: full name, or last segment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix_set: Option<String>,
    /// Members of a group: full name, or last segment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_group: Option<String>,
    /// Ports by their labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<Selector>,
    /// A port: full name, or last segment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
    /// Every address of a VPC's prefixes: full name, or last segment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vpc: Option<String>,
}

/// A prefix with holes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cidr {
    /// Where.
    pub prefix: String,
    /// Holes in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<String>,
}

words! {
    /// As seen from the port.
    Direction {
        /// To the port.
        Ingress = "INGRESS",
        /// From the port.
        Egress = "EGRESS",
    }
}

words! {
    /// What a rule does with a packet.
    RuleAction {
        /// It passes.
        Allow = "ALLOW",
        /// It is dropped.
        Deny = "DENY",
        /// It is dropped, and its sender is told.
        Reject = "REJECT",
        /// The next tier decides.
        Pass = "PASS",
    }
}

words! {
    /// What a rule speaks of.
    Protocol {
        /// Every protocol.
        Any = "ANY",
        /// TCP.
        Tcp = "TCP",
        /// UDP, but for RoCEv2.
        Udp = "UDP",
        /// SCTP.
        Sctp = "SCTP",
        /// ICMP for IPv4.
        Icmp = "ICMP",
        /// ICMP for IPv6.
        Icmpv6 = "ICMPV6",
        /// RDMA: UDP to port 4791.
        Rocev2 = "ROCEV2",
    }
}
