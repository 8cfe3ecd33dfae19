//! What the model says, arranged for questions about rows.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use penstock_flow::Addr;
use penstock_policies::Ids;
use penstock_policies::model::{Model, NodeName, Port, PortName, VpcName};

/// A port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known<'a> {
    pub(crate) id: u32,
    pub(crate) name: &'a PortName,
    pub(crate) port: &'a Port,
    pub(crate) vni: u32,
}

/// A NIC.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) vtep: Addr,
    /// Bytes of a tenant's IP packet.
    pub(crate) room: u16,
    /// VPCs that have a port here.
    pub(crate) vpcs: BTreeSet<u32>,
    /// Its ports.
    pub(crate) ports: Vec<u32>,
}

pub(crate) struct Facts<'a> {
    pub(crate) model: &'a Model,
    pub(crate) ports: BTreeMap<u32, Known<'a>>,
    pub(crate) vpcs: BTreeMap<u32, &'a VpcName>,
    /// Both have declared it.
    pub(crate) peers: BTreeMap<u32, BTreeSet<u32>>,
    pub(crate) nics: BTreeMap<(&'a NodeName, u32), Place>,
    pub(crate) vteps: HashMap<Addr, (&'a NodeName, u32)>,
    pub(crate) of_vpc: BTreeMap<u32, Vec<u32>>,
    owners: HashMap<(u32, Addr), u32>,
}

impl<'a> Facts<'a> {
    pub(crate) fn new(model: &'a Model, ids: &Ids) -> Self {
        let vpcs: BTreeMap<u32, &VpcName> = model
            .vpcs
            .iter()
            .map(|(name, vpc)| (vpc.vni, name))
            .collect();
        let mut nics = BTreeMap::new();
        let mut vteps = HashMap::new();
        for (name, node) in &model.nodes {
            for (device_id, nic) in &node.nics {
                // Ethernet, VXLAN, UDP and the outer IP header.
                let head = 14 + 8 + 8 + if nic.vtep.is_v4() { 20 } else { 40 };
                let place = Place {
                    vtep: nic.vtep,
                    room: nic.underlay_mtu.saturating_sub(head),
                    vpcs: BTreeSet::new(),
                    ports: Vec::new(),
                };
                nics.insert((name, *device_id), place);
                vteps.insert(nic.vtep, (name, *device_id));
            }
        }
        let declared: BTreeSet<(String, &str)> = model
            .peerings
            .iter()
            .map(|(name, peering)| (name.vpc().to_string(), peering.peer.as_str()))
            .collect();
        let mut peers: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for (from, to) in &declared {
            if declared.contains(&((*to).to_owned(), from.as_str()))
                && let Some(from) = model.vpcs.get(from.as_str())
                && let Some(to) = model.vpcs.get(*to)
            {
                peers.entry(from.vni).or_default().insert(to.vni);
            }
        }
        let mut facts = Self {
            model,
            ports: BTreeMap::new(),
            vpcs,
            peers,
            nics,
            vteps,
            of_vpc: BTreeMap::new(),
            owners: HashMap::new(),
        };
        for (name, port) in &model.ports {
            let vpc = model.vpcs.get(&name.vpc());
            let (Some(vpc), Some(id)) = (vpc, ids.ports.get(name)) else {
                continue;
            };
            let (vni, id) = (vpc.vni, *id);
            let known = Known {
                id,
                name,
                port,
                vni,
            };
            facts.ports.insert(id, known);
            facts.of_vpc.entry(vni).or_default().push(id);
            for ip in &port.ips {
                facts.owners.insert((vni, *ip), id);
            }
            if let Some(place) = facts.nics.get_mut(&(&port.node, port.nic)) {
                place.vpcs.insert(vni);
                place.ports.push(id);
            }
        }
        facts
    }

    /// Who has an address, as a VPC sees it: its own ports, then those of its peers.
    pub(crate) fn owner(&self, vni: u32, ip: Addr) -> Option<Known<'a>> {
        let around = self.peers.get(&vni).into_iter().flatten();
        let id = std::iter::once(&vni)
            .chain(around)
            .find_map(|vni| self.owners.get(&(*vni, ip)))?;
        self.ports.get(id).copied()
    }

    /// Whether packets of one may go to the other.
    pub(crate) fn may_meet(&self, a: u32, b: u32) -> bool {
        a == b || self.peers.get(&a).is_some_and(|peers| peers.contains(&b))
    }
}
