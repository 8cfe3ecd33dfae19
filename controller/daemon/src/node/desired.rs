//! The tables of a node's NICs, in the types of the P4 program, with the
//! resource that each entry comes from.

use std::collections::BTreeMap;
use std::sync::Arc;

use p4runtime::pipeline::{Entry, mapping, nexthop, spoof_guard, underlay, vport};
use p4runtime::{Bits, Lpm};
use penstock_flow::Mac;
use penstock_policies::compile::CompileError;
use penstock_policies::nic::{self, Interfaces, Nexthop, Program};

use super::nic::Desired;
use crate::plan::{Names, NodePlan};

/// The tables of every declared NIC, by device id. `macs` are those of uplinks, by device
/// port.
pub(crate) fn tables(
    plan: &NodePlan,
    interfaces: &Interfaces,
    macs: &BTreeMap<u32, Mac>,
) -> Result<BTreeMap<u32, Desired>, CompileError> {
    let names = &plan.names;
    let programs = nic::programs(&names.model, &names.ids, &plan.node, interfaces)?;
    let node: Arc<str> = Arc::from(plan.node.as_str());
    Ok(programs
        .into_iter()
        .map(|(device, program)| (device, desired(&program, names, &node, macs)))
        .collect())
}

fn desired(
    program: &Program,
    names: &Names,
    node: &Arc<str>,
    macs: &BTreeMap<u32, Mac>,
) -> Desired {
    let Program {
        vport,
        underlay,
        spoof_guard,
        mapping,
        nexthop,
    } = program;
    let port = |id: &u32| names.ports.get(id).unwrap_or(node);
    let vpc = |vni: &u32| names.vpcs.get(vni).unwrap_or(node);
    let mut desired = Desired::default();
    let mut add = |entry: Entry, owner: &Arc<str>| {
        desired
            .entries
            .insert(entry.key(), (entry, Arc::clone(owner)));
    };
    for (key, value) in vport {
        let entry = vport::Entry {
            key: vport::Key {
                device_port: key.device_port,
                vlan: Bits::truncate(key.vlan.into()),
            },
            action: vport::Action::SetPort {
                port_id: value.port,
                vpc: vni(value.vni),
            },
            meter: None,
        };
        add(entry.into(), port(&value.port));
    }
    for key in underlay {
        let entry = underlay::Entry {
            key: underlay::Key {
                src_vtep: key.src_vtep.0,
                dst_vtep: key.dst_vtep.0,
                vni: vni(key.vni),
            },
            action: underlay::Action::Decap { vpc: vni(key.vni) },
        };
        add(entry.into(), vpc(&key.vni));
    }
    for key in spoof_guard {
        let entry = spoof_guard::Entry {
            key: spoof_guard::Key {
                port_id: key.port,
                src_mac: key.mac.0.into(),
                src_ip: key.ip.0,
            },
            action: spoof_guard::Action::Pass,
        };
        add(entry.into(), port(&key.port));
    }
    for (key, id) in mapping {
        let Some(dst) = Lpm::new(key.dst.addr().0, u32::from(key.dst.len())) else {
            // A prefix of 128 bits at most always fits.
            continue;
        };
        let entry = mapping::Entry {
            key: mapping::Key {
                vpc: vni(key.vni),
                dst,
            },
            action: mapping::Action::SetNexthop { nexthop_id: *id },
        };
        add(entry.into(), port(id));
    }
    for (id, hop) in nexthop {
        let entry = nexthop::Entry {
            key: nexthop::Key { nexthop_id: *id },
            action: action(hop, macs),
        };
        add(entry.into(), port(id));
    }
    desired
}

fn action(hop: &Nexthop, macs: &BTreeMap<u32, Mac>) -> nexthop::Action {
    match *hop {
        Nexthop::ToPort {
            device_port,
            vlan,
            mac,
        } => nexthop::Action::ToPort {
            device_port,
            vlan: Bits::truncate(vlan.into()),
            dst_mac: mac.0.into(),
        },
        Nexthop::ToVtep {
            src_vtep,
            dst_vtep,
            src_mac,
            dst_mac,
            vni: id,
            mtu,
            device_port,
        } => nexthop::Action::ToVtep {
            src_vtep: src_vtep.0,
            dst_vtep: dst_vtep.0,
            // Left open: the uplink's own. Bridges drop what comes from no address.
            src_mac: match src_mac {
                Mac([0, 0, 0, 0, 0, 0]) => macs.get(&device_port).map_or(src_mac, |mac| *mac),
                _ => src_mac,
            }
            .0
            .into(),
            dst_mac: dst_mac.0.into(),
            vni: vni(id),
            mtu,
            device_port,
        },
    }
}

/// Validated: 24 bits.
fn vni(id: u32) -> Bits<24> {
    Bits::truncate(id.into())
}
