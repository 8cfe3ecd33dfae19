//! Random changes, and queries at all that is an edge of either policy.

use penstock_flow::tuple::proto;
use penstock_flow::{Addr, Prefix};
use penstock_rules::model::{Direction, GroupId, Peer, Policy, PortId, Rule};
use penstock_rules::{Query, closing};
use proptest::prelude::*;
use proptest::sample::Index;

use super::compile;
use crate::generate::{VNI, endpoint, groups, peer, policy, port, prefix, query, rule, v4};

/// One edit of a policy, as an operator makes them.
#[derive(Clone, Debug)]
enum Edit {
    FlipDefault,
    FlipSelection(GroupId, Direction),
    RemoveRule(GroupId, Index),
    AddRule(GroupId, Rule),
    /// The peers stay, what they may do changes; or the other way round.
    Mix(GroupId, Index, Rule, bool),
    RemovePeer(GroupId, Index, Index),
    AddPeer(GroupId, Index, Peer),
    AddExcept(GroupId, Index, Index, Prefix),
    Endpoint(Index, Option<Vec<GroupId>>),
    PortGroups(PortId, Option<Vec<GroupId>>),
}

fn edit() -> impl Strategy<Value = Edit> {
    let g = 1_u32..5;
    let at = any::<Index>;
    let way = prop_oneof![Just(Direction::Ingress), Just(Direction::Egress)];
    prop_oneof![
        Just(Edit::FlipDefault),
        (g.clone(), way).prop_map(|(g, way)| Edit::FlipSelection(g, way)),
        (g.clone(), at()).prop_map(|(g, i)| Edit::RemoveRule(g, i)),
        (g.clone(), rule()).prop_map(|(g, rule)| Edit::AddRule(g, rule)),
        (g.clone(), at(), rule(), any::<bool>())
            .prop_map(|(g, i, rule, peers)| Edit::Mix(g, i, rule, peers)),
        (g.clone(), at(), at()).prop_map(|(g, i, j)| Edit::RemovePeer(g, i, j)),
        (g.clone(), at(), peer()).prop_map(|(g, i, peer)| Edit::AddPeer(g, i, peer)),
        (g, at(), at(), prefix()).prop_map(|(g, i, j, hole)| Edit::AddExcept(g, i, j, hole)),
        (at(), prop::option::of(groups())).prop_map(|(i, groups)| Edit::Endpoint(i, groups)),
        (1_u32..4, prop::option::of(groups()))
            .prop_map(|(port, groups)| Edit::PortGroups(port, groups)),
    ]
}

fn rule_at(policy: &mut Policy, group: GroupId, i: Index) -> Option<&mut Rule> {
    let rules = &mut policy.groups.get_mut(&group).expect("group").rules;
    let n = rules.len();
    (n > 0).then(move || &mut rules[i.index(n)])
}

fn apply(policy: &mut Policy, edit: Edit) {
    match edit {
        Edit::FlipDefault => {
            let vpc = policy.vpcs.get_mut(&VNI).expect("the VPC");
            vpc.default_allow = !vpc.default_allow;
        }
        Edit::FlipSelection(group, way) => {
            let group = policy.groups.get_mut(&group).expect("group");
            match way {
                Direction::Ingress => group.selects_ingress = !group.selects_ingress,
                Direction::Egress => group.selects_egress = !group.selects_egress,
            }
        }
        Edit::RemoveRule(group, i) => {
            let rules = &mut policy.groups.get_mut(&group).expect("group").rules;
            if !rules.is_empty() {
                rules.remove(i.index(rules.len()));
            }
        }
        Edit::AddRule(group, rule) => {
            let rules = &mut policy.groups.get_mut(&group).expect("group").rules;
            rules.insert(0, rule);
        }
        Edit::Mix(group, i, other, peers) => {
            if let Some(rule) = rule_at(policy, group, i) {
                let kept = rule.clone();
                *rule = if peers {
                    Rule {
                        peers: kept.peers,
                        ..other
                    }
                } else {
                    Rule {
                        peers: other.peers,
                        ..kept
                    }
                };
            }
        }
        Edit::RemovePeer(group, i, j) => {
            // A rule without peers is for everyone.
            if let Some(rule) = rule_at(policy, group, i)
                && rule.peers.len() > 1
            {
                let j = j.index(rule.peers.len());
                rule.peers.remove(j);
            }
        }
        Edit::AddPeer(group, i, peer) => {
            if let Some(rule) = rule_at(policy, group, i) {
                rule.peers.push(peer);
            }
        }
        Edit::AddExcept(group, i, j, hole) => {
            if let Some(rule) = rule_at(policy, group, i)
                && !rule.peers.is_empty()
            {
                let j = j.index(rule.peers.len());
                if let Peer::Cidr { except, .. } = &mut rule.peers[j] {
                    except.push(hole);
                }
            }
        }
        Edit::Endpoint(i, groups) => {
            let keys: Vec<_> = policy.endpoints.keys().copied().collect();
            if keys.is_empty() {
                return;
            }
            let key = keys[i.index(keys.len())];
            match groups {
                Some(groups) => policy.endpoints.get_mut(&key).expect("listed").groups = groups,
                None => drop(policy.endpoints.remove(&key)),
            }
        }
        Edit::PortGroups(id, groups) => match groups {
            Some(groups) => drop(policy.ports.insert(id, port(groups))),
            None => drop(policy.ports.remove(&id)),
        },
    }
}

fn most() -> impl Strategy<Value = usize> {
    prop_oneof![Just(1_usize), 1_usize..6, Just(64), Just(1_000)]
}

/// Addresses at which something of a policy begins or ends.
fn edges(policy: &Policy) -> Vec<Addr> {
    let mut addrs: Vec<Addr> = policy.endpoints.keys().map(|(_, addr)| *addr).collect();
    let rules = policy.groups.values().flat_map(|g| &g.rules);
    for peer in rules.flat_map(|r| &r.peers) {
        if let Peer::Cidr { prefix, except } = peer {
            for p in core::iter::once(prefix).chain(except) {
                let first = p.addr().0;
                let last = first | u128::MAX.checked_shr(u32::from(p.len())).unwrap_or(0);
                for a in [first, last, first.wrapping_sub(1), last.wrapping_add(1)] {
                    addrs.push(Addr(a));
                }
            }
        }
    }
    addrs.push(v4(0));
    addrs
}

/// Every query that changes from yes to no lies in one of the regions.
fn check(
    before: &Policy,
    after: &Policy,
    most: usize,
    random: &[Query],
    picks: &[(Index, Index, Index)],
) -> Result<(), TestCaseError> {
    let (old, new) = (compile(before), compile(after));
    let regions = closing(&old, &new, most);
    prop_assert!(regions.len() <= most.max(1), "{regions:?}");
    let mut addrs = edges(before);
    addrs.extend(edges(after));
    let rules = || {
        let groups = before.groups.values().chain(after.groups.values());
        groups.flat_map(|g| &g.rules)
    };
    let mut protocols: Vec<u8> = rules().filter_map(|r| r.protocol).collect();
    protocols.extend([proto::TCP, 99]);
    let mut dports: Vec<u16> = rules()
        .flat_map(|r| r.ports.clone())
        .flat_map(|(a, b)| [a, b, a.wrapping_sub(1), b.wrapping_add(1)])
        .collect();
    dports.extend([0, 1, 256, 257, 512, u16::MAX]);
    let picked = picks.iter().flat_map(|(addr, protocol, dport)| {
        let query = Query {
            direction: Direction::Ingress,
            port: 1,
            peer: *addr.get(&addrs),
            proto: *protocol.get(&protocols),
            sport: 1,
            dport: *dport.get(&dports),
        };
        [1, 2, 3].into_iter().flat_map(move |port| {
            [Direction::Ingress, Direction::Egress].map(|direction| Query {
                direction,
                port,
                ..query
            })
        })
    });
    for q in random.iter().copied().chain(picked) {
        let closes = old.judge(&q).allow && !new.judge(&q).allow;
        prop_assert!(
            !closes || regions.iter().any(|r| r.contains(VNI, &q)),
            "{q:?} is in none of {regions:?}"
        );
    }
    prop_assert_eq!(closing(&old, &old, most), vec![]);
    Ok(())
}

fn picks() -> impl Strategy<Value = Vec<(Index, Index, Index)>> {
    prop::collection::vec(any::<(Index, Index, Index)>(), 200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn an_edit_closes_nothing_outside(
        before in policy(),
        edits in prop::collection::vec(edit(), 1..4),
        most in most(),
        random in prop::collection::vec(query(), 50),
        picks in picks(),
    ) {
        let mut after = before.clone();
        edits.into_iter().for_each(|edit| apply(&mut after, edit));
        check(&before, &after, most, &random, &picks)?;
    }

    #[test]
    fn another_policy_closes_nothing_outside(
        before in policy(),
        after in policy(),
        most in most(),
        random in prop::collection::vec(query(), 50),
        picks in picks(),
    ) {
        check(&before, &after, most, &random, &picks)?;
    }

    /// More rules, peers and members never close anything.
    #[test]
    fn what_only_opens_needs_no_region(
        before in policy(),
        g in 1_u32..5,
        new_rule in rule(),
        member in any::<Index>(),
        new_peer in peer(),
    ) {
        let mut after = before.clone();
        let rules = &mut after.groups.get_mut(&g).expect("group").rules;
        for rule in rules.iter_mut().filter(|r| !r.peers.is_empty()) {
            rule.peers.push(new_peer.clone());
        }
        rules.push(new_rule);
        if !after.endpoints.is_empty() {
            let i = member.index(after.endpoints.len());
            let endpoint = after.endpoints.values_mut().nth(i).expect("below the length");
            endpoint.groups = vec![1, 2, 3, 4];
        }
        after.endpoints.entry((VNI, v4(200))).or_insert_with(|| endpoint(vec![g]));
        prop_assert_eq!(closing(&compile(&before), &compile(&after), 64), vec![]);
    }

    /// A rule that goes concerns nobody but the ports of its group, its
    /// direction and its protocol.
    #[test]
    fn a_removed_rule_stays_among_its_own(before in policy(), g in 1_u32..5, i in any::<Index>()) {
        let mut after = before.clone();
        let rules = &mut after.groups.get_mut(&g).expect("group").rules;
        prop_assume!(!rules.is_empty());
        let gone = rules.remove(i.index(rules.len()));
        for r in closing(&compile(&before), &compile(&after), 1_000) {
            let port = &before.ports[&r.port.expect("few enough for ports")];
            prop_assert!(port.groups.contains(&g), "{r:?}");
            prop_assert_eq!((r.direction, r.protocol), (Some(gone.direction), gone.protocol));
        }
    }
}
