//! The model as the static tables of one node's NICs, as plain data: what the
//! controller writes, in the words of the P4 program.
//!
//! A VPC is in a NIC's tables if one of its ports hangs on that NIC. Two NICs
//! of one node are as remote to each other as two nodes.

use std::collections::{BTreeMap, BTreeSet};

use penstock_flow::{Addr, Mac, Prefix};
use penstock_rules::model::{PortId, Vni};

use crate::compile::{CompileError, port_id, vni};
use crate::ids::Ids;
use crate::model::{Model, NodeName, Port, PortName, VpcName};

/// A next hop's number: that of the port it leads to, wherever the port is. So
/// a port that moves is one write per NIC, and no flow or mapping changes.
pub type NexthopId = u32;

/// What the worker has told about a node's interfaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interfaces {
    /// The device port that each port's attachment has become; none: not yet.
    pub ports: BTreeMap<PortId, u32>,
    /// The device port of each NIC's uplink, by device id; none: not yet.
    pub uplinks: BTreeMap<u32, u32>,
}

impl Interfaces {
    /// A node with all its interfaces, numbered from 1: uplinks first, then ports, of which
    /// those on one interface have one number.
    ///
    /// # Errors
    /// If the node or an id is missing.
    pub fn made_up(model: &Model, ids: &Ids, node: &NodeName) -> Result<Self, CompileError> {
        let declared = model.nodes.get(node);
        let declared = declared.ok_or_else(|| CompileError::NoNode(node.clone()))?;
        let mut numbers = 1..;
        let uplinks = declared.nics.keys().copied().zip(&mut numbers).collect();
        let mut attached: BTreeMap<&str, u32> = BTreeMap::new();
        let mut ports = BTreeMap::new();
        for (name, port) in model.ports_of(node) {
            let number = match attached.get(port.attachment.as_str()) {
                Some(number) => Some(*number),
                None => numbers.next(),
            };
            if let Some(number) = number {
                attached.insert(&port.attachment, number);
                ports.insert(port_id(ids, name)?, number);
            }
        }
        Ok(Self { ports, uplinks })
    }
}

/// One NIC's static tables but for `acl`, which stays empty: everything new is
/// asked. Maps are ordered, so equal programs are equal
/// values and a difference is a merge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// Who sends on a device port.
    pub vport: BTreeMap<VportKey, Vport>,
    /// Tunnels that may arrive; the VNI is the VPC.
    pub underlay: BTreeSet<UnderlayKey>,
    /// Source addresses that may be used.
    pub spoof_guard: BTreeSet<SpoofKey>,
    /// Where an address is.
    pub mapping: BTreeMap<MappingKey, NexthopId>,
    /// How to get there.
    pub nexthop: BTreeMap<NexthopId, Nexthop>,
}

/// Where a packet came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VportKey {
    /// The worker's number of the interface.
    pub device_port: u32,
    /// 0: untagged.
    pub vlan: u16,
}

/// Whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vport {
    /// The port's id.
    pub port: PortId,
    /// The VPC.
    pub vni: Vni,
}

/// A tunnel, as an arriving packet shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnderlayKey {
    /// The other end.
    pub src_vtep: Addr,
    /// This end.
    pub dst_vtep: Addr,
    /// The VPC.
    pub vni: Vni,
}

/// What a port may send with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpoofKey {
    /// The port's id.
    pub port: PortId,
    /// Source MAC.
    pub mac: Mac,
    /// Source address.
    pub ip: Addr,
}

/// A destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MappingKey {
    /// The VPC.
    pub vni: Vni,
    /// Where in it.
    pub dst: Prefix,
}

/// How to reach a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Nexthop {
    /// It is on this NIC.
    ToPort {
        /// The worker's number of the interface.
        device_port: u32,
        /// 0: untagged.
        vlan: u16,
        /// The port's own MAC.
        mac: Mac,
    },
    /// It is behind another VTEP.
    ToVtep {
        /// This end.
        src_vtep: Addr,
        /// The other end.
        dst_vtep: Addr,
        /// Zero: the uplink's own.
        src_mac: Mac,
        /// Zero: the worker resolves it.
        dst_mac: Mac,
        /// On the wire.
        vni: Vni,
        /// Bytes of a tenant's IP packet that both ends' underlay takes.
        mtu: u16,
        /// The uplink.
        device_port: u32,
    },
}

/// The tables of each of a node's NICs, by device id. A port whose interface
/// is not there yet has no `vport`, `mapping` or `nexthop` entry, nor has a
/// remote one while the NIC has no uplink.
///
/// # Errors
/// If the node or an id is missing.
pub fn programs(
    model: &Model,
    ids: &Ids,
    node: &NodeName,
    interfaces: &Interfaces,
) -> Result<BTreeMap<u32, Program>, CompileError> {
    let found = model
        .nodes
        .get(node)
        .ok_or_else(|| CompileError::NoNode(node.clone()))?;
    let mut programs: BTreeMap<u32, Program> = found
        .nics
        .keys()
        .map(|id| (*id, Program::default()))
        .collect();
    let members = Members::of(model);
    for (device_id, program) in &mut programs {
        let at = Nic {
            node,
            device_id: *device_id,
        };
        for (vpc, nics) in &members.0 {
            if nics.contains_key(&at) {
                program.vpc(model, ids, at, vpc, nics, interfaces)?;
            }
        }
    }
    Ok(programs)
}

/// Every other end that a node's NICs exchange tunnels with, and whose it is.
#[must_use]
pub fn peers<'a>(model: &'a Model, node: &NodeName) -> BTreeMap<Addr, &'a NodeName> {
    let mut peers = BTreeMap::new();
    for nics in Members::of(model).0.values() {
        let own = nics.keys().filter(|nic| nic.node == node).count();
        for other in nics.keys() {
            // An own NIC is the other end of a second own NIC's tunnels.
            let is_peer = if other.node == node { own > 1 } else { own > 0 };
            if is_peer && let Some(nic) = other.find(model) {
                peers.insert(nic.vtep, other.node);
            }
        }
    }
    peers
}

/// A NIC of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Nic<'a> {
    node: &'a NodeName,
    device_id: u32,
}

impl Nic<'_> {
    fn find(self, model: &Model) -> Option<crate::model::Nic> {
        let nic = model.nodes.get(self.node)?.nics.get(&self.device_id)?;
        Some(*nic)
    }
}

/// The ports of each VPC by the NIC they hang on.
struct Members<'a>(BTreeMap<VpcName, ByNic<'a>>);

type ByNic<'a> = BTreeMap<Nic<'a>, Vec<(&'a PortName, &'a Port)>>;

impl<'a> Members<'a> {
    fn of(model: &'a Model) -> Self {
        let mut members = Self(BTreeMap::new());
        for (name, port) in &model.ports {
            let nic = Nic {
                node: &port.node,
                device_id: port.nic,
            };
            members
                .0
                .entry(name.vpc())
                .or_default()
                .entry(nic)
                .or_default()
                .push((name, port));
        }
        members
    }
}

impl Program {
    fn vpc(
        &mut self,
        model: &Model,
        ids: &Ids,
        here: Nic<'_>,
        vpc: &VpcName,
        nics: &ByNic<'_>,
        interfaces: &Interfaces,
    ) -> Result<(), CompileError> {
        let vni = vni(model, vpc)?;
        let missing =
            |nic: Nic<'_>| CompileError::Missing(format!("NIC {} of {}", nic.device_id, nic.node));
        let own = model
            .nodes
            .get(here.node)
            .and_then(|n| n.nics.get(&here.device_id));
        let own = own.ok_or_else(|| missing(here))?;
        for (nic, ports) in nics {
            let far = if *nic == here {
                None
            } else {
                let other = nic.find(model).ok_or_else(|| missing(*nic))?;
                let src_vtep = other.vtep;
                self.underlay.insert(UnderlayKey {
                    src_vtep,
                    dst_vtep: own.vtep,
                    vni,
                });
                Some((src_vtep, own.tenant_mtu().min(other.tenant_mtu())))
            };
            for (name, port) in ports {
                let id = port_id(ids, name)?;
                let nexthop = match far {
                    None => {
                        self.own_port(id, vni, port, interfaces);
                        interfaces
                            .ports
                            .get(&id)
                            .map(|device_port| Nexthop::ToPort {
                                device_port: *device_port,
                                vlan: port.vlan,
                                mac: port.mac,
                            })
                    }
                    Some((dst_vtep, mtu)) => {
                        interfaces
                            .uplinks
                            .get(&here.device_id)
                            .map(|uplink| Nexthop::ToVtep {
                                src_vtep: own.vtep,
                                dst_vtep,
                                src_mac: Mac::default(),
                                dst_mac: Mac::default(),
                                vni,
                                mtu,
                                device_port: *uplink,
                            })
                    }
                };
                let Some(nexthop) = nexthop else {
                    continue;
                };
                self.nexthop.insert(id, nexthop);
                for dst in port.ips.iter().filter_map(|ip| Prefix::new(*ip, 128)) {
                    self.mapping.insert(MappingKey { vni, dst }, id);
                }
            }
        }
        Ok(())
    }

    fn own_port(&mut self, id: PortId, vni: Vni, port: &Port, interfaces: &Interfaces) {
        for ip in &port.ips {
            self.spoof_guard.insert(SpoofKey {
                port: id,
                mac: port.mac,
                ip: *ip,
            });
        }
        if let Some(device_port) = interfaces.ports.get(&id) {
            let key = VportKey {
                device_port: *device_port,
                vlan: port.vlan,
            };
            self.vport.insert(key, Vport { port: id, vni });
        }
    }
}
