//! Peers that rules speak of and that cannot be found: they lie in a VPC that is not
//! peered in force with the rule's own.

use std::collections::BTreeMap;

use crate::model::{Model, Peer, Peering, Rule, VpcName};

/// A peer that cannot be found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is in {vpc}, which is not peered with {own}; {}", self.remedy())]
pub struct Unresolved {
    /// The peer: `spec.rules[2].peers[0].securityGroup`.
    pub field: String,
    /// Where it lies.
    pub vpc: VpcName,
    /// The rule's own VPC.
    pub own: VpcName,
    /// Which of the two already declares the peering.
    pub declared: Declared,
}

/// How much of a peering there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Declared {
    /// Nothing.
    No,
    /// The half of the rule's own VPC.
    Own,
    /// The other half.
    Other,
}

impl Unresolved {
    fn remedy(&self) -> String {
        let Self { vpc, own, .. } = self;
        match self.declared {
            Declared::No => "declare a Peering in each of the two".to_owned(),
            Declared::Own => format!("declare the Peering of {vpc} too"),
            Declared::Other => format!("declare the Peering of {own} too"),
        }
    }
}

/// Whether a peer of a rule in `own` cannot be found.
pub(crate) fn is_unresolved(model: &Model, own: &VpcName, peer: &Peer) -> bool {
    peer.home()
        .is_some_and(|(vpc, _)| vpc != *own && !model.are_peered(own, &vpc))
}

/// All of a model, by the full name of the group or policy.
#[must_use]
pub fn of(model: &Model) -> BTreeMap<String, Vec<Unresolved>> {
    let groups = model.groups.iter();
    let groups = groups.map(|(name, group)| (name.to_string(), name.vpc(), &group.rules));
    let policies = model.policies.iter();
    let policies = policies.map(|(name, policy)| (name.to_string(), name.vpc(), &policy.rules));
    let mut found = BTreeMap::new();
    for (name, own, rules) in groups.chain(policies) {
        let all: Vec<Unresolved> = rules
            .iter()
            .enumerate()
            .flat_map(|(i, rule)| of_rule(model, &own, i, rule))
            .collect();
        if !all.is_empty() {
            found.insert(name, all);
        }
    }
    found
}

/// Peerings without effect because the other side declares none, by full name, and
/// what is to be said.
#[must_use]
pub fn lone(model: &Model) -> BTreeMap<String, String> {
    let lone = model.peerings.iter().filter(|(name, peering)| {
        let vpc = name.vpc();
        !model.are_peered(&vpc, &peering.peer)
    });
    lone.map(|(name, Peering { peer })| {
        let vpc = name.vpc();
        let message = format!("waits for the other side: {peer} declares no Peering to {vpc}");
        (name.to_string(), message)
    })
    .collect()
}

fn of_rule<'a>(
    model: &'a Model,
    own: &'a VpcName,
    index: usize,
    rule: &'a Rule,
) -> impl Iterator<Item = Unresolved> + 'a {
    rule.peers.iter().enumerate().filter_map(move |(i, peer)| {
        if !is_unresolved(model, own, peer) {
            return None;
        }
        let (vpc, field) = peer.home()?;
        let declares = |one: &VpcName, other: &VpcName| {
            let mut peerings = model.peerings.iter();
            peerings.any(|(name, peering)| name.vpc() == *one && peering.peer == *other)
        };
        let declared = match (declares(own, &vpc), declares(&vpc, own)) {
            (true, _) => Declared::Own,
            (false, true) => Declared::Other,
            (false, false) => Declared::No,
        };
        Some(Unresolved {
            field: format!("spec.rules[{index}].peers[{i}].{field}"),
            vpc,
            own: own.clone(),
            declared,
        })
    })
}
