//! From one ruleset to the next: by deltas it comes to the same as from nothing,
//! and costs no more than what has changed.

use std::collections::BTreeMap;

use penstock_flow::Addr;
use penstock_rules::model::{Applies, List, Peer, Peers, Policy, Rule};
use penstock_rules::{Delta, Gone, Ruleset, Work, closing};
use proptest::prelude::*;

use crate::closing::random::{Edit, apply as edit_policy, edit};
use crate::generate::{
    PEERED, VNI, around, empty, endpoint, policy, port, prefix_set, query, rule_to, v4,
};
use crate::reference;

/// What leads from one policy to the other.
fn difference(old: &Policy, new: &Policy) -> Delta {
    fn changed<K: Ord + Copy, V: PartialEq + Clone>(
        old: &BTreeMap<K, V>,
        new: &BTreeMap<K, V>,
    ) -> (Vec<K>, BTreeMap<K, V>) {
        let gone = old.keys().filter(|k| !new.contains_key(k)).copied();
        let put = new.iter().filter(|(k, v)| old.get(k) != Some(v));
        (gone.collect(), put.map(|(k, v)| (*k, v.clone())).collect())
    }
    let (gone_vpcs, vpcs) = changed(&old.vpcs, &new.vpcs);
    let (gone_subnets, subnets) = changed(&old.subnets, &new.subnets);
    let (gone_groups, groups) = changed(&old.groups, &new.groups);
    let (gone_sets, sets) = changed(&old.sets, &new.sets);
    let (gone_lists, lists) = changed(&old.lists, &new.lists);
    let (gone_ports, ports) = changed(&old.ports, &new.ports);
    let (gone_endpoints, endpoints) = changed(&old.endpoints, &new.endpoints);
    let (gone_vteps, vteps) = changed(&old.vteps, &new.vteps);
    Delta {
        gone: Gone {
            vpcs: gone_vpcs,
            subnets: gone_subnets,
            groups: gone_groups,
            sets: gone_sets,
            lists: gone_lists,
            ports: gone_ports,
            endpoints: gone_endpoints,
            vteps: gone_vteps,
        },
        put: Policy {
            generation: new.generation,
            vpcs,
            subnets,
            groups,
            sets,
            lists,
            ports,
            endpoints,
            vteps,
        },
    }
}

fn step(ruleset: &Ruleset, old: &Policy, new: &Policy) -> (Ruleset, Work) {
    let delta = difference(old, new);
    let mut by_model = old.clone();
    delta.clone().apply_to(&mut by_model).expect("fits");
    assert_eq!(by_model, *new);
    ruleset.apply(delta).expect("a sound delta")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn deltas_lead_where_compiling_leads(
        first in policy(),
        edits in prop::collection::vec(edit(), 1..10),
        last in policy(),
        queries in prop::collection::vec(query(), 40),
    ) {
        let mut current = first;
        let mut ruleset = Ruleset::compile(current.clone()).expect("a sound policy");
        let edits = edits.into_iter().map(Some).chain([None]);
        for edit in edits {
            let mut next = current.clone();
            next.generation += 1;
            match edit {
                Some(edit) => edit_policy(&mut next, edit),
                None => next = Policy { generation: next.generation, ..last.clone() },
            }
            (ruleset, _) = step(&ruleset, &current, &next);
            current = next;
        }
        prop_assert_eq!(&ruleset.policy(), &current);
        let compiled = Ruleset::compile(current.clone()).expect("a sound policy");
        for q in queries.into_iter().chain(reference::edges(&current)) {
            prop_assert_eq!(ruleset.judge(&q), compiled.judge(&q), "{:?}", q);
        }
        prop_assert_eq!(ruleset.entries(), compiled.entries());
        prop_assert_eq!(closing(&ruleset, &compiled, 8), vec![]);
        // And back to nothing.
        let nothing = Policy { generation: 99, ..Policy::default() };
        let (emptied, _) = step(&ruleset, &current, &nothing);
        prop_assert_eq!(emptied.policy(), nothing);
        prop_assert_eq!(emptied.entries(), 0);
    }

    /// A delta that is refused changes nothing, and one that contradicts what
    /// is there is refused just where compiling the whole is.
    #[test]
    fn a_delta_is_refused_where_the_policy_is(
        before in policy(),
        gone_group in 1_u32..6,
        gone_set in 11_u32..13,
        edits in prop::collection::vec(edit(), 0..3),
    ) {
        let ruleset = Ruleset::compile(before.clone()).expect("a sound policy");
        let mut after = before.clone();
        edits.into_iter().filter(|e| !matches!(e, Edit::FlipPeering)).for_each(|e| edit_policy(&mut after, e));
        after.groups.remove(&gone_group);
        after.sets.remove(&gone_set);
        let by_delta = ruleset.apply(difference(&before, &after));
        let whole = Ruleset::compile(after.clone());
        prop_assert_eq!(by_delta.is_ok(), whole.is_ok(), "{:?} {:?}", by_delta.err(), whole.err());
        prop_assert_eq!(ruleset.policy(), before);
    }
}

/// 300 ports in 50 groups, of which each has a list of 20 rules.
fn large() -> Policy {
    let mut policy = empty(false);
    policy
        .sets
        .insert(11, prefix_set(11, vec![around(v4(0), 120)]));
    for id in 100..150 {
        let group = policy.groups[&1].clone();
        policy.groups.insert(id, group);
        let rules = (0..20_u16).map(|i| {
            let peer = match i % 4 {
                0 => Peer::Group(100 + (id + 1) % 50),
                1 => Peer::Set(11),
                _ => Peer::Cidr {
                    prefix: around(Addr::from_v4([10, id as u8, i as u8, 0]), 120),
                    except: vec![],
                },
            };
            rule_to(&format!("r{i}"), Some(6), &[(i, i)], vec![peer])
        });
        let list = List {
            selects_ingress: true,
            rules: rules.collect(),
            ..List::of_group(format!("g{id}"), VNI, id)
        };
        policy.lists.insert(id, list);
    }
    for id in 1..=300 {
        let mut groups = vec![100 + id % 50, 100 + (id + 25) % 50];
        groups.sort_unstable();
        policy.ports.insert(id, port(groups.clone()));
        let addr = Addr::from_v4([10, 200, (id >> 8) as u8, id as u8]);
        policy.endpoints.insert((VNI, addr), endpoint(groups));
    }
    policy
}

#[test]
fn a_change_costs_what_it_changes() {
    let before = large();
    let ruleset = Ruleset::compile(before.clone()).expect("a sound policy");
    type Change = fn(&mut Policy);
    let member = (VNI, Addr::from_v4([10, 200, 0, 1]));
    let cases: [(&str, Change, Work); 7] = [
        (
            "one rule",
            |p| p.lists.get_mut(&100).unwrap().rules[0].ports = vec![(9, 9)],
            Work {
                lists: 1,
                services: 12,
                ..Work::default()
            },
        ),
        (
            "one CIDR",
            |p| {
                let prefix = around(Addr::from_v4([10, 99, 0, 0]), 120);
                let peer = Peer::Cidr {
                    prefix,
                    except: vec![],
                };
                p.lists.get_mut(&100).unwrap().rules[2].peers = Peers::Any(vec![peer]);
            },
            Work {
                lists: 1,
                services: 12,
                prefixes: 2,
                ..Work::default()
            },
        ),
        (
            "one member",
            |p| {
                let member = (VNI, Addr::from_v4([10, 200, 0, 1]));
                p.endpoints.get_mut(&member).unwrap().groups = vec![];
            },
            Work {
                endpoints: 1,
                ..Work::default()
            },
        ),
        (
            "one prefix of a set",
            |p| {
                p.sets
                    .get_mut(&11)
                    .unwrap()
                    .prefixes
                    .insert(0, around(Addr(0), 64))
            },
            Work {
                prefixes: 1,
                ..Work::default()
            },
        ),
        (
            "one port's groups",
            |p| p.ports.get_mut(&1).unwrap().groups = vec![100],
            Work {
                ports: 1,
                ..Work::default()
            },
        ),
        (
            "one list's ports",
            |p| p.lists.get_mut(&100).unwrap().applies = Applies::Groups(vec![101]),
            // Ports of the group that it leaves, and of the one that it comes to.
            Work {
                lists: 1,
                services: 12,
                ports: 24,
                ..Work::default()
            },
        ),
        (
            "a list of the whole VPC",
            |p| {
                let applies = Applies::Vpc;
                let list = List {
                    applies,
                    ..List::of_group("all".into(), VNI, 1)
                };
                p.lists.insert(999, list);
            },
            Work {
                lists: 1,
                ..Work::default()
            },
        ),
    ];
    assert!(before.endpoints.contains_key(&member));
    for (name, change, expected) in cases {
        let mut after = before.clone();
        change(&mut after);
        let (next, work) = step(&ruleset, &before, &after);
        assert_eq!(work, expected, "{name}");
        assert!(next.policy() == after, "{name}");
    }
}

#[test]
fn what_is_named_does_not_go() {
    let mut policy = large();
    policy.endpoints.insert((PEERED, v4(77)), endpoint(vec![5]));
    let ruleset = Ruleset::compile(policy.clone()).expect("a sound policy");
    let gone = |edit: fn(&mut Gone)| {
        let mut delta = Delta::default();
        edit(&mut delta.gone);
        ruleset
            .apply(delta)
            .expect_err("named, or not there")
            .to_string()
    };
    for (edit, expected) in [
        (
            (|g| g.groups = vec![100]) as fn(&mut Gone),
            "group g1 is to go, and something that stays names it; let that go as well",
        ),
        (
            |g| g.groups = vec![5],
            "group g5 is to go, and something that stays names it; let that go as well",
        ),
        (
            |g| g.sets = vec![11],
            "prefix set s11 is to go, and something that stays names it; let that go as well",
        ),
        (
            |g| g.subnets = vec![1],
            "port p is in subnet 1, which its VPC does not hold; send the subnet with it",
        ),
        (|g| g.lists = vec![7], "list 7 is to go, and is not here"),
        (
            |g| g.endpoints = vec![(VNI, v4(250))],
            "endpoint 10.0.0.250 of VPC 7 is to go, and is not here",
        ),
        (
            |g| g.vteps = vec![v4(1)],
            "tunnel end 10.0.0.1 is to go, and is not here",
        ),
    ] {
        assert_eq!(gone(edit), expected);
    }
    let mut delta = Delta::default();
    delta.gone.vpcs = vec![crate::generate::APART];
    assert!(ruleset.apply(delta).is_ok(), "nothing is in it");
}

/// Members of one group that may speak to members of another: memory grows with
/// the one and the other, not with pairs.
#[test]
fn group_to_group_costs_the_sum() {
    let entries = |members: u32| {
        let mut policy = empty(false);
        let rule = rule_to("r", None, &[], vec![Peer::Group(2)]);
        let list = List {
            selects_ingress: true,
            rules: vec![rule],
            ..List::of_group("g".into(), VNI, 1)
        };
        policy.lists.insert(1, list);
        for id in 1..=members {
            policy.ports.insert(id, port(vec![1]));
            let addr = |net: u32| Addr::from_v4((net << 24 | id).to_be_bytes());
            policy.endpoints.insert((VNI, addr(10)), endpoint(vec![1]));
            policy.endpoints.insert((VNI, addr(11)), endpoint(vec![2]));
        }
        Ruleset::compile(policy).expect("a sound policy").entries()
    };
    // Two endpoints with a group each, and a port with a list.
    let (few, many) = (entries(200), entries(5_000));
    assert_eq!(many - few, 4_800 * 5);
    assert!(few < 200 * 5 + 100, "{few}");
}

/// Counters of rules stay with a list, and do not run away.
#[test]
fn counters_are_given_away_again() {
    let mut policy = large();
    let mut ruleset = Ruleset::compile(policy.clone()).expect("a sound policy");
    let rules = 50 * 20;
    assert_eq!(ruleset.counters(), rules);
    for i in 0..400_u32 {
        let mut next = policy.clone();
        let list = next.lists.get_mut(&(100 + i % 50)).expect("a list");
        if list.rules.len() == 20 {
            list.rules.pop();
        } else {
            list.rules.push(Rule {
                name: "r19".into(),
                ..list.rules[0].clone()
            });
        }
        (ruleset, _) = step(&ruleset, &policy, &next);
        policy = next;
    }
    assert!(
        ruleset.counters() <= 2 * rules + 1024 + 20,
        "{}",
        ruleset.counters()
    );
    let mut seen = std::collections::BTreeSet::new();
    for (list, it) in ruleset.lists() {
        for index in 0..it.rules.len() as u16 {
            let counter = ruleset.counter(penstock_rules::RuleId { list, index });
            assert!(seen.insert(counter.expect("a rule")), "given twice");
        }
    }
    assert!(seen.into_iter().all(|counter| counter < ruleset.counters()));
    let unknown = penstock_rules::RuleId { list: 1, index: 0 };
    assert_eq!(ruleset.counter(unknown), None);
}
