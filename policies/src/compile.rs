//! The model as one node's policy.

use std::collections::{BTreeMap, BTreeSet};

use penstock_flow::tuple::proto;
use penstock_rules::model as rules;

use crate::ids::Ids;
use crate::model::{
    Group, GroupName, IcmpKind, Model, NodeName, Peer, PortName, PortRange, Rule, Service, VpcName,
};
use crate::nic;

/// The model cannot be compiled with these ids, or for this node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// A node that is not in the model.
    #[error("{0} is not declared; declare it, or ask for one that is")]
    NoNode(NodeName),
    /// A name without a number.
    #[error("{0} has no id; assign ids from the same model first")]
    NoId(String),
    /// Something that a valid model always has.
    #[error("{0} is not in the model; validate the whole set together")]
    Missing(String),
}

/// One node's policy: the VPCs that have a port there, with everything that is
/// in them, and the node's own ports.
///
/// # Errors
/// If the node or an id is missing.
pub fn policy(
    model: &Model,
    ids: &Ids,
    node: &NodeName,
    generation: u64,
) -> Result<rules::Policy, CompileError> {
    if !model.nodes.contains_key(node) {
        return Err(CompileError::NoNode(node.clone()));
    }
    let here: BTreeSet<VpcName> = model.ports_of(node).map(|(name, _)| name.vpc()).collect();
    let mut policy = rules::Policy {
        generation,
        ..rules::Policy::default()
    };
    for name in &here {
        let vpc = found(model.vpcs.get(name), name.as_str())?;
        let compiled = rules::Vpc {
            name: name.to_string(),
            default_allow: vpc.default_allow,
            peers: BTreeSet::new(),
        };
        policy.vpcs.insert(vpc.vni, compiled);
    }
    for (name, subnet) in model
        .subnets
        .iter()
        .filter(|(n, _)| here.contains(&n.vpc()))
    {
        let compiled = rules::Subnet {
            name: name.to_string(),
            vni: vni(model, &name.vpc())?,
            prefixes: subnet.cidrs.clone(),
            gateways: subnet.gateways().collect(),
            mtu: subnet.mtu,
        };
        policy.subnets.insert(id(&ids.subnets, name)?, compiled);
    }
    for (name, group) in model.groups.iter().filter(|(n, _)| here.contains(&n.vpc())) {
        let group_id = id(&ids.groups, name)?;
        let compiled = rules::Group {
            name: name.to_string(),
            vni: vni(model, &name.vpc())?,
        };
        policy.groups.insert(group_id, compiled);
        // A group's list bears its id.
        let list = compile_group(model, ids, name, group)?;
        policy.lists.insert(group_id, list);
    }
    for (name, port) in model.ports.iter().filter(|(n, _)| here.contains(&n.vpc())) {
        let vni = vni(model, &name.vpc())?;
        let port_id = id(&ids.ports, name)?;
        let mut groups = port
            .groups
            .iter()
            .map(|g| id(&ids.groups, g))
            .collect::<Result<Vec<_>, _>>()?;
        groups.sort_unstable();
        for ip in &port.ips {
            let endpoint = rules::Endpoint {
                mac: port.mac,
                port: port_id,
                groups: groups.clone(),
            };
            policy.endpoints.insert((vni, *ip), endpoint);
        }
        if port.node == *node {
            let compiled = rules::Port {
                name: name.to_string(),
                vni,
                subnet: id(&ids.subnets, &port.subnet)?,
                device_id: port.nic,
                attachment: port.attachment.clone(),
                vlan: port.vlan,
                mac: port.mac,
                ips: port.ips.clone(),
                groups,
            };
            policy.ports.insert(port_id, compiled);
        }
    }
    policy.vteps = nic::peers(model, node)
        .into_iter()
        .map(|(vtep, node)| (vtep, node.to_string()))
        .collect();
    Ok(policy)
}

fn compile_group(
    model: &Model,
    ids: &Ids,
    name: &GroupName,
    group: &Group,
) -> Result<rules::List, CompileError> {
    let selects = |way| group.directions.contains(&way);
    let vni = vni(model, &name.vpc())?;
    Ok(rules::List {
        selects_ingress: selects(rules::Direction::Ingress),
        selects_egress: selects(rules::Direction::Egress),
        rules: group
            .rules
            .iter()
            .map(|rule| compile_rule(ids, name, rule))
            .collect::<Result<_, _>>()?,
        ..rules::List::of_group(name.to_string(), vni, id(&ids.groups, name)?)
    })
}

fn compile_rule(ids: &Ids, group: &GroupName, rule: &Rule) -> Result<rules::Rule, CompileError> {
    let Rule {
        name,
        direction,
        service,
        peers,
    } = rule;
    let (protocol, ports, icmp) = match service {
        Service::Any => (None, Vec::new(), None),
        Service::Tcp(ports) => (Some(proto::TCP), ranges(ports), None),
        Service::Udp(ports) => (Some(proto::UDP), ranges(ports), None),
        Service::Icmp(kind) => (Some(proto::ICMP), Vec::new(), Some(*kind)),
        Service::Icmpv6(kind) => (Some(proto::ICMPV6), Vec::new(), Some(*kind)),
    };
    let (icmp_type, icmp_code) = match icmp {
        None | Some(IcmpKind::Every) => (None, None),
        Some(IcmpKind::Type(kind)) => (Some(kind), None),
        Some(IcmpKind::Code(kind, code)) => (Some(kind), Some(code)),
    };
    let named = peers
        .iter()
        .map(|peer| {
            Ok(match peer {
                Peer::Cidr { prefix, except } => rules::Peer::Cidr {
                    prefix: *prefix,
                    except: except.clone(),
                },
                Peer::Group(name) => rules::Peer::Group(id(&ids.groups, name)?),
            })
        })
        .collect::<Result<Vec<_>, CompileError>>()?;
    Ok(rules::Rule {
        protocol: protocol.map(rules::Protocol::Number),
        ports,
        icmp_type,
        icmp_code,
        peers: if named.is_empty() {
            rules::Peers::Everyone
        } else {
            rules::Peers::Any(named)
        },
        ..rules::Rule::allow(format!("{group}/rules/{name}"), *direction)
    })
}

fn ranges(ports: &[PortRange]) -> Vec<(u16, u16)> {
    ports.iter().map(|p| (p.first, p.last)).collect()
}

/// A VPC's VNI.
pub(crate) fn vni(model: &Model, vpc: &VpcName) -> Result<u32, CompileError> {
    found(model.vpcs.get(vpc), vpc.as_str()).map(|vpc| vpc.vni)
}

/// A port's number.
pub(crate) fn port_id(ids: &Ids, name: &PortName) -> Result<u32, CompileError> {
    id(&ids.ports, name)
}

fn id<K: Ord + ToString>(ids: &BTreeMap<K, u32>, name: &K) -> Result<u32, CompileError> {
    ids.get(name)
        .copied()
        .ok_or_else(|| CompileError::NoId(name.to_string()))
}

fn found<'a, T>(value: Option<&'a T>, name: &str) -> Result<&'a T, CompileError> {
    value.ok_or_else(|| CompileError::Missing(name.to_owned()))
}
