//! How many entries each NIC's tables have once everything is there, counted without
//! making them: what [`crate::nic::programs`] would have, for all nodes at once.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Model, NodeName, VpcName};

/// Entries of one NIC by table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Who sends on a device port.
    pub vport: u64,
    /// Tunnels that may arrive.
    pub underlay: u64,
    /// Source addresses that may be used.
    pub spoof_guard: u64,
    /// Where an address is.
    pub mapping: u64,
    /// How to get there.
    pub nexthop: u64,
}

impl Usage {
    /// Every table by its name, in pipeline order.
    #[must_use]
    pub const fn tables(&self) -> [(&'static str, u64); 5] {
        [
            ("vport", self.vport),
            ("underlay", self.underlay),
            ("spoof_guard", self.spoof_guard),
            ("mapping", self.mapping),
            ("nexthop", self.nexthop),
        ]
    }
}

/// Of every declared NIC, by node and device id.
#[must_use]
pub fn of(model: &Model) -> BTreeMap<(&NodeName, u32), Usage> {
    #[derive(Default)]
    struct Vpc<'a> {
        ports: u64,
        ips: u64,
        nics: BTreeSet<(&'a NodeName, u32)>,
    }
    let nics = model.nodes.iter();
    let mut usage: BTreeMap<(&NodeName, u32), Usage> = nics
        .flat_map(|(name, node)| {
            node.nics
                .keys()
                .map(move |id| ((name, *id), Usage::default()))
        })
        .collect();
    let mut vpcs: BTreeMap<VpcName, Vpc<'_>> = BTreeMap::new();
    for (name, port) in &model.ports {
        let ips = port.ips.len() as u64;
        let at = (&port.node, port.nic);
        let vpc = vpcs.entry(name.vpc()).or_default();
        vpc.ports += 1;
        vpc.ips += ips;
        vpc.nics.insert(at);
        if let Some(nic) = usage.get_mut(&at) {
            nic.vport += 1;
            nic.spoof_guard += ips;
        }
    }
    for vpc in vpcs.values() {
        for at in &vpc.nics {
            if let Some(nic) = usage.get_mut(at) {
                nic.underlay += vpc.nics.len() as u64 - 1;
                nic.mapping += vpc.ips;
                nic.nexthop += vpc.ports;
            }
        }
    }
    usage
}
