//! What leads from one policy to the next.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use penstock_flow::Addr;

use crate::error::CompileError;
use crate::model::{GroupId, ListId, Policy, PortId, SetId, SubnetId, Vni};

/// What goes, and what comes or is another one now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    /// What goes.
    pub gone: Gone,
    /// What comes or changes, with the generation that it leads to.
    pub put: Policy,
}

/// What goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gone {
    /// VPCs.
    pub vpcs: Vec<Vni>,
    /// Subnets.
    pub subnets: Vec<SubnetId>,
    /// Groups.
    pub groups: Vec<GroupId>,
    /// Prefix sets.
    pub sets: Vec<SetId>,
    /// Lists.
    pub lists: Vec<ListId>,
    /// Ports.
    pub ports: Vec<PortId>,
    /// Endpoints.
    pub endpoints: Vec<(Vni, Addr)>,
    /// Tunnel ends.
    pub vteps: Vec<Addr>,
}

impl Delta {
    /// From nothing to a policy.
    #[must_use]
    pub fn whole(policy: Policy) -> Self {
        Self {
            gone: Gone::default(),
            put: policy,
        }
    }
}

impl Delta {
    /// Makes the policy that it leads to of one.
    ///
    /// # Errors
    /// If something is to go that is not there.
    pub fn apply_to(self, policy: &mut Policy) -> Result<(), CompileError> {
        let Self { mut gone, put } = self;
        gone.without(&put);
        let Gone {
            vpcs,
            subnets,
            groups,
            sets,
            lists,
            ports,
            endpoints,
            vteps,
        } = gone;
        policy.generation = put.generation;
        change(&mut policy.vpcs, vpcs, put.vpcs, "VPC")?;
        change(&mut policy.subnets, subnets, put.subnets, "subnet")?;
        change(&mut policy.groups, groups, put.groups, "group")?;
        change(&mut policy.sets, sets, put.sets, "prefix set")?;
        change(&mut policy.lists, lists, put.lists, "list")?;
        change(&mut policy.ports, ports, put.ports, "port")?;
        let end = |key: &(Vni, Addr)| endpoint_name(*key);
        change_named(&mut policy.endpoints, endpoints, put.endpoints, end)?;
        let end = |vtep: &Addr| format!("tunnel end {vtep}");
        change_named(&mut policy.vteps, vteps, put.vteps, end)
    }
}

/// How an endpoint is called in errors.
pub(crate) fn endpoint_name((vni, addr): (Vni, Addr)) -> String {
    format!("endpoint {addr} of VPC {vni}")
}

fn change<V>(
    all: &mut BTreeMap<u32, V>,
    gone: Vec<u32>,
    put: BTreeMap<u32, V>,
    kind: &str,
) -> Result<(), CompileError> {
    change_named(all, gone, put, |id| format!("{kind} {id}"))
}

fn change_named<K: Ord, V>(
    all: &mut BTreeMap<K, V>,
    gone: Vec<K>,
    put: BTreeMap<K, V>,
    name: impl Fn(&K) -> String,
) -> Result<(), CompileError> {
    for key in gone {
        if all.remove(&key).is_none() {
            return Err(CompileError::NotHere { what: name(&key) });
        }
    }
    all.extend(put);
    Ok(())
}

impl Gone {
    /// What goes and comes again stays.
    pub(crate) fn without(&mut self, put: &Policy) {
        self.vpcs.retain(|key| !put.vpcs.contains_key(key));
        self.subnets.retain(|key| !put.subnets.contains_key(key));
        self.groups.retain(|key| !put.groups.contains_key(key));
        self.sets.retain(|key| !put.sets.contains_key(key));
        self.lists.retain(|key| !put.lists.contains_key(key));
        self.ports.retain(|key| !put.ports.contains_key(key));
        self.endpoints
            .retain(|key| !put.endpoints.contains_key(key));
        self.vteps.retain(|key| !put.vteps.contains_key(key));
    }
}

/// What it took to apply a delta: what was built anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Lists.
    pub lists: usize,
    /// Services in them.
    pub services: usize,
    /// Prefixes of sets and CIDRs that came or went.
    pub prefixes: usize,
    /// Endpoints.
    pub endpoints: usize,
    /// Ports.
    pub ports: usize,
}
