//! The model as one node's policy.

use std::collections::{BTreeMap, BTreeSet};

use penstock_rules::model as rules;

use crate::ids::Ids;
use crate::model::{Model, NodeName, PortName, VpcName};
use crate::nic;

mod lists;
mod members;

use lists::Lists;
use members::Members;

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
/// in them, and the node's own ports. Of the VPCs peered in force with those: their
/// addresses, and the groups that a rule speaks of.
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
    let peers = here.iter().filter_map(|vpc| model.peered.get(vpc));
    let known: BTreeSet<VpcName> = here.iter().chain(peers.flatten()).cloned().collect();
    let mut lists = Lists::compile(model, ids, &here)?;
    let compiled = std::mem::take(&mut lists.lists);
    let members = Members::new(model, ids, &lists)?;
    let mut policy = rules::Policy {
        generation,
        vpcs: vpcs(model, &known)?,
        groups: members.groups()?,
        sets: sets(model, ids, &lists)?,
        lists: compiled,
        ..rules::Policy::default()
    };
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
    for (name, port) in &model.ports {
        let vpc = name.vpc();
        if !known.contains(&vpc) {
            continue;
        }
        let vni = vni(model, &vpc)?;
        let port_id = id(&ids.ports, name)?;
        let groups = members.of(name, &vpc, port);
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

fn vpcs(
    model: &Model,
    known: &BTreeSet<VpcName>,
) -> Result<BTreeMap<rules::Vni, rules::Vpc>, CompileError> {
    let mut vpcs = BTreeMap::new();
    for name in known {
        let vpc = found(model.vpcs.get(name), name.as_str())?;
        let peers = model.peered.get(name).into_iter().flatten();
        let compiled = rules::Vpc {
            name: name.to_string(),
            default_allow: vpc.default_allow,
            peers: peers
                .filter(|peer| known.contains(*peer))
                .map(|peer| vni(model, peer))
                .collect::<Result<_, _>>()?,
        };
        vpcs.insert(vpc.vni, compiled);
    }
    Ok(vpcs)
}

fn sets(
    model: &Model,
    ids: &Ids,
    lists: &Lists,
) -> Result<BTreeMap<rules::SetId, rules::PrefixSet>, CompileError> {
    let mut sets = BTreeMap::new();
    for name in &lists.sets {
        let set = found(model.prefix_sets.get(name), name.as_str())?;
        let compiled = rules::PrefixSet {
            name: name.to_string(),
            vni: vni(model, &name.vpc())?,
            prefixes: set.prefixes.iter().copied().collect(),
        };
        sets.insert(id(&ids.prefix_sets, name)?, compiled);
    }
    Ok(sets)
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
