//! What operators declared, validated: every name resolves, every address is
//! where it belongs, nothing is claimed twice. Code that has a [`Model`] need
//! not check any of it again.

use std::collections::{BTreeMap, BTreeSet};

use penstock_flow::{Addr, Mac, Prefix};
use penstock_rules::model::{Direction, Vni};

mod check;
mod name;

pub use check::{LIMITS, Limits, validate};
pub use name::{
    GroupName, NameError, NodeName, PortName, Segment, SubnetName, TenantName, VpcName,
};

/// Everything that is declared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    /// Tenants.
    pub tenants: BTreeMap<TenantName, Tenant>,
    /// Their VPCs.
    pub vpcs: BTreeMap<VpcName, Vpc>,
    /// The VPCs' subnets.
    pub subnets: BTreeMap<SubnetName, Subnet>,
    /// The VPCs' security groups.
    pub groups: BTreeMap<GroupName, Group>,
    /// The VPCs' ports.
    pub ports: BTreeMap<PortName, Port>,
    /// Hosts.
    pub nodes: BTreeMap<NodeName, Node>,
}

/// Whose VPCs these are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// For people.
    pub display_name: String,
}

/// An address space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vpc {
    /// Unique.
    pub vni: Vni,
    /// Disjoint.
    pub cidrs: Vec<Prefix>,
    /// What happens where no policy decides.
    pub default_allow: bool,
}

/// A part of a VPC's addresses, disjoint from its other subnets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subnet {
    /// At most one per family, at least one.
    pub cidrs: Vec<Prefix>,
    /// Bytes of an IP packet.
    pub mtu: u16,
}

impl Subnet {
    /// The first address of each prefix is its gateway's.
    pub fn gateways(&self) -> impl Iterator<Item = Addr> + '_ {
        self.cidrs.iter().map(|p| gateway(*p))
    }
}

/// The gateway of a subnet's prefix: the address after the network's own.
#[must_use]
pub fn gateway(prefix: Prefix) -> Addr {
    // A subnet's prefix has at least four addresses.
    Addr(prefix.addr().0 | 1)
}

/// A workload's interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Of the same VPC.
    pub subnet: SubnetName,
    /// Where it is.
    pub node: NodeName,
    /// One of the node's NICs.
    pub nic: u32,
    /// The host's interface name.
    pub attachment: String,
    /// 0: untagged.
    pub vlan: u16,
    /// Unicast, unique in the VPC.
    pub mac: Mac,
    /// Of the subnet, unique in the VPC, at least one.
    pub ips: Vec<Addr>,
    /// Of the same VPC.
    pub groups: BTreeSet<GroupName>,
    /// For people and programs.
    pub labels: BTreeMap<String, String>,
}

/// A security group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Directions in which its members are closed but for rules.
    pub directions: BTreeSet<Direction>,
    /// Allow rules, with different names, in those directions.
    pub rules: Vec<Rule>,
}

/// An allow rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Unique in its group.
    pub name: Segment,
    /// Which way it looks.
    pub direction: Direction,
    /// What it speaks of.
    pub service: Service,
    /// The other end, any of these; empty: everyone in the VPC.
    pub peers: Vec<Peer>,
}

/// Protocol and what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Service {
    /// Every protocol.
    Any,
    /// TCP to these ports; empty: all.
    Tcp(Vec<PortRange>),
    /// UDP to these ports; empty: all.
    Udp(Vec<PortRange>),
    /// ICMP for IPv4.
    Icmp(IcmpKind),
    /// ICMP for IPv6.
    Icmpv6(IcmpKind),
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
    /// A member of a group of the same VPC.
    Group(GroupName),
}

/// A host with a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// `host:port`, unique.
    pub worker_address: String,
    /// By device id, at least one.
    pub nics: BTreeMap<u32, Nic>,
}

/// A back-end NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nic {
    /// Unique over all nodes.
    pub vtep: Addr,
    /// Bytes of an IP packet on the underlay.
    pub underlay_mtu: u16,
}

impl Nic {
    /// Bytes that the overlay puts before a tenant's IP packet: inner Ethernet,
    /// VXLAN, UDP and the outer IP header.
    #[must_use]
    pub const fn overhead(&self) -> u16 {
        if self.vtep.is_v4() { 50 } else { 70 }
    }

    /// Bytes of the largest tenant's IP packet that the underlay takes.
    #[must_use]
    pub const fn tenant_mtu(&self) -> u16 {
        self.underlay_mtu.saturating_sub(self.overhead())
    }
}

impl Model {
    /// The ports of a node, and of each NIC's.
    pub fn ports_of<'a>(
        &'a self,
        node: &'a NodeName,
    ) -> impl Iterator<Item = (&'a PortName, &'a Port)> {
        self.ports
            .iter()
            .filter(move |(_, port)| port.node == *node)
    }
}
