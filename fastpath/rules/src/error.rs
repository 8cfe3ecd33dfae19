//! Why a policy cannot be compiled.

use alloc::string::String;

use penstock_flow::Addr;

use crate::model::{GroupId, SetId, SubnetId, Vni};

/// A policy that contradicts itself. The controller validates what operators
/// write; this is the worker's own check of what arrives.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// A VNI that is not in `vpcs`.
    #[error("{what} is in VPC {vni}, which the policy does not hold; send the VPC with it")]
    UnknownVpc {
        /// The object that names it.
        what: String,
        /// The VNI named.
        vni: Vni,
    },
    /// A subnet that is not in `subnets`, or is another VPC's.
    #[error(
        "port {port} is in subnet {subnet}, which its VPC does not hold; send the subnet with it"
    )]
    UnknownSubnet {
        /// The port's name.
        port: String,
        /// The subnet named.
        subnet: SubnetId,
    },
    /// A group that is not in `groups`, or is a VPC's that may not be named here.
    #[error(
        "{what} names group {group}, which its VPC and those peered with it do not hold; send the group with it"
    )]
    UnknownGroup {
        /// The object that names it.
        what: String,
        /// The group named.
        group: GroupId,
    },
    /// A prefix set that is not in `sets`, or is a VPC's that may not be named here.
    #[error(
        "{what} names prefix set {set}, which its VPC and those peered with it do not hold; send the set with it"
    )]
    UnknownSet {
        /// The object that names it.
        what: String,
        /// The set named.
        set: SetId,
    },
    /// What a change takes away is not there.
    #[error("{what} is to go, and is not here")]
    NotHere {
        /// Which one.
        what: String,
    },
    /// What a change takes away is named by something that stays.
    #[error("{what} is to go, and something that stays names it; let that go as well")]
    StillNamed {
        /// Which one.
        what: String,
    },
    /// A rule with `first > last`.
    #[error("rule {rule} has the port range {first}-{last}; the first must not exceed the last")]
    InvertedPorts {
        /// The rule's name.
        rule: String,
        /// Lower end.
        first: u16,
        /// Upper end.
        last: u16,
    },
    /// Ports without a protocol that has ports.
    #[error("rule {rule} names ports; they need protocol TCP, UDP or SCTP")]
    PortsWithoutProtocol {
        /// The rule's name.
        rule: String,
    },
    /// An ICMP type or code without ICMP or `ICMPv6`, or a code without a type.
    #[error(
        "rule {rule} names an ICMP type or code; they need protocol ICMP or ICMPv6, and a code needs a type"
    )]
    IcmpWithoutProtocol {
        /// The rule's name.
        rule: String,
    },
    /// An action that the list's tier does not know.
    #[error(
        "rule {rule} has an action that its list's tier does not know; tenant lists allow, baseline lists do not pass"
    )]
    ActionOfTier {
        /// The rule's name.
        rule: String,
    },
    /// A rule that refuses, and is stateless.
    #[error("rule {rule} is stateless and does not allow; only rules that allow may be stateless")]
    StatelessRefusal {
        /// The rule's name.
        rule: String,
    },
    /// Two subnets of one VPC claim the same gateway.
    #[error("two subnets of VPC {vni} have the gateway {gateway}; give each subnet its own")]
    GatewayTwice {
        /// The VPC.
        vni: Vni,
        /// The address.
        gateway: Addr,
    },
    /// More rules in a list than can be told apart.
    #[error("{list} has {rules} rules; a list takes 65535 at most: split it")]
    TooManyRules {
        /// The list.
        list: String,
        /// How many it has.
        rules: usize,
    },
}
