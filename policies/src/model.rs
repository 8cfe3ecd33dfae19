//! What operators declared, validated: every name resolves, every address is
//! where it belongs, nothing is claimed twice. Code that has a [`Model`] need
//! not check any of it again.

use std::collections::{BTreeMap, BTreeSet};

use penstock_flow::{Addr, Mac, Prefix};
use penstock_rules::model::Vni;

mod check;
mod name;
mod policy;
mod rule;
mod selector;

pub use check::{LIMITS, Limits, validate};
pub use name::{
    GroupName, NameError, NodeName, PeeringName, PolicyName, PortName, PrefixSetName, Segment,
    SubnetName, TenantName, VpcName,
};
pub use policy::{AppliesTo, Group, Mode, OnChange, Peering, Policy, PrefixSet, Tier};
pub use rule::{Action, IcmpKind, Peer, PortRange, Ports, Rule, Service};
pub use selector::{Selector, Term, Test};

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
    /// The VPCs' policies.
    pub policies: BTreeMap<PolicyName, Policy>,
    /// The VPCs' prefix sets.
    pub prefix_sets: BTreeMap<PrefixSetName, PrefixSet>,
    /// What each VPC declares about its peers.
    pub peerings: BTreeMap<PeeringName, Peering>,
    /// Which VPCs are peered in force with each: both sides declare it.
    pub peered: BTreeMap<VpcName, BTreeSet<VpcName>>,
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
    /// What selectors look at.
    pub labels: BTreeMap<String, String>,
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
    /// Whether two VPCs are peered in force.
    #[must_use]
    pub fn are_peered(&self, a: &VpcName, b: &VpcName) -> bool {
        self.peered.get(a).is_some_and(|peers| peers.contains(b))
    }

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
