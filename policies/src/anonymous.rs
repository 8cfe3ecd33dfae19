//! Groups that no resource declares: the ports that a selector chooses, and the single
//! ports that a policy names. The data plane knows them as it knows declared groups.
//!
//! Each has a text that is the same whenever the same is meant, by which
//! [`crate::Ids`] keeps its number from one compilation to the next.

use std::collections::BTreeMap;

use crate::model::{AppliesTo, Model, Peer, PortName, Rule, Selector};

/// Such a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Anonymous {
    /// Every port that it chooses.
    Selector(Selector),
    /// One port.
    Port(PortName),
}

impl Anonymous {
    /// What it is known by.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Selector(selector) => selector.to_string(),
            Self::Port(name) => name.to_string(),
        }
    }
}

/// All of a model, by their texts.
#[must_use]
pub fn of(model: &Model) -> BTreeMap<String, Anonymous> {
    let mut found = BTreeMap::new();
    let mut add = |group: Anonymous| {
        found.insert(group.text(), group);
    };
    for policy in model.policies.values() {
        if let AppliesTo::Some {
            groups: _,
            ports,
            selector,
        } = &policy.applies_to
        {
            ports
                .iter()
                .cloned()
                .map(Anonymous::Port)
                .for_each(&mut add);
            let selector = selector.iter().cloned();
            selector.map(Anonymous::Selector).for_each(&mut add);
        }
    }
    let of_groups = model.groups.values().flat_map(|group| &group.rules);
    let of_policies = model.policies.values().flat_map(|policy| &policy.rules);
    for selector in of_groups.chain(of_policies).flat_map(selectors) {
        add(Anonymous::Selector(selector.clone()));
    }
    found
}

fn selectors(rule: &Rule) -> impl Iterator<Item = &Selector> {
    rule.peers.iter().filter_map(|peer| match peer {
        Peer::Selector(selector) => Some(selector),
        Peer::Cidr { .. } | Peer::PrefixSet(_) | Peer::Group(_) | Peer::Port(_) | Peer::Vpc(_) => {
            None
        }
    })
}
