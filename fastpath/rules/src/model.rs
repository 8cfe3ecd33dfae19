//! A node's policy as data: what the controller compiles to and the worker
//! compiles from. Maps are ordered, so equal policies are equal values.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use penstock_flow::{Addr, Mac, Prefix};

/// A VPC's id on the data plane: its VNI, 1 to 2^24 - 1.
pub type Vni = u32;
/// A port's id, chosen by the controller; 0 is no port.
pub type PortId = u32;
/// A security group's id, chosen by the controller.
pub type GroupId = u32;
/// A subnet's id, chosen by the controller.
pub type SubnetId = u32;

/// Everything one node has to judge by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Counts policies of this node; 0: none yet.
    pub generation: u64,
    /// The VPCs that have a port on this node.
    pub vpcs: BTreeMap<Vni, Vpc>,
    /// Their subnets.
    pub subnets: BTreeMap<SubnetId, Subnet>,
    /// Their security groups.
    pub groups: BTreeMap<GroupId, Group>,
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

/// A security group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Full resource name.
    pub name: String,
    /// The VPC it belongs to.
    pub vni: Vni,
    /// Members' ingress is closed except for what a rule allows.
    pub selects_ingress: bool,
    /// Members' egress is closed except for what a rule allows.
    pub selects_egress: bool,
    /// Allow rules.
    pub rules: Vec<Rule>,
}

/// An allow rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Full name: `GROUP/rules/RULE`.
    pub name: String,
    /// Which way it looks.
    pub direction: Direction,
    /// IANA number; `None`: any.
    pub protocol: Option<u8>,
    /// Destination ports, both ends included; empty: all.
    pub ports: Vec<(u16, u16)>,
    /// ICMP type; `None`: all.
    pub icmp_type: Option<u8>,
    /// ICMP code; `None`: all.
    pub icmp_code: Option<u8>,
    /// The other end, any of these; empty: everyone.
    pub peers: Vec<Peer>,
}

/// As seen from the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// To the port.
    Ingress,
    /// From the port.
    Egress,
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
    /// An address whose endpoint is a member.
    Group(GroupId),
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
