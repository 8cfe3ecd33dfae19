//! From the wire schema to the model. Messages are taken apart whole, so that a
//! new field stops the build until somebody decides what it means.

mod list;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use penstock_flow::{Addr, Mac, Prefix};
use penstock_rules::model::{
    Endpoint, Group, GroupId, Policy, Port, PortId, PrefixSet, SetId, Subnet, SubnetId, Vni, Vpc,
};
use penstock_rules::{Delta, Gone};
use penstock_slowpath_api::v1;

/// A field that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path} = {value}: {problem}")]
pub struct Invalid {
    /// Where, as `ports[3].mac`.
    pub path: String,
    /// What was sent.
    pub value: String,
    /// What is wrong and what to do.
    pub problem: &'static str,
}

type Result<T> = std::result::Result<T, Invalid>;

fn invalid<T>(path: String, value: impl Display, problem: &'static str) -> Result<T> {
    Err(Invalid {
        path,
        value: value.to_string(),
        problem,
    })
}

/// A snapshot: a whole policy.
///
/// # Errors
/// The first field that cannot be used.
pub fn snapshot(update: v1::PolicyUpdate) -> Result<Policy> {
    let Delta { gone, put: policy } = delta(update)?;
    if gone != Gone::default() {
        return invalid(
            "base_generation".to_owned(),
            0,
            "a snapshot has nothing to delete; leave the deleted_ fields empty, or name a base",
        );
    }
    Ok(policy)
}

/// A delta: what goes, and what comes or changes.
///
/// # Errors
/// The first field that cannot be used.
pub fn delta(update: v1::PolicyUpdate) -> Result<Delta> {
    let v1::PolicyUpdate {
        generation,
        base_generation: _,
        vpcs,
        subnets,
        groups,
        prefix_sets,
        lists,
        ports,
        endpoints,
        vteps,
        deleted_vpcs,
        deleted_subnets,
        deleted_groups,
        deleted_prefix_sets,
        deleted_lists,
        deleted_ports,
        deleted_endpoints,
        deleted_vteps,
    } = update;
    if generation == 0 {
        return invalid("generation".to_owned(), 0, "generations start at 1");
    }
    let policy = Policy {
        generation,
        vpcs: keyed("vpcs", vpcs, vpc)?,
        subnets: keyed("subnets", subnets, subnet)?,
        groups: keyed("groups", groups, group)?,
        sets: keyed("prefix_sets", prefix_sets, set)?,
        lists: keyed("lists", lists, list::list)?,
        ports: keyed("ports", ports, port)?,
        endpoints: keyed("endpoints", endpoints, endpoint)?,
        vteps: keyed("vteps", vteps, |path, v1::Vtep { address, node }| {
            Ok((addr(&format!("{path}.address"), &address)?, node))
        })?,
    };
    let gone = Gone {
        vpcs: deleted_vpcs,
        subnets: deleted_subnets,
        groups: deleted_groups,
        sets: deleted_prefix_sets,
        lists: deleted_lists,
        ports: deleted_ports,
        endpoints: each("deleted_endpoints", deleted_endpoints, endpoint_key)?,
        vteps: each("deleted_vteps", deleted_vteps, |path, v| addr(path, &v))?,
    };
    Ok(Delta { gone, put: policy })
}

fn each<M, T>(field: &str, items: Vec<M>, one: impl Fn(&str, M) -> Result<T>) -> Result<Vec<T>> {
    items
        .into_iter()
        .enumerate()
        .map(|(i, item)| one(&format!("{field}[{i}]"), item))
        .collect()
}

fn keyed<M, K: Ord, V>(
    field: &str,
    items: Vec<M>,
    one: impl Fn(&str, M) -> Result<(K, V)>,
) -> Result<BTreeMap<K, V>> {
    let mut map = BTreeMap::new();
    for (i, (key, value)) in each(field, items, one)?.into_iter().enumerate() {
        if map.insert(key, value).is_some() {
            return invalid(
                format!("{field}[{i}]"),
                "a second one",
                "its key occurs before in the same message; send each key once",
            );
        }
    }
    Ok(map)
}

fn vpc(path: &str, message: v1::Vpc) -> Result<(Vni, Vpc)> {
    let v1::Vpc {
        vni: id,
        name,
        default_allow,
        peers,
    } = message;
    let peers: BTreeSet<Vni> = each(&format!("{path}.peers"), peers, vni)?
        .into_iter()
        .collect();
    let id = vni(&format!("{path}.vni"), id)?;
    Ok((
        id,
        Vpc {
            name,
            default_allow,
            peers,
        },
    ))
}

fn subnet(path: &str, message: v1::Subnet) -> Result<(SubnetId, Subnet)> {
    let v1::Subnet {
        id: subnet_id,
        vni: v,
        name,
        prefixes,
        gateways,
        mtu,
    } = message;
    let Some(mtu) = u16::try_from(mtu).ok().filter(|mtu| *mtu >= 68) else {
        return invalid(
            format!("{path}.mtu"),
            mtu,
            "bytes of an IP packet, 68 to 65535",
        );
    };
    Ok((
        id(&format!("{path}.id"), subnet_id)?,
        Subnet {
            name,
            vni: vni(&format!("{path}.vni"), v)?,
            prefixes: each(&format!("{path}.prefixes"), prefixes, prefix)?,
            gateways: each(&format!("{path}.gateways"), gateways, |p, a| addr(p, &a))?,
            mtu,
        },
    ))
}

fn group(path: &str, message: v1::Group) -> Result<(GroupId, Group)> {
    let v1::Group {
        id: group_id,
        vni: v,
        name,
    } = message;
    let group = Group {
        name,
        vni: vni(&format!("{path}.vni"), v)?,
    };
    Ok((id(&format!("{path}.id"), group_id)?, group))
}

fn set(path: &str, message: v1::PrefixSet) -> Result<(SetId, PrefixSet)> {
    let v1::PrefixSet {
        id: set_id,
        vni: v,
        name,
        prefixes,
    } = message;
    let prefixes: Vec<Prefix> = each(&format!("{path}.prefixes"), prefixes, prefix)?;
    if let Some(i) = prefixes.windows(2).position(|pair| pair[0] >= pair[1]) {
        return invalid(
            format!("{path}.prefixes[{}]", i + 1),
            prefixes[i + 1],
            "prefixes ascend by address and length, each once",
        );
    }
    let set = PrefixSet {
        name,
        vni: vni(&format!("{path}.vni"), v)?,
        prefixes,
    };
    Ok((id(&format!("{path}.id"), set_id)?, set))
}

fn port(path: &str, message: v1::Port) -> Result<(PortId, Port)> {
    let v1::Port {
        id: port_id,
        vni: v,
        name,
        subnet,
        device_id,
        attachment,
        vlan,
        mac: m,
        ips,
        groups,
    } = message;
    let Some(vlan) = u16::try_from(vlan).ok().filter(|vlan| *vlan < 4095) else {
        return invalid(format!("{path}.vlan"), vlan, "0 for untagged, or 1 to 4094");
    };
    if device_id == 0 {
        return invalid(
            format!("{path}.device_id"),
            0,
            "name the NIC of this node that the port hangs on",
        );
    }
    Ok((
        id(&format!("{path}.id"), port_id)?,
        Port {
            name,
            vni: vni(&format!("{path}.vni"), v)?,
            subnet: id(&format!("{path}.subnet"), subnet)?,
            device_id,
            attachment,
            vlan,
            mac: mac(&format!("{path}.mac"), &m)?,
            ips: each(&format!("{path}.ips"), ips, |p, a| addr(p, &a))?,
            groups: group_ids(&format!("{path}.groups"), groups)?,
        },
    ))
}

fn endpoint(path: &str, message: v1::Endpoint) -> Result<((Vni, Addr), Endpoint)> {
    let v1::Endpoint {
        key,
        mac: m,
        port_id,
        groups,
    } = message;
    let Some(key) = key else {
        return invalid(format!("{path}.key"), "nothing", "name VNI and address");
    };
    Ok((
        endpoint_key(&format!("{path}.key"), key)?,
        Endpoint {
            mac: mac(&format!("{path}.mac"), &m)?,
            port: id(&format!("{path}.port_id"), port_id)?,
            groups: group_ids(&format!("{path}.groups"), groups)?,
        },
    ))
}

fn endpoint_key(path: &str, message: v1::EndpointKey) -> Result<(Vni, Addr)> {
    let v1::EndpointKey { vni: v, ip } = message;
    Ok((
        vni(&format!("{path}.vni"), v)?,
        addr(&format!("{path}.ip"), &ip)?,
    ))
}

/// Ids, ascending and each once, as the model keeps them.
fn group_ids(path: &str, groups: Vec<u32>) -> Result<Vec<GroupId>> {
    let mut ids = each(path, groups, id)?;
    ids.sort_unstable();
    ids.dedup();
    Ok(ids)
}

fn vni(path: &str, value: u32) -> Result<Vni> {
    if (1..1 << 24).contains(&value) {
        return Ok(value);
    }
    invalid(path.to_owned(), value, "a VNI is 1 to 16777215")
}

fn id(path: &str, value: u32) -> Result<u32> {
    if value != 0 {
        return Ok(value);
    }
    invalid(path.to_owned(), value, "an id is never 0")
}

fn mac(path: &str, bytes: &[u8]) -> Result<Mac> {
    let mac = bytes.try_into().ok().map(Mac);
    match mac {
        Some(mac) if !mac.is_multicast() && mac != Mac::default() => Ok(mac),
        _ => invalid(
            path.to_owned(),
            format!("{bytes:02x?}"),
            "a unicast MAC address of 6 bytes",
        ),
    }
}

fn addr(path: &str, bytes: &[u8]) -> Result<Addr> {
    match bytes.try_into() {
        Ok(octets) => Ok(Addr::from_octets(octets)),
        Err(_) => invalid(
            path.to_owned(),
            format!("{bytes:02x?}"),
            "an address of 16 bytes, IPv4 as ::ffff:a.b.c.d",
        ),
    }
}

fn prefix(path: &str, message: v1::Prefix) -> Result<Prefix> {
    let v1::Prefix { address, length } = message;
    let addr = addr(&format!("{path}.address"), &address)?;
    let prefix = u8::try_from(length)
        .ok()
        .and_then(|len| Prefix::new(addr, len));
    let Some(prefix) = prefix else {
        return invalid(
            path.to_owned(),
            format!("{addr} length {length}"),
            "a length of 0 to 128 (IPv4: plus 96), and no address bits beyond it",
        );
    };
    Ok(prefix)
}
