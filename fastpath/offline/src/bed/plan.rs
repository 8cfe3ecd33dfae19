//! Who is where, with the numbers that are made up.

use std::collections::{BTreeMap, HashMap};

use penstock_flow::{Addr, Mac};
use penstock_policies::Ids;
use penstock_policies::compile::CompileError;
use penstock_policies::model::{Model, NodeName, Port, PortName};
use penstock_policies::nic::Interfaces;
use penstock_rules::model::Vni;

/// A port and the device port that it has been given.
#[derive(Clone, Copy, Debug)]
pub struct Place<'m> {
    /// Its full name.
    pub name: &'m PortName,
    /// What is declared.
    pub port: &'m Port,
    /// Its id.
    pub id: u32,
    /// Its VPC's.
    pub vni: Vni,
    /// Which of the bed's nodes it is on.
    pub(super) node: usize,
    pub(super) device_port: u32,
}

/// A NIC's end of the underlay.
#[derive(Clone, Copy, Debug)]
pub struct Uplink<'m> {
    /// Whose NIC.
    pub name: &'m NodeName,
    /// Which one.
    pub device_id: u32,
    /// Its address.
    pub vtep: Addr,
    pub(super) mtu: u16,
    pub(super) mac: Mac,
    pub(super) node: usize,
    pub(super) device_port: u32,
}

#[derive(Debug)]
pub(super) struct Planned<'m> {
    pub(super) name: &'m NodeName,
    pub(super) uplinks: Vec<Uplink<'m>>,
    pub(super) interfaces: Interfaces,
}

#[derive(Debug, Default)]
pub(super) struct Plan<'m> {
    pub(super) nodes: Vec<Planned<'m>>,
    pub(super) places: Vec<Place<'m>>,
    pub(super) uplinks: Vec<Uplink<'m>>,
    by_vtep: HashMap<Addr, usize>,
    by_id: HashMap<u32, usize>,
    by_interface: HashMap<(usize, u32, u16), usize>,
}

impl<'m> Plan<'m> {
    pub(super) fn new(model: &'m Model, ids: &Ids) -> Result<Self, CompileError> {
        let mut plan = Self::default();
        let mut numbers = BTreeMap::new();
        for (name, node) in &model.nodes {
            let at = plan.nodes.len();
            numbers.insert(name, at);
            let interfaces = Interfaces::made_up(model, ids, name)?;
            let mut uplinks = Vec::new();
            for (device_id, nic) in &node.nics {
                // Every NIC has its uplink.
                let Some(device_port) = interfaces.uplinks.get(device_id).copied() else {
                    continue;
                };
                let [.., a, b, c] = (plan.uplinks.len() as u32).to_be_bytes();
                let uplink = Uplink {
                    name,
                    device_id: *device_id,
                    vtep: nic.vtep,
                    mtu: nic.underlay_mtu,
                    mac: Mac([0x02, 0xfe, 0, a, b, c]),
                    node: at,
                    device_port,
                };
                plan.by_vtep.insert(nic.vtep, plan.uplinks.len());
                plan.uplinks.push(uplink);
                uplinks.push(uplink);
            }
            plan.nodes.push(Planned {
                name,
                uplinks,
                interfaces,
            });
        }
        for (name, port) in &model.ports {
            let found = (
                numbers.get(&port.node).copied(),
                ids.ports.get(name).copied(),
                model.vpcs.get(&name.vpc()),
            );
            // A valid model has all three.
            if let (Some(node), Some(id), Some(vpc)) = found
                && let Some(planned) = plan.nodes.get(node)
                && let Some(device_port) = planned.interfaces.ports.get(&id).copied()
            {
                let place = plan.places.len();
                plan.by_id.insert(id, place);
                plan.by_interface
                    .insert((node, device_port, port.vlan), place);
                plan.places.push(Place {
                    name,
                    port,
                    id,
                    vni: vpc.vni,
                    node,
                    device_port,
                });
            }
        }
        Ok(plan)
    }

    pub(super) fn uplink(&self, vtep: Addr) -> Option<&Uplink<'m>> {
        self.uplinks.get(*self.by_vtep.get(&vtep)?)
    }

    pub(super) fn place(&self, id: u32) -> Option<&Place<'m>> {
        self.places.get(*self.by_id.get(&id)?)
    }

    /// Whose interface it is, with this tag.
    pub(super) fn place_at(&self, node: usize, device_port: u32, vlan: u16) -> Option<&Place<'m>> {
        let place = self.by_interface.get(&(node, device_port, vlan))?;
        self.places.get(*place)
    }
}

impl Planned<'_> {
    /// Above all device ports that are in use.
    pub(super) fn device_ports(&self) -> u32 {
        let Interfaces { ports, uplinks } = &self.interfaces;
        let used = ports.values().chain(uplinks.values());
        used.max().map_or(0, |most| most.saturating_add(1))
    }

    pub(super) fn uplink_at(&self, device_port: u32) -> Option<&Uplink<'_>> {
        self.uplinks.iter().find(|u| u.device_port == device_port)
    }
}
