//! The meaning of a policy, written as one would say it: a linear scan of the
//! model that shares nothing with what is tested but words.

use penstock_flow::tuple::proto;
use penstock_flow::{Addr, Prefix};
use penstock_rules::model::{
    Action, Applies, Direction, List, ListId, Peer, Peers, Policy, Port, Protocol, Rule, Tier,
};
use penstock_rules::{Decision, Judgement, Query, RuleId, Verdict};

pub(crate) fn judge(policy: &Policy, q: &Query) -> Judgement {
    let Some(port) = policy.ports.get(&q.port) else {
        return told(Verdict::Deny, Decision::NoPort, None);
    };
    let enforced = verdict(policy, port, q, false);
    if enforced.verdict != Verdict::Allow {
        return enforced;
    }
    let audited = verdict(policy, port, q, true);
    Judgement {
        audit: (audited.verdict != Verdict::Allow).then_some(audited.decision),
        ..enforced
    }
}

fn told(verdict: Verdict, decision: Decision, rule: Option<&Rule>) -> Judgement {
    Judgement {
        verdict,
        decision,
        stateful: rule.is_none_or(|r| r.stateful),
        log: rule.is_some_and(|r| r.log),
        audit: None,
    }
}

fn verdict(policy: &Policy, port: &Port, q: &Query, audit: bool) -> Judgement {
    let lists = |tier: Tier| -> Vec<(ListId, &List)> {
        let lists = policy.lists.iter().map(|(id, list)| (*id, list));
        lists
            .filter(|(_, list)| list.vni == port.vni && list.tier == tier)
            .filter(|(_, list)| audit || !list.audit)
            .filter(|(_, list)| match &list.applies {
                Applies::Vpc => true,
                Applies::Groups(groups) => groups.iter().any(|g| port.groups.contains(g)),
            })
            .collect()
    };
    let ordered = |tier: Tier| -> Option<(RuleId, &Rule)> {
        let lists = lists(tier);
        let mut matching: Vec<(&List, RuleId, &Rule)> = lists
            .iter()
            .flat_map(|(id, list)| matching(policy, port, *id, list, q))
            .collect();
        matching.sort_by_key(|(list, _, rule)| {
            let strict = match rule.action {
                Action::Deny => 0,
                Action::Reject => 1,
                Action::Pass => 2,
                Action::Allow => 3,
            };
            (
                list.priority,
                rule.priority,
                strict,
                !rule.stateful,
                &list.name,
                &rule.name,
            )
        });
        matching.first().map(|(_, id, rule)| (*id, *rule))
    };
    let by = |(id, rule): (RuleId, &Rule)| {
        let verdict = match rule.action {
            Action::Deny => Some(Verdict::Deny),
            Action::Reject => Some(Verdict::Reject),
            Action::Allow => Some(Verdict::Allow),
            Action::Pass => None,
        };
        verdict.map(|verdict| told(verdict, Decision::Rule(id), Some(rule)))
    };
    if let Some(judgement) = ordered(Tier::Admin).and_then(by) {
        return judgement;
    }
    let tenant: Vec<(ListId, &List)> = lists(Tier::Tenant)
        .into_iter()
        .filter(|(_, list)| match q.direction {
            Direction::Ingress => list.selects_ingress,
            Direction::Egress => list.selects_egress,
        })
        .collect();
    if !tenant.is_empty() {
        let mut allowing: Vec<(&List, RuleId, &Rule)> = tenant
            .iter()
            .flat_map(|(id, list)| matching(policy, port, *id, list, q))
            .collect();
        allowing.sort_by_key(|(list, _, rule)| (!rule.stateful, &list.name, &rule.name));
        return match allowing.first() {
            Some((_, id, rule)) => told(Verdict::Allow, Decision::Rule(*id), Some(rule)),
            None => told(Verdict::Deny, Decision::Closed, None),
        };
    }
    if let Some(judgement) = ordered(Tier::Baseline).and_then(by) {
        return judgement;
    }
    let verdict = if policy.vpcs[&port.vni].default_allow {
        Verdict::Allow
    } else {
        Verdict::Deny
    };
    told(verdict, Decision::VpcDefault, None)
}

fn matching<'a>(
    policy: &'a Policy,
    port: &'a Port,
    id: ListId,
    list: &'a List,
    q: &'a Query,
) -> impl Iterator<Item = (&'a List, RuleId, &'a Rule)> {
    let rules = list.rules.iter().enumerate();
    rules
        .filter(move |(_, rule)| matches(policy, port, rule, q))
        .map(move |(i, rule)| {
            let index = u16::try_from(i).expect("few rules");
            (list, RuleId { list: id, index }, rule)
        })
}

fn matches(policy: &Policy, port: &Port, rule: &Rule, q: &Query) -> bool {
    let icmp = (q.dport / 256, q.dport % 256);
    let within = |ranges: &[(u16, u16)], p: u16| {
        ranges.is_empty() || ranges.iter().any(|r| r.0 <= p && p <= r.1)
    };
    let is_roce = q.proto == proto::UDP && q.dport == 4791;
    rule.direction == q.direction
        && match rule.protocol {
            None => true,
            Some(Protocol::Roce) => is_roce,
            Some(Protocol::Number(p)) => p == q.proto && !is_roce,
        }
        && within(&rule.ports, q.dport)
        && within(&rule.source_ports, q.sport)
        && rule.icmp_type.is_none_or(|t| u16::from(t) == icmp.0)
        && rule.icmp_code.is_none_or(|c| u16::from(c) == icmp.1)
        && match &rule.peers {
            Peers::Everyone => true,
            Peers::Any(peers) => peers.iter().any(|p| is_peer(policy, port, p, q.peer)),
        }
}

fn is_peer(policy: &Policy, port: &Port, peer: &Peer, addr: Addr) -> bool {
    match peer {
        Peer::Group(id) => {
            let mut seen = std::iter::once(port.vni).chain(policy.vpcs[&port.vni].peers.clone());
            let found = seen.find_map(|vni| policy.endpoints.get(&(vni, addr)));
            found.is_some_and(|endpoint| endpoint.groups.contains(id))
        }
        Peer::Set(id) => policy.sets[id].prefixes.iter().any(|p| inside(p, addr)),
        Peer::Cidr { prefix, except } => {
            inside(prefix, addr) && !except.iter().any(|e| inside(e, addr))
        }
    }
}

fn inside(prefix: &Prefix, addr: Addr) -> bool {
    let (a, b) = (prefix.addr().octets(), addr.octets());
    prefix.is_v4() == addr.is_v4()
        && (0..usize::from(prefix.len())).all(|i| {
            let bit = 0x80 >> (i % 8);
            a[i / 8] & bit == b[i / 8] & bit
        })
}

/// Addresses at which something of a policy begins or ends.
pub(crate) fn addresses(policy: &Policy) -> Vec<Addr> {
    let mut addrs: Vec<Addr> = policy.endpoints.keys().map(|(_, addr)| *addr).collect();
    let rules = policy.lists.values().flat_map(|l| &l.rules);
    let mut prefixes: Vec<Prefix> = policy
        .sets
        .values()
        .flat_map(|s| s.prefixes.clone())
        .collect();
    for peer in rules.flat_map(|r| r.peers.named()) {
        if let Peer::Cidr { prefix, except } = peer {
            prefixes.push(*prefix);
            prefixes.extend(except);
        }
    }
    for p in prefixes {
        let first = p.addr().0;
        let last = first | u128::MAX.checked_shr(u32::from(p.len())).unwrap_or(0);
        for a in [first, last, first.wrapping_sub(1), last.wrapping_add(1)] {
            addrs.push(Addr(a));
        }
    }
    addrs.sort_unstable();
    addrs.dedup();
    addrs
}

/// Queries just inside and just outside of every rule.
pub(crate) fn edges(policy: &Policy) -> Vec<Query> {
    let addrs = addresses(policy);
    let mut queries = Vec::new();
    let rules = policy.lists.values().flat_map(|l| &l.rules);
    for (i, rule) in rules.enumerate() {
        let around = |ranges: &[(u16, u16)]| -> Vec<u16> {
            let mut ports: Vec<u16> = ranges
                .iter()
                .flat_map(|(a, b)| [*a, *b, a.wrapping_sub(1), b.wrapping_add(1)])
                .collect();
            ports.push(4791);
            ports
        };
        let proto = match rule.protocol {
            None => 99,
            Some(Protocol::Roce) => proto::UDP,
            Some(Protocol::Number(p)) => p,
        };
        let (sports, dports) = (around(&rule.source_ports), around(&rule.ports));
        // Not all of all: a walk over each that does not run in step.
        for n in 0..sports.len().max(dports.len()) {
            let Some(peer) = addrs.get((i * 31 + n * 7) % addrs.len().max(1)) else {
                break;
            };
            queries.push(Query {
                direction: rule.direction,
                port: 1 + (n as u32 + i as u32) % 3,
                peer: *peer,
                proto,
                sport: sports[n % sports.len()],
                dport: dports[(n + i) % dports.len()],
            });
        }
    }
    queries
}
