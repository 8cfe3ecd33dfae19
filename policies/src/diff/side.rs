//! One of two models, compiled as if all of it were on one node.

use std::collections::BTreeMap;

use penstock_flow::Prefix;
use penstock_rules::Ruleset;
use penstock_rules::model::{Applies, Direction, List, ListId, Policy, Port, Vni};

use super::{DiffError, on_one_node};
use crate::compile;
use crate::ids::Ids;
use crate::model::{Model, VpcName};

#[derive(Debug)]
pub(super) struct Side {
    pub(super) vpcs: BTreeMap<VpcName, Vni>,
    /// Of each VPC and those peered with it in force.
    pub(super) cidrs: BTreeMap<VpcName, Vec<Prefix>>,
    pub(super) policy: Policy,
    pub(super) ruleset: Ruleset,
}

impl Side {
    pub(super) fn new(model: &Model, ids: &Ids) -> Result<Self, DiffError> {
        let policy = match on_one_node(model) {
            Some((model, node)) => compile::policy(&model, ids, &node, 1)?,
            None => Policy::default(),
        };
        let cidrs = model.vpcs.keys().map(|name| {
            let known = model.peered.get(name).into_iter().flatten();
            let known = known.chain([name]).filter_map(|name| model.vpcs.get(name));
            let cidrs = known.flat_map(|vpc| vpc.cidrs.iter().copied()).collect();
            (name.clone(), cidrs)
        });
        Ok(Self {
            vpcs: (model.vpcs.iter())
                .map(|(name, vpc)| (name.clone(), vpc.vni))
                .collect(),
            cidrs: cidrs.collect(),
            ruleset: Ruleset::compile(policy.clone())?,
            policy,
        })
    }

    /// The lists of a VPC.
    pub(super) fn lists(&self, vpc: &VpcName) -> impl Iterator<Item = (ListId, &List)> {
        let vni = self.vpcs.get(vpc).copied();
        let lists = self.policy.lists.iter();
        lists
            .filter(move |(_, list)| Some(list.vni) == vni)
            .map(|(id, list)| (*id, list))
    }

    /// Those of `lists` that speak of a port.
    pub(super) fn of_port<'a>(
        lists: &[(ListId, &'a List)],
        port: &Port,
    ) -> BTreeMap<ListId, &'a List> {
        let applies = |list: &List| match &list.applies {
            Applies::Vpc => true,
            Applies::Groups(groups) => groups.iter().any(|it| port.groups.contains(it)),
        };
        let mine = lists.iter().filter(|(_, list)| applies(list));
        mine.copied().collect()
    }
}

/// Whether a list says the same of a port in a direction.
pub(super) fn same(a: &List, b: &List, direction: Direction) -> bool {
    let rules = |list: &List| {
        let rules = list.rules.iter().filter(|rule| rule.direction == direction);
        rules.cloned().collect::<Vec<_>>()
    };
    let selects = |list: &List| match direction {
        Direction::Ingress => list.selects_ingress,
        Direction::Egress => list.selects_egress,
    };
    (a.tier, a.priority, a.audit, selects(a)) == (b.tier, b.priority, b.audit, selects(b))
        && rules(a) == rules(b)
}
