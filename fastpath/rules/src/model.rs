//! A node's policy as data: what the controller compiles to and the worker
//! compiles from. Maps are ordered, so equal policies are equal values.

mod list;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use penstock_flow::{Addr, Mac, Prefix};

pub use list::{
    Action, Applies, DEFAULT_PRIORITY, Direction, List, OnChange, Peer, Peers, Protocol, Rule, Tier,
};

/// A VPC's id on the data plane: its VNI, 1 to 2^24 - 1.
pub type Vni = u32;
/// A port's id. All ids but VNIs are chosen by the controller, from one space; 0 is none.
pub type PortId = u32;
/// A group's id.
pub type GroupId = u32;
/// A subnet's id.
pub type SubnetId = u32;
/// A prefix set's id.
pub type SetId = u32;
/// A list's id.
pub type ListId = u32;

/// Everything one node has to judge by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Counts policies of this node; 0: none yet.
    pub generation: u64,
    /// The VPCs that have a port on this node, and those peered in force with one.
    pub vpcs: BTreeMap<Vni, Vpc>,
    /// Subnets of the VPCs that have a port here.
    pub subnets: BTreeMap<SubnetId, Subnet>,
    /// Who can be named together. Who is in a group stands at endpoints and ports.
    pub groups: BTreeMap<GroupId, Group>,
    /// Prefixes that can be named together.
    pub sets: BTreeMap<SetId, PrefixSet>,
    /// The rules of security groups and policies.
    pub lists: BTreeMap<ListId, List>,
    /// This node's ports.
    pub ports: BTreeMap<PortId, Port>,
    /// Every address of those VPCs, on whatever node.
    pub endpoints: BTreeMap<(Vni, Addr), Endpoint>,
    /// Every other end of the underlay, with its node's name.
    pub vteps: BTreeMap<Addr, String>,
}

/// An address space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vpc {
    /// Full resource name.
    pub name: String,
    /// What happens where nothing decides.
    pub default_allow: bool,
    /// The VPCs that are peered with it in force. No address is in two of them.
    pub peers: BTreeSet<Vni>,
}

/// A subnet: who its gateway is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subnet {
    /// Full resource name.
    pub name: String,
    /// The VPC it belongs to.
    pub vni: Vni,
    /// At most one per family.
    pub prefixes: Vec<Prefix>,
    /// The gateway of each prefix.
    pub gateways: Vec<Addr>,
    /// Bytes of an IP packet.
    pub mtu: u16,
}

/// A security group, or everyone whom a selector finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Full resource name, or the selector's text.
    pub name: String,
    /// The VPC whose ports may be members.
    pub vni: Vni,
}

/// Prefixes under one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixSet {
    /// Full resource name.
    pub name: String,
    /// The VPC it belongs to.
    pub vni: Vni,
    /// Either family, ascending, each once; they may nest.
    pub prefixes: Vec<Prefix>,
}

/// A port on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Full resource name.
    pub name: String,
    /// The VPC it belongs to.
    pub vni: Vni,
    /// The subnet it belongs to.
    pub subnet: SubnetId,
    /// The NIC it hangs on (P4Runtime device id).
    pub device_id: u32,
    /// The host's interface name.
    pub attachment: String,
    /// 802.1Q tag; 0: untagged.
    pub vlan: u16,
    /// Its only source MAC.
    pub mac: Mac,
    /// Its only source addresses.
    pub ips: Vec<Addr>,
    /// Its groups, ascending.
    pub groups: Vec<GroupId>,
}

/// An address somewhere in a VPC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Answers ARP and ND.
    pub mac: Mac,
    /// Whose address it is.
    pub port: PortId,
    /// Groups it is a member of, ascending.
    pub groups: Vec<GroupId>,
}
