//! What the controller writes into a NIC, in the engine's words: the same rows, in an
//! order in which each finds what it refers to.

use penstock_engine::nic::{Capacities, Entry, Hop};
use penstock_flow::Mac;
use penstock_policies::nic::{Nexthop, Program};

pub(super) fn entries(program: &Program, uplink_mac: Mac) -> impl Iterator<Item = Entry> + '_ {
    let Program {
        vport,
        underlay,
        spoof_guard,
        mapping,
        nexthop,
    } = program;
    let vport = vport.iter().map(|(key, to)| Entry::Vport {
        device_port: key.device_port,
        vlan: key.vlan,
        port_id: to.port,
        vni: to.vni,
    });
    let underlay = underlay.iter().map(|key| Entry::Underlay {
        src_vtep: key.src_vtep,
        dst_vtep: key.dst_vtep,
        vni: key.vni,
        decap_vni: key.vni,
    });
    let spoof_guard = spoof_guard.iter().map(|key| Entry::SpoofGuard {
        port_id: key.port,
        mac: key.mac,
        ip: key.ip,
    });
    let nexthop = nexthop.iter().map(move |(id, to)| Entry::Nexthop {
        id: *id,
        hop: hop(to, uplink_mac),
    });
    let mapping = mapping.iter().map(|(key, to)| Entry::Mapping {
        vni: key.vni,
        dst: key.dst,
        nexthop: *to,
    });
    vport
        .chain(underlay)
        .chain(spoof_guard)
        .chain(nexthop)
        .chain(mapping)
}

fn hop(to: &Nexthop, uplink_mac: Mac) -> Hop {
    match *to {
        Nexthop::ToPort {
            device_port,
            vlan,
            mac,
        } => Hop::ToPort {
            device_port,
            vlan,
            dst_mac: mac,
        },
        Nexthop::ToVtep {
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
            src_mac: if src_mac == Mac::default() {
                uplink_mac
            } else {
                src_mac
            },
            dst_mac,
            vni,
            mtu,
            device_port,
        },
    }
}

/// Room for all of a program.
pub(super) fn room(program: &Program, least: Capacities) -> Capacities {
    let most = |least: u32, count: usize| least.max(u32::try_from(count).unwrap_or(u32::MAX));
    Capacities {
        vport: most(least.vport, program.vport.len()),
        underlay: most(least.underlay, program.underlay.len()),
        spoof_guard: most(least.spoof_guard, program.spoof_guard.len()),
        mapping: most(least.mapping, program.mapping.len()),
        nexthop: most(least.nexthop, program.nexthop.len()),
        ..least
    }
}
