//! Checks the `[[nic]]` sections.

use std::net::IpAddr;
use std::time::Duration;

use penstock_flow::{Addr, Prefix};

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
            "a unicast address, not link-local, with the length of its on-link prefix, e.g. \
             \"192.0.2.1/24\" or \"2001:db8::1/64\"",
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
        let on_link = prefix(vtep, vtep_prefix_len).is_some_and(|p| p.contains(gateway.into()));
        // A router may say its link-local address only.
        let router = matches!(gateway, IpAddr::V6(ip) if ip.is_unicast_link_local());
        if gateway == vtep || !(on_link || router && vtep.is_ipv6()) {
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

fn parse_vtep(text: &str) -> Option<(IpAddr, u8)> {
    let (ip, len) = text.split_once('/')?;
    let ip: IpAddr = ip.parse().ok()?;
    let len: u8 = len.parse().ok()?;
    let useless = match ip {
        IpAddr::V4(ip) => ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_unicast_link_local() || ip.to_ipv4_mapped().is_some(),
    };
    let unicast = !ip.is_unspecified() && !ip.is_multicast() && !ip.is_loopback() && !useless;
    (unicast && prefix(ip, len).is_some()).then_some((ip, len))
}

/// The prefix of this length that an address is in; `None` for a length that its family
/// does not have.
pub(super) fn prefix(ip: IpAddr, len: u8) -> Option<Prefix> {
    let addr = Addr::from(ip);
    let len = if addr.is_v4() {
        len.checked_add(96)?
    } else {
        len
    };
    let below = u128::MAX.checked_shr(len.into()).unwrap_or(0);
    Prefix::new(Addr(addr.0 & !below), len)
}
