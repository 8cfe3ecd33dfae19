//! What every node should carry, compiled from one world.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use penstock_policies::Ids;
use penstock_policies::compile::{self, CompileError};
use penstock_policies::model::{GroupName, Model, NodeName, PortName, SubnetName};
use penstock_rules::model::{Policy, PortId, Vni};
use tokio::sync::watch;

use crate::hub::Hub;
use crate::world::{Kind, World};

/// Compiled from one revision.
#[derive(Debug, Default)]
pub struct Plan {
    /// The world's.
    pub revision: u64,
    /// By full name, `nodes/NODE`.
    pub nodes: BTreeMap<String, Arc<NodePlan>>,
}

/// What one node should carry.
#[derive(Debug)]
pub struct NodePlan {
    /// The node.
    pub node: NodeName,
    /// Where its worker is.
    pub address: String,
    /// What it judges by; generation 0.
    pub policy: Arc<Policy>,
    /// Resources that have a part in it, by full name.
    pub resources: BTreeSet<String>,
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
                _ => {}
            }
        }
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
    /// Compiles for every node.
    ///
    /// # Errors
    /// Never for a validated world with its ids; the compiler's signature has one.
    pub fn of(world: &World) -> Result<Self, CompileError> {
        let names = Arc::new(Names::of(world));
        let mut nodes = BTreeMap::new();
        for (node, declared) in &names.model.nodes {
            let policy = compile::policy(&names.model, &names.ids, node, 0)?;
            let resources = resources(&policy, &names);
            nodes.insert(
                node.as_str().to_owned(),
                Arc::new(NodePlan {
                    node: node.clone(),
                    address: declared.worker_address.clone(),
                    policy: Arc::new(policy),
                    resources,
                    names: Arc::clone(&names),
                }),
            );
        }
        Ok(Self {
            revision: world.revision,
            nodes,
        })
    }
}

fn resources(policy: &Policy, names: &Names) -> BTreeSet<String> {
    let vpcs = policy.vpcs.values().map(|vpc| vpc.name.clone());
    let subnets = policy.subnets.values().map(|subnet| subnet.name.clone());
    let groups = policy.groups.values().map(|group| group.name.clone());
    let ports: BTreeSet<PortId> = policy
        .endpoints
        .values()
        .map(|endpoint| endpoint.port)
        .collect();
    let ports = ports
        .iter()
        .filter_map(|id| names.ports.get(id))
        .map(ToString::to_string);
    vpcs.chain(subnets).chain(groups).chain(ports).collect()
}

/// Compiles each new world, newest first, until the hub is gone.
pub async fn follow(hub: Arc<Hub>, plans: watch::Sender<Arc<Plan>>) {
    let mut worlds = hub.worlds();
    loop {
        let world = Arc::clone(&worlds.borrow_and_update());
        let revision = world.revision;
        match tokio::task::spawn_blocking(move || Plan::of(&world)).await {
            Ok(Ok(plan)) => {
                plans.send_replace(Arc::new(plan));
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
