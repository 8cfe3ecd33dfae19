//! Programs as the compiler makes them, to be proved: from documents alone, with made-up
//! interfaces, or from what a worker has told.

use std::collections::BTreeMap;

use penstock_policies::Ids;
use penstock_policies::compile::CompileError;
use penstock_policies::model::{Model, NodeName};
use penstock_policies::nic::{self, Interfaces, Program};

use crate::Host;
use crate::row::{Bind, Hop, Row};

/// Every node with all its interfaces, as [`Interfaces::made_up`] numbers them.
///
/// # Errors
/// If an id is missing.
pub fn hosts(model: &Model, ids: &Ids) -> Result<BTreeMap<NodeName, Host>, CompileError> {
    let mut hosts = BTreeMap::new();
    for name in model.nodes.keys() {
        let interfaces = Interfaces::made_up(model, ids, name)?;
        hosts.insert(name.clone(), host(model, ids, name, interfaces)?);
    }
    Ok(hosts)
}

/// A node whose interfaces are known.
///
/// # Errors
/// If the node or an id is missing.
pub fn host(
    model: &Model,
    ids: &Ids,
    node: &NodeName,
    interfaces: Interfaces,
) -> Result<Host, CompileError> {
    let programs = nic::programs(model, ids, node, &interfaces)?;
    Ok(Host {
        interfaces,
        programs: programs.iter().map(|(id, it)| (*id, rows(it))).collect(),
        ..Host::default()
    })
}

/// A program's rows.
#[must_use]
pub fn rows(program: &Program) -> Vec<Row> {
    let Program {
        vport,
        underlay,
        spoof_guard,
        mapping,
        nexthop,
    } = program;
    let vport = vport.iter().map(|(key, value)| Row::Vport {
        device_port: key.device_port,
        vlan: key.vlan,
        bind: Bind::Port {
            port: value.port,
            vni: value.vni,
        },
    });
    let underlay = underlay.iter().map(|key| Row::Underlay {
        src_vtep: key.src_vtep,
        dst_vtep: key.dst_vtep,
        vni: key.vni,
        decap: key.vni,
    });
    let spoof_guard = spoof_guard.iter().map(|key| Row::SpoofGuard {
        port: key.port,
        mac: key.mac,
        ip: key.ip,
    });
    let mapping = mapping.iter().map(|(key, nexthop)| Row::Mapping {
        vni: key.vni,
        dst: key.dst,
        nexthop: *nexthop,
    });
    let nexthop = nexthop.iter().map(|(id, hop)| Row::Nexthop {
        id: *id,
        hop: self::hop(hop),
    });
    vport
        .chain(underlay)
        .chain(spoof_guard)
        .chain(mapping)
        .chain(nexthop)
        .collect()
}

const fn hop(hop: &nic::Nexthop) -> Hop {
    match *hop {
        nic::Nexthop::ToPort {
            device_port,
            vlan,
            mac,
        } => Hop::ToPort {
            device_port,
            vlan,
            mac,
        },
        nic::Nexthop::ToVtep {
            src_vtep,
            dst_vtep,
            src_mac,
            dst_mac,
            vni,
            mtu,
            device_port,
        } => Hop::ToVtep {
            src_vtep,
            dst_vtep,
            src_mac,
            dst_mac,
            vni,
            mtu,
            device_port,
        },
    }
}
