//! A node's policy as messages: whole, or what has changed since.
//!
//! Controllers send it, and workers keep it on disk in the same form. The way back,
//! with its checks, is the worker's alone.

use std::collections::BTreeMap;

use penstock_flow::{Addr, Prefix};
use penstock_rules::model::{Action, Applies, OnChange, Peer, Peers, Protocol, Tier};
use penstock_rules::model::{
    Direction, Endpoint, Group, List, Policy, Port, PrefixSet, Rule, Subnet, Vpc,
};

use crate::v1;

/// The message that replaces whatever a node has by `policy`.
#[must_use]
pub fn snapshot(policy: &Policy, generation: u64) -> v1::PolicyUpdate {
    difference(&Policy::default(), policy, 0, generation)
}

/// The message that leads from `old`, in force as `base`, to `new`.
#[must_use]
pub fn delta(old: &Policy, new: &Policy, base: u64, generation: u64) -> v1::PolicyUpdate {
    difference(old, new, base, generation)
}

fn difference(old: &Policy, new: &Policy, base: u64, generation: u64) -> v1::PolicyUpdate {
    let Policy {
        generation: _,
        vpcs,
        subnets,
        groups,
        sets,
        lists,
        ports,
        endpoints,
        vteps,
    } = new;
    v1::PolicyUpdate {
        generation,
        base_generation: base,
        vpcs: changed(&old.vpcs, vpcs, |vni, it| vpc(*vni, it)),
        subnets: changed(&old.subnets, subnets, |id, it| subnet(*id, it)),
        groups: changed(&old.groups, groups, |id, it| group(*id, it)),
        prefix_sets: changed(&old.sets, sets, |id, it| set(*id, it)),
        lists: changed(&old.lists, lists, |id, it| list(*id, it)),
        ports: changed(&old.ports, ports, |id, it| port(*id, it)),
        endpoints: changed(&old.endpoints, endpoints, endpoint),
        vteps: changed(&old.vteps, vteps, |address, node| v1::Vtep {
            address: bytes(*address),
            node: node.clone(),
        }),
        deleted_vpcs: gone(&old.vpcs, vpcs, |vni| *vni),
        deleted_subnets: gone(&old.subnets, subnets, |id| *id),
        deleted_groups: gone(&old.groups, groups, |id| *id),
        deleted_prefix_sets: gone(&old.sets, sets, |id| *id),
        deleted_lists: gone(&old.lists, lists, |id| *id),
        deleted_ports: gone(&old.ports, ports, |id| *id),
        deleted_endpoints: gone(&old.endpoints, endpoints, endpoint_key),
        deleted_vteps: gone(&old.vteps, vteps, |address| bytes(*address)),
    }
}

fn changed<K: Ord, V: PartialEq, M>(
    old: &BTreeMap<K, V>,
    new: &BTreeMap<K, V>,
    message: impl Fn(&K, &V) -> M,
) -> Vec<M> {
    new.iter()
        .filter(|(key, value)| old.get(key) != Some(value))
        .map(|(key, value)| message(key, value))
        .collect()
}

fn gone<K: Ord, V, M>(
    old: &BTreeMap<K, V>,
    new: &BTreeMap<K, V>,
    message: impl Fn(&K) -> M,
) -> Vec<M> {
    old.keys()
        .filter(|key| !new.contains_key(key))
        .map(message)
        .collect()
}

/// An address on the wire: sixteen bytes in network order.
#[must_use]
pub fn bytes(address: Addr) -> Vec<u8> {
    address.octets().to_vec()
}

fn prefix(prefix: &Prefix) -> v1::Prefix {
    v1::Prefix {
        address: bytes(prefix.addr()),
        length: u32::from(prefix.len()),
    }
}

fn vpc(vni: u32, it: &Vpc) -> v1::Vpc {
    let Vpc {
        name,
        default_allow,
        peers,
    } = it;
    v1::Vpc {
        vni,
        name: name.clone(),
        default_allow: *default_allow,
        peers: peers.iter().copied().collect(),
    }
}

fn subnet(id: u32, it: &Subnet) -> v1::Subnet {
    let Subnet {
        name,
        vni,
        prefixes,
        gateways,
        mtu,
    } = it;
    v1::Subnet {
        id,
        vni: *vni,
        name: name.clone(),
        prefixes: prefixes.iter().map(prefix).collect(),
        gateways: gateways.iter().copied().map(bytes).collect(),
        mtu: u32::from(*mtu),
    }
}

fn group(id: u32, it: &Group) -> v1::Group {
    let Group { name, vni } = it;
    v1::Group {
        id,
        vni: *vni,
        name: name.clone(),
    }
}

fn set(id: u32, it: &PrefixSet) -> v1::PrefixSet {
    let PrefixSet {
        name,
        vni,
        prefixes,
    } = it;
    v1::PrefixSet {
        id,
        vni: *vni,
        name: name.clone(),
        prefixes: prefixes.iter().map(prefix).collect(),
    }
}

fn list(id: u32, it: &List) -> v1::List {
    let List {
        name,
        vni,
        tier,
        priority,
        applies,
        selects_ingress,
        selects_egress,
        audit,
        on_change,
        rules,
    } = it;
    let tier = match tier {
        Tier::Admin => v1::Tier::Admin,
        Tier::Tenant => v1::Tier::Tenant,
        Tier::Baseline => v1::Tier::Baseline,
    };
    let on_change = match on_change {
        OnChange::Reevaluate => v1::OnChange::Reevaluate,
        OnChange::Persist => v1::OnChange::Persist,
        OnChange::Drop => v1::OnChange::Cut,
    };
    let applies = match applies {
        Applies::Vpc => v1::list::Applies::Vpc(true),
        Applies::Groups(ids) => v1::list::Applies::Groups(v1::Groups { ids: ids.clone() }),
    };
    v1::List {
        id,
        vni: *vni,
        name: name.clone(),
        tier: tier.into(),
        priority: u32::from(*priority),
        applies: Some(applies),
        selects_ingress: *selects_ingress,
        selects_egress: *selects_egress,
        audit: *audit,
        on_change: on_change.into(),
        rules: rules.iter().map(rule).collect(),
    }
}

fn rule(it: &Rule) -> v1::Rule {
    let Rule {
        name,
        direction,
        action,
        priority,
        protocol,
        source_ports,
        ports,
        icmp_type,
        icmp_code,
        peers,
        stateful,
        log,
    } = it;
    let action = match action {
        Action::Deny => v1::Action::Deny,
        Action::Reject => v1::Action::Reject,
        Action::Pass => v1::Action::Pass,
        Action::Allow => v1::Action::Allow,
    };
    v1::Rule {
        name: name.clone(),
        ingress: *direction == Direction::Ingress,
        action: action.into(),
        priority: u32::from(*priority),
        protocol: protocol.map(|protocol| match protocol {
            Protocol::Number(number) => v1::rule::Protocol::Number(u32::from(number)),
            Protocol::Roce => v1::rule::Protocol::Roce(true),
        }),
        source_ports: source_ports.iter().map(range).collect(),
        ports: ports.iter().map(range).collect(),
        icmp_type: icmp_type.map(u32::from),
        icmp_code: icmp_code.map(u32::from),
        peers: match peers {
            Peers::Everyone => None,
            Peers::Any(peers) => Some(v1::Peers {
                any: peers.iter().map(peer).collect(),
            }),
        },
        stateless: !stateful,
        log: *log,
    }
}

fn range((first, last): &(u16, u16)) -> v1::PortRange {
    v1::PortRange {
        first: u32::from(*first),
        last: u32::from(*last),
    }
}

fn peer(it: &Peer) -> v1::Peer {
    let peer = match it {
        Peer::Cidr {
            prefix: inside,
            except,
        } => v1::peer::Peer::Cidr(v1::Cidr {
            prefix: Some(prefix(inside)),
            except: except.iter().map(prefix).collect(),
        }),
        Peer::Set(id) => v1::peer::Peer::PrefixSet(*id),
        Peer::Group(id) => v1::peer::Peer::Group(*id),
    };
    v1::Peer { peer: Some(peer) }
}

fn port(id: u32, it: &Port) -> v1::Port {
    let Port {
        name,
        vni,
        subnet,
        device_id,
        attachment,
        vlan,
        mac,
        ips,
        groups,
    } = it;
    v1::Port {
        id,
        vni: *vni,
        name: name.clone(),
        subnet: *subnet,
        device_id: *device_id,
        attachment: attachment.clone(),
        vlan: u32::from(*vlan),
        mac: mac.0.to_vec(),
        ips: ips.iter().copied().map(bytes).collect(),
        groups: groups.clone(),
    }
}

fn endpoint_key((vni, ip): &(u32, Addr)) -> v1::EndpointKey {
    v1::EndpointKey {
        vni: *vni,
        ip: bytes(*ip),
    }
}

fn endpoint(key: &(u32, Addr), it: &Endpoint) -> v1::Endpoint {
    let Endpoint { mac, port, groups } = it;
    v1::Endpoint {
        key: Some(endpoint_key(key)),
        mac: mac.0.to_vec(),
        port_id: *port,
        groups: groups.clone(),
    }
}
