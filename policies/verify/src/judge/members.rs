//! Who is meant: other ends of rules, members of groups, ports of policies.

use penstock_policies::model::{Action, AppliesTo, GroupName, Peer, Rule, Selector, Test};

use crate::cut::Addresses;
use crate::facts::{Facts, Known};

/// The other ends that a rule of a VPC speaks of; `None`: everyone.
pub(super) fn peers(facts: &Facts<'_>, home: u32, rule: &Rule) -> Option<Addresses> {
    if rule.peers.is_empty() {
        return None;
    }
    let closes = matches!(rule.action, Action::Deny | Action::Reject);
    let mut all: Vec<(u128, u128)> = Vec::new();
    let mut members = |of: &dyn Fn(&Known<'_>) -> bool| {
        let mut found = Vec::new();
        for known in facts.ports.values().filter(|known| of(known)) {
            for ip in &known.port.ips {
                // Of two ports with one address, the VPC's own counts.
                if facts
                    .owner(home, *ip)
                    .is_some_and(|owner| owner.id == known.id)
                {
                    found.push((ip.0, ip.0));
                }
            }
        }
        all.extend(found);
    };
    let mut more: Vec<(u128, u128)> = Vec::new();
    for peer in &rule.peers {
        let lies_in = peer.home().map(|(vpc, _)| vpc);
        let vni = lies_in
            .and_then(|vpc| facts.model.vpcs.get(&vpc))
            .map(|vpc| vpc.vni);
        if vni.is_some_and(|vni| !facts.may_meet(home, vni)) {
            if closes {
                return None;
            }
            continue;
        }
        match peer {
            Peer::Cidr { prefix, except } => {
                let holes = except.iter().flat_map(|hole| Addresses::of(*hole).0);
                let holes = Addresses::union(holes.collect());
                more.extend(Addresses::of(*prefix).without(&holes).0);
            }
            Peer::PrefixSet(name) => {
                let set = facts.model.prefix_sets.get(name);
                let prefixes = set.into_iter().flat_map(|set| &set.prefixes);
                more.extend(prefixes.flat_map(|prefix| Addresses::of(*prefix).0));
            }
            Peer::Vpc(name) => {
                let vpc = facts.model.vpcs.get(name);
                let prefixes = vpc.into_iter().flat_map(|vpc| &vpc.cidrs);
                more.extend(prefixes.flat_map(|prefix| Addresses::of(*prefix).0));
            }
            Peer::Port(name) => {
                let port = facts.model.ports.get(name);
                let ips = port.into_iter().flat_map(|port| &port.ips);
                more.extend(ips.map(|ip| (ip.0, ip.0)));
            }
            Peer::Group(name) => members(&|known| is_member(facts, known, name)),
            Peer::Selector(selector) => members(&|known| selects(known, selector)),
        }
    }
    all.extend(more);
    Some(Addresses::union(all))
}

pub(super) fn is_member(facts: &Facts<'_>, known: &Known<'_>, group: &GroupName) -> bool {
    let declared = facts.model.groups.get(group);
    let selector = declared.and_then(|group| group.selector.as_ref());
    known.port.groups.contains(group) || selector.is_some_and(|it| selects(known, it))
}

pub(super) fn applies(facts: &Facts<'_>, known: &Known<'_>, to: &AppliesTo) -> bool {
    match to {
        AppliesTo::Vpc => true,
        AppliesTo::Some {
            groups,
            ports,
            selector,
        } => {
            ports.contains(known.name)
                || selector.as_ref().is_some_and(|it| selects(known, it))
                || groups.iter().any(|group| is_member(facts, known, group))
        }
    }
}

fn selects(known: &Known<'_>, selector: &Selector) -> bool {
    let holds = |key: &str, test: &Test| {
        let value = known.port.labels.get(key);
        match test {
            Test::In(values) => value.is_some_and(|value| values.contains(value)),
            Test::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Test::Exists => value.is_some(),
            Test::DoesNotExist => value.is_none(),
        }
    };
    known.name.vpc() == *selector.vpc() && selector.terms().all(|term| holds(&term.key, &term.test))
}
