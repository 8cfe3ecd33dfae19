//! From one ruleset to the next, by what is different.
//!
//! The next one begins as a clone, which shares everything. What the delta
//! names is put in place and checked against what is there then; what is
//! derived from it follows: tags of prefixes, and ladders of VPCs and ports.
//! How often things are named is counted, so that nothing goes which is named.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

use hashbrown::{HashMap, HashSet};

use super::{Named, Ruleset};
use crate::delta::{Delta, Gone, Work};
use crate::error::CompileError;
use crate::model::{GroupId, Policy, SetId, Vni};
use crate::places::Edit;

type Map<K, V> = HashMap<K, V, foldhash::fast::FixedState>;

/// A ruleset in the making.
pub(super) struct Change<'a> {
    pub(super) old: &'a Ruleset,
    pub(super) next: Ruleset,
    pub(super) work: Work,
    /// How much more often things are named.
    pub(super) vpc_uses: Map<Vni, i64>,
    pub(super) group_uses: Map<GroupId, i64>,
    pub(super) set_uses: Map<SetId, i64>,
    /// What changes in VPCs' places.
    pub(super) edits: Map<Vni, Vec<Edit>>,
    pub(super) touched_sets: BTreeSet<(Vni, SetId)>,
    /// Groups to which other lists apply.
    pub(super) regrouped: HashSet<GroupId, foldhash::fast::FixedState>,
    /// VPCs to all ports of which other lists apply.
    pub(super) widened: BTreeSet<Vni>,
}

impl Ruleset {
    /// The ruleset that a delta leads to, and what it took: as much as has
    /// changed. Where VPCs' peerings change, everything is compiled anew.
    ///
    /// # Errors
    /// The first contradiction found.
    pub fn apply(&self, delta: Delta) -> Result<(Self, Work), CompileError> {
        if self.moves_ground(&delta) {
            let mut policy = self.policy();
            delta.apply_to(&mut policy)?;
            return Self::default().apply(Delta::whole(policy));
        }
        let Delta { mut gone, put } = delta;
        gone.without(&put);
        let mut change = Change {
            old: self,
            next: self.clone(),
            work: Work::default(),
            vpc_uses: Map::default(),
            group_uses: Map::default(),
            set_uses: Map::default(),
            edits: Map::default(),
            touched_sets: BTreeSet::new(),
            regrouped: HashSet::default(),
            widened: BTreeSet::new(),
        };
        change.carry_out(gone, put)?;
        Ok((change.next, change.work))
    }

    /// Whether a delta changes what everything else stands on: who is peered
    /// with whom, and what belongs to which VPC.
    fn moves_ground(&self, delta: &Delta) -> bool {
        let put = &delta.put;
        let peers = |(vni, vpc): (&Vni, &crate::model::Vpc)| {
            self.vpc(*vni).is_some_and(|now| now.peers != vpc.peers)
        };
        put.vpcs.iter().any(peers)
            || delta.gone.vpcs.iter().any(|vni| {
                let network = self.vpc(*vni);
                network.is_some_and(|vpc| !vpc.peers.is_empty())
            })
            || put.groups.iter().any(|(id, group)| {
                let now = self.group(*id);
                now.is_some_and(|now| now.vni != group.vni)
            })
            || put.sets.iter().any(|(id, set)| {
                let now = self.set(*id);
                now.is_some_and(|now| now.vni != set.vni)
            })
            || put.lists.iter().any(|(id, list)| {
                let now = self.list(*id);
                now.is_some_and(|now| now.vni != list.vni)
            })
            || put.ports.iter().any(|(id, port)| {
                let now = self.port(*id);
                now.is_some_and(|now| now.vni != port.vni)
            })
    }
}

impl Change<'_> {
    fn carry_out(&mut self, gone: Gone, put: Policy) -> Result<(), CompileError> {
        let Gone {
            vpcs: gone_vpcs,
            subnets: gone_subnets,
            groups: gone_groups,
            sets: gone_sets,
            lists: gone_lists,
            ports: gone_ports,
            endpoints: gone_endpoints,
            vteps: gone_vteps,
        } = gone;
        let Policy {
            generation,
            vpcs,
            subnets,
            groups,
            sets,
            lists,
            ports,
            endpoints,
            vteps,
        } = put;
        self.next.generation = generation;
        self.put_vpcs(vpcs)?;
        if !subnets.is_empty() {
            self.put_subnets(subnets)?;
        }
        for (id, group) in groups {
            self.network(group.vni, &|| format!("group {}", group.name))?;
            match self.next.groups.get_mut(&id) {
                Some(named) => Arc::make_mut(named).it = group,
                None => {
                    *self.vpc_uses.entry(group.vni).or_default() += 1;
                    self.next.groups.insert(id, Arc::new(Named::new(group)));
                }
            }
        }
        for (id, set) in sets {
            self.put_set(id, set)?;
        }
        for (id, list) in lists {
            self.put_list(id, list)?;
        }
        for id in gone_lists {
            self.remove_list(id)?;
        }
        for (key, endpoint) in endpoints {
            self.put_endpoint(key, endpoint)?;
        }
        for key in gone_endpoints {
            self.remove_endpoint(key)?;
        }
        let mut touched = Vec::new();
        for (id, port) in ports {
            self.put_port(id, port)?;
            touched.push(id);
        }
        for id in gone_ports {
            self.remove_port(id)?;
        }
        if !gone_subnets.is_empty() {
            self.remove_subnets(&gone_subnets)?;
        }
        self.settle_uses(&gone_groups, &gone_sets)?;
        self.settle_vpcs(&gone_vpcs)?;
        self.settle_places();
        self.settle_ladders(touched);
        self.settle_counters();
        if !gone_vteps.is_empty() || !vteps.is_empty() {
            let all = Arc::make_mut(&mut self.next.vteps);
            for vtep in gone_vteps {
                if all.remove(&vtep).is_none() {
                    return Err(CompileError::NotHere {
                        what: format!("tunnel end {vtep}"),
                    });
                }
            }
            all.extend(vteps);
        }
        Ok(())
    }
}
