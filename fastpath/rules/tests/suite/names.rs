//! What must not matter: the order in which things are declared, their ids, and
//! lists that speak of others.

use std::collections::BTreeMap;

use penstock_rules::model::{Applies, List, Peer, Peers, Policy};
use penstock_rules::{Decision, Judgement, Query, Ruleset};
use proptest::prelude::*;

use crate::generate::{VNI, policy, query};
use crate::reference;

/// A judgement, its rules by name.
type Told = (bool, bool, bool, Option<String>, Option<Option<String>>);

fn told(ruleset: &Ruleset, q: &Query) -> Told {
    let Judgement {
        verdict,
        decision,
        stateful,
        log,
        audit,
    } = ruleset.judge(q);
    let name = |decision: Decision| match decision {
        Decision::Rule(id) => Some(ruleset.rule_name(id).to_owned()),
        _ => None,
    };
    let allow = verdict == penstock_rules::Verdict::Allow;
    (allow, stateful, log, name(decision), audit.map(name))
}

/// Rules of each list the other way round, and every id another one.
fn turned(policy: &Policy) -> Policy {
    let id = |id: &u32| 1_000 - id;
    fn keyed<V: Clone>(map: &BTreeMap<u32, V>) -> BTreeMap<u32, V> {
        map.iter().map(|(k, v)| (1_000 - k, v.clone())).collect()
    }
    let ids = |ids: &[u32]| {
        let mut ids: Vec<u32> = ids.iter().map(id).collect();
        ids.sort_unstable();
        ids
    };
    let mut turned = policy.clone();
    turned.groups = keyed(&policy.groups);
    turned.sets = keyed(&policy.sets);
    turned.lists = keyed(&policy.lists);
    for list in turned.lists.values_mut() {
        list.rules.reverse();
        if let Applies::Groups(groups) = &mut list.applies {
            *groups = ids(groups);
        }
        for rule in &mut list.rules {
            if let Peers::Any(peers) = &mut rule.peers {
                peers.reverse();
                for peer in peers {
                    match peer {
                        Peer::Group(group) => *group = id(group),
                        Peer::Set(set) => *set = id(set),
                        Peer::Cidr { except, .. } => except.reverse(),
                    }
                }
            }
        }
    }
    for port in turned.ports.values_mut() {
        port.groups = ids(&port.groups);
    }
    for endpoint in turned.endpoints.values_mut() {
        endpoint.groups = ids(&endpoint.groups);
    }
    turned
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn neither_order_nor_ids_matter(
        policy in policy(),
        queries in prop::collection::vec(query(), 50),
    ) {
        let turned = Ruleset::compile(turned(&policy)).expect("a sound policy");
        let straight = Ruleset::compile(policy.clone()).expect("a sound policy");
        for q in queries.iter().chain(&reference::edges(&policy)) {
            prop_assert_eq!(told(&straight, q), told(&turned, q), "{:?}", q);
        }
    }

    /// A list that applies to no port of a query changes nothing for it, wherever
    /// its name, its id and its priority put it.
    #[test]
    fn a_list_about_others_matters_to_nobody_else(
        before in policy(),
        id in prop_oneof![Just(1_u32), Just(24), Just(99)],
        other in crate::generate::list(25),
        queries in prop::collection::vec(query(), 50),
    ) {
        let mut after = before.clone();
        let nobody = Applies::Groups(vec![4]);
        for port in after.ports.values_mut() {
            port.groups.retain(|group| *group != 4);
        }
        let mut before = after.clone();
        before.lists.remove(&id);
        let name = "a-first".into();
        after.lists.insert(id, List { name, vni: VNI, applies: nobody, ..other });
        let [before, after] = [before, after].map(|p| Ruleset::compile(p).expect("sound"));
        for q in &queries {
            prop_assert_eq!(told(&before, q), told(&after, q), "{:?}", q);
        }
    }
}
