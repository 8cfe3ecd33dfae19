//! Checks the `[[nic]]` sections.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use penstock_engine::nic::Capacities;

use super::{ConfigError, Nic, Pattern, Uplink, check_range, file, refuse};

/// Slower than this no fence would be up in time.
const SLOWEST_US: u32 = 100_000;

/// Ascending by device id, without two that share what each must have alone.
/// `flows` is the capacity of flow tables that name none.
pub(super) fn check(nics: Vec<file::Nic>, flows: u32) -> Result<Vec<Nic>, ConfigError> {
    if nics.is_empty() || nics.len() > 16 {
        return refuse(
            "nic",
            &format!("{} sections", nics.len()),
            "a node has 1 to 16 NICs, each a [[nic]] section with device_id, uplink and vtep",
        );
    }
    let mut checked: Vec<Nic> = Vec::with_capacity(nics.len());
    for (i, nic) in nics.into_iter().enumerate() {
        let nic = check_one(i, nic, flows)?;
        let clash = |field: &str, value: &str| {
            refuse(
                &format!("nic[{i}].{field}"),
                value,
                "another NIC of this node has it already",
            )
        };
        for other in &checked {
            if other.device_id == nic.device_id {
                return clash("device_id", &nic.device_id.to_string());
            }
            if other.vtep == nic.vtep {
                return clash("vtep", &nic.vtep.to_string());
            }
            if other.uplink == nic.uplink {
                return clash("uplink", &format!("{:?}", nic.uplink));
            }
        }
        checked.push(nic);
    }
    checked.sort_by_key(|nic| nic.device_id);
    Ok(checked)
}

fn check_one(i: usize, nic: file::Nic, flows: u32) -> Result<Nic, ConfigError> {
    let file::Nic {
        device_id,
        uplink,
        vtep,
        mtu,
        gateway,
        capacity,
        entry_write_us,
    } = nic;
    let field = |name: &str| format!("nic[{i}].{name}");
    if device_id == 0 {
        return refuse(&field("device_id"), "0", "device ids start at 1");
    }
    let uplink = match (uplink.devargs, uplink.interface) {
        (Some(devargs), None) if !devargs.is_empty() => Uplink::Devargs(devargs),
        (None, Some(name)) if Pattern::is_interface(&name) => Uplink::Interface(name),
        (None, Some(name)) => {
            return refuse(
                &field("uplink.interface"),
                &format!("{name:?}"),
                "an interface's name has 1 to 15 characters, no spaces and no '/'",
            );
        }
        (devargs, interface) => {
            return refuse(
                &field("uplink"),
                &format!("{{ devargs: {devargs:?}, interface: {interface:?} }}"),
                "give exactly one: devargs for a DPDK device, or interface for a kernel interface",
            );
        }
    };
    let Some((vtep, vtep_prefix_len)) = parse_vtep(&vtep) else {
        return refuse(
            &field("vtep"),
            &format!("{vtep:?}"),
            "an IPv4 unicast address with the length of its on-link prefix, e.g. \"192.0.2.1/24\"",
        );
    };
    if let Some(mtu) = mtu
        && !(1280..=9216).contains(&mtu)
    {
        return refuse(
            &field("mtu"),
            &mtu.to_string(),
            "bytes of an IP packet on the underlay, 1280 to 9216",
        );
    }
    if entry_write_us > SLOWEST_US {
        return refuse(
            &field("entry_write_us"),
            &entry_write_us.to_string(),
            "microseconds in which a simulated NIC writes an entry, 0 (at once) to 100000",
        );
    }
    if let Some(gateway) = gateway {
        let on_link = |ip: Ipv4Addr| u64::from(ip.to_bits()) >> (32 - vtep_prefix_len);
        if on_link(gateway) != on_link(vtep) || gateway == vtep {
            return refuse(
                &field("gateway"),
                &gateway.to_string(),
                &format!("the gateway must be another address inside {vtep}/{vtep_prefix_len}"),
            );
        }
    }
    let capacities = capacities(i, capacity, flows)?;
    Ok(Nic {
        device_id,
        uplink,
        vtep,
        vtep_prefix_len,
        mtu,
        gateway,
        entry_write: Duration::from_micros(entry_write_us.into()),
        capacities,
    })
}

/// What was given, and the usual for the rest.
fn capacities(i: usize, given: file::Capacity, flows: u32) -> Result<Capacities, ConfigError> {
    let usual = Capacities {
        flow: flows,
        ..Capacities::default()
    };
    let file::Capacity {
        vport,
        underlay,
        spoof_guard,
        flow,
        acl,
        mapping,
        nexthop,
    } = given;
    let choose = |table: &str, given: Option<u32>, usual: u32| {
        let entries = given.unwrap_or(usual);
        check_range(&format!("nic[{i}].capacity.{table}"), entries, 2, 1 << 26)?;
        Ok(entries)
    };
    Ok(Capacities {
        vport: choose("vport", vport, usual.vport)?,
        underlay: choose("underlay", underlay, usual.underlay)?,
        spoof_guard: choose("spoof_guard", spoof_guard, usual.spoof_guard)?,
        flow: choose("flow", flow, usual.flow)?,
        acl: choose("acl", acl, usual.acl)?,
        mapping: choose("mapping", mapping, usual.mapping)?,
        nexthop: choose("nexthop", nexthop, usual.nexthop)?,
        ..usual
    })
}

fn parse_vtep(text: &str) -> Option<(Ipv4Addr, u8)> {
    let (ip, len) = text.split_once('/')?;
    let IpAddr::V4(ip) = ip.parse().ok()? else {
        return None;
    };
    let len: u8 = len.parse().ok()?;
    let unicast = !ip.is_unspecified() && !ip.is_multicast() && !ip.is_broadcast();
    (unicast && !ip.is_loopback() && len <= 32).then_some((ip, len))
}
