//! What every node should carry, compiled from one world.
//!
//! A node carries the VPCs that have a port on it, whole, and what their rules must
//! know of the VPCs peered with those. So a change concerns
//! only the nodes of the VPCs that it touches; the plan of every other node
//! keeps the revision that it was compiled at, and its task need not look.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use penstock_policies::Ids;
use penstock_policies::compile::{self, CompileError};
use penstock_policies::model::{
    GroupName, Model, NodeName, PolicyName, PortName, PrefixSetName, SubnetName, VpcName,
};
use penstock_policies::{mtu, unresolved};
use penstock_rules::model::{Policy, PortId, Vni};
use tokio::sync::watch;

use crate::hub::Hub;
use crate::world::{Kind, Row, World};

mod touched;

use touched::Touched;

/// Compiled from one revision.
#[derive(Debug, Default)]
pub struct Plan {
    /// The world's.
    pub revision: u64,
    /// By full name, `nodes/NODE`.
    pub nodes: BTreeMap<String, Arc<NodePlan>>,
    /// Where MTUs do not fit: what is to be said of a subnet or a node.
    pub narrow: BTreeMap<String, Vec<String>>,
    /// Peers that cannot be found: what is to be said of a group or a policy.
    pub unresolved: BTreeMap<String, Vec<String>>,
    /// Peerings of which the other side declares nothing, and what is to be said.
    pub lone: BTreeMap<String, String>,
}

/// What one node should carry.
#[derive(Debug)]
pub struct NodePlan {
    /// The node.
    pub node: NodeName,
    /// The revision that last changed what it should carry.
    pub revision: u64,
    /// Where its worker is.
    pub address: String,
    /// What it judges by; generation 0.
    pub policy: Arc<Policy>,
    /// Full names of the VPCs that have a port on it.
    pub vpcs: BTreeSet<String>,
    /// Full names of further ones that are peered with those.
    pub beside: BTreeSet<String>,
    /// What tables are compiled from, once the node's interfaces are known.
    pub names: Arc<Names>,
}

/// A validated model with its numbers, both ways.
#[derive(Debug)]
pub struct Names {
    /// Everything.
    pub model: Arc<Model>,
    /// Numbers of names.
    pub ids: Ids,
    /// Names of ports.
    pub ports: HashMap<PortId, Arc<str>>,
    /// Names of VPCs.
    pub vpcs: HashMap<Vni, Arc<str>>,
}

impl Names {
    fn of(world: &World) -> Self {
        let mut ids = Ids::default();
        let mut ports = HashMap::new();
        for row in world.rows.values() {
            let name = row.name();
            // Stored names have passed validation, so they parse.
            match row.kind() {
                Some(Kind::Port) => {
                    if let Ok(name) = PortName::parse(name) {
                        ids.ports.insert(name, row.id);
                    }
                    ports.insert(row.id, Arc::from(name));
                }
                Some(Kind::Subnet) => {
                    if let Ok(name) = SubnetName::parse(name) {
                        ids.subnets.insert(name, row.id);
                    }
                }
                Some(Kind::SecurityGroup) => {
                    if let Ok(name) = GroupName::parse(name) {
                        ids.groups.insert(name, row.id);
                    }
                }
                Some(Kind::Policy) => {
                    if let Ok(name) = PolicyName::parse(name) {
                        ids.policies.insert(name, row.id);
                    }
                }
                Some(Kind::PrefixSet) => {
                    if let Ok(name) = PrefixSetName::parse(name) {
                        ids.prefix_sets.insert(name, row.id);
                    }
                }
                Some(Kind::Tenant | Kind::Vpc | Kind::Peering | Kind::Node) | None => {}
            }
        }
        ids.anonymous = (*world.anonymous).clone();
        let model = Arc::clone(world.validated.model());
        let vpcs = model
            .vpcs
            .iter()
            .map(|(name, vpc)| (vpc.vni, Arc::from(name.as_str())))
            .collect();
        Self {
            model,
            ids,
            ports,
            vpcs,
        }
    }
}

impl Plan {
    /// What everything is compiled from; `None` where no node is declared, and so no
    /// port either.
    pub fn names(&self) -> Option<&Names> {
        self.nodes.values().next().map(|plan| &*plan.names)
    }

    /// Compiles for every node; nodes that nothing has happened to since
    /// `before` keep their plan.
    ///
    /// # Errors
    /// Never for a validated world with its ids; the compiler's signature has one.
    pub fn of(world: &World, before: Option<(&World, &Self)>) -> Result<Self, CompileError> {
        let names = Arc::new(Names::of(world));
        let mut hosted: HashMap<&NodeName, BTreeSet<String>> = HashMap::new();
        for (name, port) in &names.model.ports {
            let vpcs = hosted.entry(&port.node).or_default();
            let vpc = vpc_of(name.as_str()).unwrap_or_default();
            if !vpcs.contains(vpc) {
                vpcs.insert(vpc.to_owned());
            }
        }
        let kept = before.map(|(old, plan)| (Touched::between(old, world), plan));
        let mut nodes = BTreeMap::new();
        for (node, declared) in &names.model.nodes {
            let vpcs = hosted.remove(node).unwrap_or_default();
            let beside = beside(&names.model, &vpcs);
            let old = kept.as_ref().and_then(|(touched, plan)| {
                let old = plan.nodes.get(node.as_str())?;
                let same = old.vpcs == vpcs
                    && old.beside == beside
                    && !touched.concerns(&vpcs)
                    && !touched.concerns(&beside);
                same.then(|| (Arc::clone(&old.policy), old.revision))
            });
            let (policy, revision) = match old {
                Some(old) => old,
                None => {
                    let policy = compile::policy(&names.model, &names.ids, node, 0)?;
                    (Arc::new(policy), world.revision)
                }
            };
            let plan = NodePlan {
                node: node.clone(),
                revision,
                address: declared.worker_address.clone(),
                policy,
                vpcs,
                beside,
                names: Arc::clone(&names),
            };
            nodes.insert(node.as_str().to_owned(), Arc::new(plan));
        }
        let mut narrow: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for found in mtu::narrow(&names.model) {
            for name in [found.subnet.as_str(), found.node.as_str()] {
                narrow
                    .entry(name.to_owned())
                    .or_default()
                    .push(found.to_string());
            }
        }
        Ok(Self {
            revision: world.revision,
            nodes,
            narrow,
            unresolved: unresolved::of(&names.model)
                .into_iter()
                .map(|(name, all)| (name, all.iter().map(ToString::to_string).collect()))
                .collect(),
            lone: unresolved::lone(&names.model),
        })
    }
}

/// VPCs peered in force with some of these, themselves left out.
fn beside(model: &Model, vpcs: &BTreeSet<String>) -> BTreeSet<String> {
    vpcs.iter()
        .filter_map(|vpc| VpcName::parse(vpc).ok())
        .filter_map(|vpc| model.peered.get(&vpc))
        .flatten()
        .map(ToString::to_string)
        .filter(|peer| !vpcs.contains(peer))
        .collect()
}

/// The VPC that a resource is or belongs to.
pub fn vpc_of(name: &str) -> Option<&str> {
    let (end, _) = name.match_indices('/').nth(3).unwrap_or((name.len(), ""));
    let vpc = &name[..end];
    let mut segments = vpc.split('/');
    let is_vpc = segments.next() == Some("tenants")
        && segments.next().is_some()
        && segments.next() == Some("vpcs")
        && segments.next().is_some();
    is_vpc.then_some(vpc)
}

/// The kind of a row, for what a change touches.
fn is_node(row: &Row) -> bool {
    row.kind() == Some(Kind::Node)
}

/// Compiles each new world, newest first, until the hub is gone.
pub async fn follow(hub: Arc<Hub>, plans: watch::Sender<Arc<Plan>>) {
    let mut worlds = hub.worlds();
    let mut before: Option<(Arc<World>, Arc<Plan>)> = None;
    loop {
        let world = Arc::clone(&worlds.borrow_and_update());
        let revision = world.revision;
        let (next, last) = (Arc::clone(&world), before.clone());
        let compiled = tokio::task::spawn_blocking(move || {
            let last = last.as_ref().map(|(world, plan)| (&**world, &**plan));
            Plan::of(&next, last)
        });
        match compiled.await {
            Ok(Ok(plan)) => {
                let plan = Arc::new(plan);
                before = Some((world, Arc::clone(&plan)));
                plans.send_replace(plan);
            }
            // Nodes keep what they have; the next change tries again.
            Ok(Err(error)) => {
                tracing::error!(revision, %error, "the accepted resources do not compile");
            }
            Err(error) => tracing::error!(revision, %error, "compiling failed"),
        }
        if worlds.changed().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_know_their_vpc() {
        for (name, vpc) in [
            ("tenants/a", None),
            ("tenants/a/vpcs", None),
            ("tenants/a/vpcs/b", Some("tenants/a/vpcs/b")),
            ("tenants/a/vpcs/b/ports/c", Some("tenants/a/vpcs/b")),
            ("nodes/n", None),
            ("nodes/n/x/y/z", None),
            ("", None),
        ] {
            assert_eq!(vpc_of(name), vpc, "{name}");
        }
    }
}
