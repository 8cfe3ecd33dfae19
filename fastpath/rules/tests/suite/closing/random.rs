//! Random changes, and queries at all that is an edge of either policy.

use penstock_flow::Prefix;
use penstock_rules::model::{
    Applies, Direction, GroupId, List, ListId, OnChange, Peer, Peers, Policy, PortId, Protocol,
    Rule, Tier,
};
use penstock_rules::{Query, closing};
use proptest::prelude::*;
use proptest::sample::Index;

use super::compile;
use crate::generate::{
    PEERED, VNI, applies, endpoint, groups, list, peer, policy, port, prefix, query, rule, set, v4,
};
use crate::reference;

/// One edit of a policy, as an operator makes them.
#[derive(Clone, Debug)]
pub(crate) enum Edit {
    FlipDefault,
    FlipPeering,
    FlipSelection(ListId, Direction),
    FlipAudit(ListId),
    OnChange(ListId, OnChange),
    Priority(ListId, u16),
    Applies(ListId, Applies),
    List(ListId, Option<List>),
    RemoveRule(ListId, Index),
    AddRule(ListId, [Rule; 3]),
    /// The peers stay, what they may do changes; or the other way round.
    Mix(ListId, Index, [Rule; 3], bool),
    RulePriority(ListId, Index, u16),
    RemovePeer(ListId, Index, Index),
    AddPeer(ListId, Index, Peer),
    AddExcept(ListId, Index, Index, Prefix),
    Set(u32, Vec<Prefix>),
    Endpoint(Index, Option<Vec<GroupId>>),
    PortGroups(PortId, Option<Vec<GroupId>>),
}

fn rule_of_any() -> BoxedStrategy<[Rule; 3]> {
    (rule(Tier::Admin), rule(Tier::Tenant), rule(Tier::Baseline))
        .prop_map(|(a, b, c)| [a, b, c])
        .boxed()
}

/// The one that its list may hold.
fn fitting(list: &List, rules: [Rule; 3]) -> Rule {
    let [admin, tenant, baseline] = rules;
    match list.tier {
        Tier::Admin => admin,
        Tier::Tenant => tenant,
        Tier::Baseline => baseline,
    }
}

pub(crate) fn edit() -> BoxedStrategy<Edit> {
    let l = 21_u32..27;
    let at = any::<Index>;
    let way = prop_oneof![Just(Direction::Ingress), Just(Direction::Egress)];
    let priority = prop_oneof![Just(5_u16), Just(10), Just(20), Just(2000)];
    let on_change = prop_oneof![
        Just(OnChange::Reevaluate),
        Just(OnChange::Persist),
        Just(OnChange::Drop)
    ];
    let lists = prop_oneof![list(21), list(23), list(26)];
    prop_oneof![
        Just(Edit::FlipDefault),
        Just(Edit::FlipPeering),
        (l.clone(), way).prop_map(|(l, way)| Edit::FlipSelection(l, way)),
        l.clone().prop_map(Edit::FlipAudit),
        (l.clone(), on_change).prop_map(|(l, to)| Edit::OnChange(l, to)),
        (l.clone(), priority.clone()).prop_map(|(l, p)| Edit::Priority(l, p)),
        (l.clone(), applies()).prop_map(|(l, applies)| Edit::Applies(l, applies)),
        (l.clone(), prop::option::of(lists)).prop_map(|(l, list)| Edit::List(l, list)),
        (l.clone(), at()).prop_map(|(l, i)| Edit::RemoveRule(l, i)),
        (l.clone(), rule_of_any()).prop_map(|(l, rule)| Edit::AddRule(l, rule)),
        (l.clone(), at(), rule_of_any(), any::<bool>())
            .prop_map(|(l, i, rule, peers)| Edit::Mix(l, i, rule, peers)),
        (l.clone(), at(), priority).prop_map(|(l, i, p)| Edit::RulePriority(l, i, p)),
        (l.clone(), at(), at()).prop_map(|(l, i, j)| Edit::RemovePeer(l, i, j)),
        (l.clone(), at(), peer()).prop_map(|(l, i, peer)| Edit::AddPeer(l, i, peer)),
        (l, at(), at(), prefix()).prop_map(|(l, i, j, hole)| Edit::AddExcept(l, i, j, hole)),
        (11_u32..13, set()).prop_map(|(id, set)| Edit::Set(id, set)),
        (at(), prop::option::of(groups())).prop_map(|(i, groups)| Edit::Endpoint(i, groups)),
        (1_u32..4, prop::option::of(groups()))
            .prop_map(|(port, groups)| Edit::PortGroups(port, groups)),
    ]
    .boxed()
}

fn rule_at(policy: &mut Policy, list: ListId, i: Index) -> Option<&mut Rule> {
    let rules = &mut policy.lists.get_mut(&list)?.rules;
    let n = rules.len();
    (n > 0).then(move || &mut rules[i.index(n)])
}

/// The peers of a rule that has some.
fn peers_at(policy: &mut Policy, list: ListId, i: Index) -> Option<&mut Vec<Peer>> {
    match &mut rule_at(policy, list, i)?.peers {
        Peers::Any(peers) => Some(peers),
        Peers::Everyone => None,
    }
}

pub(crate) fn apply(policy: &mut Policy, edit: Edit) {
    match edit {
        Edit::FlipDefault => {
            let vpc = policy.vpcs.get_mut(&VNI).expect("the VPC");
            vpc.default_allow = !vpc.default_allow;
        }
        Edit::FlipPeering => {
            // Rules that name the other's groups would dangle.
            let names = |peer: &Peer| *peer == Peer::Group(5);
            let mut rules = policy.lists.values().flat_map(|l| &l.rules);
            if rules.any(|rule| rule.peers.named().iter().any(names)) {
                return;
            }
            for (vni, other) in [(VNI, PEERED), (PEERED, VNI)] {
                let peers = &mut policy.vpcs.get_mut(&vni).expect("a VPC").peers;
                if !peers.remove(&other) {
                    peers.insert(other);
                }
            }
        }
        Edit::List(id, list) => match list {
            Some(mut list) => {
                let rules = list.rules.iter().flat_map(|r| r.peers.named());
                let dangles = rules.into_iter().any(|peer| *peer == Peer::Group(5));
                if dangles && policy.vpcs[&VNI].peers.is_empty() {
                    return;
                }
                // Names are unique.
                list.name = format!("m{id}");
                policy.lists.insert(id, list);
            }
            None => drop(policy.lists.remove(&id)),
        },
        Edit::Set(id, prefixes) => {
            policy.sets.get_mut(&id).expect("a set").prefixes = prefixes;
        }
        Edit::Endpoint(i, groups) => {
            let keys: Vec<_> = policy.endpoints.keys().copied().collect();
            if keys.is_empty() {
                return;
            }
            let key = keys[i.index(keys.len())];
            let groups = groups.map(|groups| match key.0 {
                PEERED if groups.is_empty() => groups,
                PEERED => vec![5],
                _ => groups,
            });
            match groups {
                Some(groups) => policy.endpoints.get_mut(&key).expect("listed").groups = groups,
                None => drop(policy.endpoints.remove(&key)),
            }
        }
        Edit::PortGroups(id, groups) => match groups {
            Some(groups) => drop(policy.ports.insert(id, port(groups))),
            None => drop(policy.ports.remove(&id)),
        },
        Edit::RemovePeer(list, i, j) => {
            if let Some(peers) = peers_at(policy, list, i)
                && !peers.is_empty()
            {
                let j = j.index(peers.len());
                peers.remove(j);
            }
        }
        Edit::AddPeer(list, i, peer) => {
            let dangles = peer == Peer::Group(5) && policy.vpcs[&VNI].peers.is_empty();
            if let Some(peers) = peers_at(policy, list, i)
                && !dangles
            {
                peers.push(peer);
            }
        }
        Edit::AddExcept(list, i, j, hole) => {
            if let Some(peers) = peers_at(policy, list, i)
                && !peers.is_empty()
            {
                let j = j.index(peers.len());
                if let Peer::Cidr { except, .. } = &mut peers[j] {
                    except.push(hole);
                }
            }
        }
        Edit::FlipSelection(id, _)
        | Edit::FlipAudit(id)
        | Edit::OnChange(id, _)
        | Edit::Priority(id, _)
        | Edit::Applies(id, _)
        | Edit::RemoveRule(id, _)
        | Edit::AddRule(id, _)
        | Edit::Mix(id, ..)
        | Edit::RulePriority(id, ..) => {
            let without = policy.vpcs[&VNI].peers.is_empty();
            if let Some(list) = policy.lists.get_mut(&id) {
                edit_list(list, edit, without);
            }
        }
    }
}

/// `without`: no other VPC's group may be named.
fn edit_list(list: &mut List, edit: Edit, without: bool) {
    let dangles = |rule: &Rule| without && rule.peers.named().contains(&Peer::Group(5));
    match edit {
        Edit::FlipSelection(_, Direction::Ingress) => list.selects_ingress = !list.selects_ingress,
        Edit::FlipSelection(_, Direction::Egress) => list.selects_egress = !list.selects_egress,
        Edit::FlipAudit(_) => list.audit = !list.audit,
        Edit::OnChange(_, to) => list.on_change = to,
        Edit::Priority(_, priority) => list.priority = priority,
        Edit::Applies(_, applies) => list.applies = applies,
        Edit::RemoveRule(_, i) => {
            if !list.rules.is_empty() {
                list.rules.remove(i.index(list.rules.len()));
            }
        }
        Edit::AddRule(_, rules) => {
            let rule = Rule {
                name: format!("{}/rules/added-{}", list.name, list.rules.len()),
                ..fitting(list, rules)
            };
            if !dangles(&rule) {
                list.rules.insert(0, rule);
            }
        }
        Edit::Mix(_, i, others, peers) => {
            if list.rules.is_empty() {
                return;
            }
            let i = i.index(list.rules.len());
            let kept = list.rules[i].clone();
            let other = Rule {
                name: kept.name.clone(),
                ..fitting(list, others)
            };
            let mixed = if peers {
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
            if !dangles(&mixed) {
                list.rules[i] = mixed;
            }
        }
        Edit::RulePriority(_, i, priority) => {
            if !list.rules.is_empty() {
                let i = i.index(list.rules.len());
                list.rules[i].priority = priority;
            }
        }
        _ => unreachable!("not of a list"),
    }
}

fn most() -> impl Strategy<Value = usize> {
    prop_oneof![Just(1_usize), 1_usize..6, Just(64), Just(1_000)]
}

/// Every query that changes from yes to no lies in one of the regions.
fn check(
    before: &Policy,
    after: &Policy,
    most: usize,
    random: &[Query],
    picks: &[(Index, Index)],
) -> Result<(), TestCaseError> {
    let (old, new) = (compile(before), compile(after));
    let regions = closing(&old, &new, most);
    prop_assert!(regions.len() <= most.max(1), "{regions:?}");
    let mut addrs = reference::addresses(before);
    addrs.extend(reference::addresses(after));
    addrs.push(v4(0));
    let mut at_edges = reference::edges(before);
    at_edges.extend(reference::edges(after));
    let picked = picks
        .iter()
        .filter(|_| !at_edges.is_empty())
        .flat_map(|(addr, q)| {
            let query = Query {
                peer: *addr.get(&addrs),
                ..*q.get(&at_edges)
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
        let closes = old.judge(&q).allow() && !new.judge(&q).allow();
        prop_assert!(
            !closes || regions.iter().any(|r| r.contains(VNI, &q)),
            "{q:?} is in none of {regions:?}"
        );
    }
    prop_assert_eq!(closing(&old, &old, most), vec![]);
    Ok(())
}

fn picks() -> impl Strategy<Value = Vec<(Index, Index)>> {
    prop::collection::vec(any::<(Index, Index)>(), 200)
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

    /// More tenant rules, peers and members never close anything.
    #[test]
    fn what_only_opens_needs_no_region(
        before in policy(),
        new_rule in rule(Tier::Tenant),
        member in any::<Index>(),
        new_peer in peer(),
    ) {
        let mut before = before;
        before.lists.retain(|_, list| list.tier == Tier::Tenant);
        for list in before.lists.values_mut() {
            list.on_change = OnChange::Reevaluate;
        }
        let mut after = before.clone();
        for list in after.lists.values_mut() {
            for rule in &mut list.rules {
                if let Peers::Any(peers) = &mut rule.peers {
                    peers.push(new_peer.clone());
                }
            }
            list.rules.push(Rule { name: format!("{}/rules/new", list.name), ..new_rule.clone() });
        }
        let own: Vec<_> = after.endpoints.keys().filter(|(vni, _)| *vni == VNI).copied().collect();
        if !own.is_empty() {
            let endpoint = after.endpoints.get_mut(member.get(&own)).expect("listed");
            endpoint.groups = vec![1, 2, 3, 4];
        }
        after.endpoints.entry((VNI, v4(200))).or_insert_with(|| endpoint(vec![2]));
        prop_assert_eq!(closing(&compile(&before), &compile(&after), 64), vec![]);
    }

    /// A rule that goes, or one that refuses and comes, concerns nobody but the
    /// ports of its list, its direction and its protocol.
    #[test]
    fn a_rule_stays_among_its_own(before in policy(), l in 21_u32..27, i in any::<Index>()) {
        let mut after = before.clone();
        let list = after.lists.get_mut(&l).expect("list");
        prop_assume!(!list.rules.is_empty() && list.on_change != OnChange::Drop);
        let gone = list.rules.remove(i.index(list.rules.len()));
        for (before, after) in [(&before, &after), (&after, &before)] {
            for r in closing(&compile(before), &compile(after), 1_000) {
                let port = &before.ports[&r.port.expect("few enough for ports")];
                let applies = match &before.lists[&l].applies {
                    Applies::Vpc => true,
                    Applies::Groups(groups) => port.groups.iter().any(|g| groups.contains(g)),
                };
                prop_assert!(applies, "{r:?}");
                let number = gone.protocol.map(|p| match p {
                    Protocol::Number(p) => p,
                    Protocol::Roce => 17,
                });
                prop_assert_eq!((r.direction, r.protocol), (Some(gone.direction), number));
            }
        }
    }
}
