//! A policy, compiled.

mod apply;
mod ladder;
mod link;
mod measure;
mod member;
mod peers;
mod put;
mod settle;
mod vpc;

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use hashbrown::HashMap;
use penstock_flow::Addr;

use crate::delta::Delta;
use crate::error::CompileError;
use crate::model::{
    Direction, Group, GroupId, List, ListId, Policy, Port, PortId, PrefixSet, Rule, SetId, Subnet,
    SubnetId, Vni, Vpc,
};
use crate::program::Program;
use crate::query::RuleId;
use crate::shards::{Shards, Slot, Slots};

pub(crate) use ladder::Ladder;
use member::Groups;
pub use member::Member;
use peers::PeerKey;
pub(crate) use vpc::Network;

/// A policy, compiled for lookup. Its memory is linear in the policy. It never
/// changes; a changed one shares with it what is the same.
#[derive(Clone, Debug, Default)]
pub struct Ruleset {
    generation: u64,
    vpcs: Shards<Vni, Arc<Network>>,
    subnets: Arc<Subnets>,
    groups: Shards<GroupId, Arc<Named<Group>>>,
    sets: Shards<SetId, Arc<Named<Arc<PrefixSet>>>>,
    /// Where each list's program is.
    lists: Shards<ListId, Slot>,
    programs: Slots<Placed>,
    ports: Shards<PortId, Arc<Compiled>>,
    endpoints: Shards<(Vni, Addr), Member>,
    /// What a judgement asks of the endpoints that have IPv4 addresses, close together.
    peers: Shards<PeerKey, Groups>,
    vteps: Arc<BTreeMap<Addr, String>>,
    /// Counters of rules given away so far.
    counters: usize,
}

#[derive(Clone, Debug, Default)]
struct Subnets {
    by_id: BTreeMap<SubnetId, Subnet>,
    gateways: HashMap<(Vni, Addr), SubnetId, foldhash::fast::FixedState>,
}

/// Something that others name.
#[derive(Clone, Debug)]
pub(crate) struct Named<T> {
    pub(crate) it: T,
    /// How often it is named.
    uses: u64,
    /// Of a group: the lists that apply to it, ascending.
    applied: Vec<ListId>,
}

/// A list's program, and where its rules' counters begin.
#[derive(Clone, Debug)]
struct Placed {
    program: Arc<Program>,
    counters: usize,
}

/// A port, compiled.
#[derive(Clone, Debug)]
pub(crate) struct Compiled {
    pub(crate) port: Port,
    ingress: Ladder,
    egress: Ladder,
}

impl Compiled {
    /// The lists of its groups.
    #[inline]
    pub(crate) const fn ladder(&self, direction: Direction) -> &Ladder {
        match direction {
            Direction::Ingress => &self.ingress,
            Direction::Egress => &self.egress,
        }
    }
}

impl Ruleset {
    /// Checks the policy's references and compiles it.
    ///
    /// # Errors
    /// The first contradiction found.
    pub fn compile(policy: Policy) -> Result<Self, CompileError> {
        Ok(Self::default().apply(Delta::whole(policy))?.0)
    }

    /// The generation of the policy.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// What it was compiled from, put together anew.
    #[must_use]
    pub fn policy(&self) -> Policy {
        Policy {
            generation: self.generation,
            vpcs: self.vpcs.iter().map(|(k, v)| (*k, v.vpc.clone())).collect(),
            subnets: self.subnets.by_id.clone(),
            groups: self
                .groups
                .iter()
                .map(|(k, g)| (*k, g.it.clone()))
                .collect(),
            sets: self
                .sets
                .iter()
                .map(|(k, s)| (*k, (*s.it).clone()))
                .collect(),
            lists: self
                .lists()
                .map(|(id, list)| (id, (**list).clone()))
                .collect(),
            ports: self
                .ports
                .iter()
                .map(|(k, p)| (*k, p.port.clone()))
                .collect(),
            endpoints: self.endpoints().map(|(k, e)| (k, e.endpoint())).collect(),
            vteps: (*self.vteps).clone(),
        }
    }

    /// A VPC.
    #[must_use]
    pub fn vpc(&self, vni: Vni) -> Option<&Vpc> {
        self.vpcs.get(&vni).map(|network| &network.vpc)
    }

    /// A subnet.
    #[must_use]
    pub fn subnet(&self, id: SubnetId) -> Option<&Subnet> {
        self.subnets.by_id.get(&id)
    }

    /// The subnets, ascending.
    pub fn subnets(&self) -> impl Iterator<Item = (SubnetId, &Subnet)> {
        self.subnets.by_id.iter().map(|(id, subnet)| (*id, subnet))
    }

    /// A group.
    #[must_use]
    pub fn group(&self, id: GroupId) -> Option<&Group> {
        self.groups.get(&id).map(|group| &group.it)
    }

    /// A prefix set.
    #[must_use]
    pub fn set(&self, id: SetId) -> Option<&PrefixSet> {
        self.sets.get(&id).map(|set| &*set.it)
    }

    /// A list.
    #[must_use]
    pub fn list(&self, id: ListId) -> Option<&Arc<List>> {
        self.program_of(id).map(|program| &program.list)
    }

    /// The lists, in no order.
    pub fn lists(&self) -> impl Iterator<Item = (ListId, &Arc<List>)> {
        let programs = self.lists.iter();
        programs.filter_map(|(id, slot)| Some((*id, &self.programs.get(*slot)?.program.list)))
    }

    /// A port of this node.
    #[must_use]
    pub fn port(&self, id: PortId) -> Option<&Port> {
        self.ports.get(&id).map(|compiled| &compiled.port)
    }

    /// The ports of this node, in no order.
    pub fn ports(&self) -> impl Iterator<Item = (PortId, &Port)> {
        self.ports
            .iter()
            .map(|(id, compiled)| (*id, &compiled.port))
    }

    /// Who has this address, on whatever node.
    #[must_use]
    pub fn endpoint(&self, vni: Vni, addr: Addr) -> Option<&Member> {
        self.endpoints.get(&(vni, addr))
    }

    /// Everyone who has an address, in no order.
    pub fn endpoints(&self) -> impl Iterator<Item = ((Vni, Addr), &Member)> {
        self.endpoints.iter().map(|(key, member)| (*key, member))
    }

    /// Every other end of the underlay.
    #[must_use]
    pub fn vteps(&self) -> &BTreeMap<Addr, String> {
        &self.vteps
    }

    /// The subnet whose gateway this address is.
    #[must_use]
    pub fn gateway(&self, vni: Vni, addr: Addr) -> Option<&Subnet> {
        let id = self.subnets.gateways.get(&(vni, addr))?;
        self.subnets.by_id.get(id)
    }

    /// A rule; `None` for one that is not in this ruleset.
    #[must_use]
    pub fn rule(&self, id: RuleId) -> Option<&Rule> {
        self.program_of(id.list)?
            .list
            .rules
            .get(usize::from(id.index))
    }

    /// A rule's full name; empty for one that is not in this ruleset.
    #[must_use]
    pub fn rule_name(&self, id: RuleId) -> &str {
        self.rule(id).map_or("", |rule| &rule.name)
    }

    /// How many counters it takes to count by rule.
    #[must_use]
    pub const fn counters(&self) -> usize {
        self.counters
    }

    /// A rule's counter, below [`counters`](Self::counters). It is another one
    /// in another ruleset.
    #[must_use]
    pub fn counter(&self, id: RuleId) -> Option<usize> {
        let placed = self.programs.get(*self.lists.get(&id.list)?)?;
        let index = usize::from(id.index);
        (index < placed.program.list.rules.len()).then_some(placed.counters + index)
    }

    pub(crate) fn program_of(&self, id: ListId) -> Option<&Arc<Program>> {
        let placed = self.programs.get(*self.lists.get(&id)?)?;
        Some(&placed.program)
    }

    #[inline]
    pub(crate) fn program(&self, slot: Slot) -> Option<&Program> {
        self.programs.get(slot).map(|placed| &*placed.program)
    }

    #[inline]
    pub(crate) fn network(&self, vni: Vni) -> Option<&Network> {
        self.vpcs.get(&vni).map(|network| &**network)
    }

    #[inline]
    pub(crate) fn compiled(&self, id: PortId) -> Option<&Compiled> {
        self.ports.get(&id).map(|compiled| &**compiled)
    }
}

impl Ruleset {
    pub(crate) const fn parts(&self) -> Parts<'_> {
        Parts {
            vpcs: &self.vpcs,
            sets: &self.sets,
            lists: &self.lists,
            ports: &self.ports,
            endpoints: &self.endpoints,
        }
    }
}

/// The maps of a ruleset, to be compared with another's.
pub(crate) struct Parts<'a> {
    pub(crate) vpcs: &'a Shards<Vni, Arc<Network>>,
    pub(crate) sets: &'a Shards<SetId, Arc<Named<Arc<PrefixSet>>>>,
    pub(crate) lists: &'a Shards<ListId, Slot>,
    pub(crate) ports: &'a Shards<PortId, Arc<Compiled>>,
    pub(crate) endpoints: &'a Shards<(Vni, Addr), Member>,
}

impl<T> Named<T> {
    const fn new(it: T) -> Self {
        Self {
            it,
            uses: 0,
            applied: Vec::new(),
        }
    }
}
