//! The compiled ruleset against a linear scan of the model, and the meaning of
//! rules case by case.

use std::collections::BTreeMap;

use penstock_flow::tuple::proto;
use penstock_flow::{Addr, Prefix};
use penstock_rules::model::{Direction, Group, Peer, Policy, Port, Rule};
use penstock_rules::{CompileError, Decision, Judgement, Query, RuleId, Ruleset};
use proptest::prelude::*;

use crate::generate::{VNI, around, empty, endpoint, policy, port, query, rule_to, v4};

/// The meaning of a policy, written as one would say it.
mod reference {
    use super::*;

    pub(super) fn judge(policy: &Policy, q: &Query) -> (bool, Option<String>) {
        let Some(port) = policy.ports.get(&q.port) else {
            return (false, None);
        };
        let groups: Vec<&Group> = policy
            .groups
            .iter()
            .filter(|(id, _)| port.groups.contains(id))
            .map(|(_, g)| g)
            .collect();
        let selected = groups.iter().any(|g| match q.direction {
            Direction::Ingress => g.selects_ingress,
            Direction::Egress => g.selects_egress,
        });
        if !selected {
            return (policy.vpcs[&port.vni].default_allow, None);
        }
        let allowed_by = groups
            .iter()
            .flat_map(|g| &g.rules)
            .find(|rule| matches(policy, port, rule, q));
        (allowed_by.is_some(), allowed_by.map(|r| r.name.clone()))
    }

    fn matches(policy: &Policy, port: &Port, rule: &Rule, q: &Query) -> bool {
        let icmp = (q.dport / 256, q.dport % 256);
        rule.direction == q.direction
            && rule.protocol.is_none_or(|p| p == q.proto)
            && (rule.ports.is_empty()
                || rule.ports.iter().any(|r| r.0 <= q.dport && q.dport <= r.1))
            && rule.icmp_type.is_none_or(|t| u16::from(t) == icmp.0)
            && rule.icmp_code.is_none_or(|c| u16::from(c) == icmp.1)
            && (rule.peers.is_empty()
                || rule.peers.iter().any(|p| is_peer(policy, port, p, q.peer)))
    }

    fn is_peer(policy: &Policy, port: &Port, peer: &Peer, addr: Addr) -> bool {
        match peer {
            Peer::Group(id) => policy
                .endpoints
                .iter()
                .any(|(key, e)| *key == (port.vni, addr) && e.groups.contains(id)),
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
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// The same verdict, and the same rule named, as a linear scan.
    #[test]
    fn agrees_with_a_linear_scan(policy in policy(), queries in prop::collection::vec(query(), 50)) {
        let ruleset = Ruleset::compile(policy.clone()).expect("a sound policy");
        for q in queries {
            let Judgement { allow, decision } = ruleset.judge(&q);
            let rule = match decision {
                Decision::Rule(id) => Some(ruleset.rule_name(id).to_owned()),
                Decision::Closed | Decision::VpcDefault | Decision::NoPort => None,
            };
            prop_assert_eq!((allow, rule.clone()), reference::judge(&policy, &q), "{:?}", q);
            // What is told is what was judged, and no rule that allows it is a near miss.
            let told = ruleset.explain(&Judgement { allow, decision }, &q);
            prop_assert_eq!((told.allow, told.rule), (allow, rule));
            prop_assert!(told.near.iter().all(|near| !near.why.is_empty()), "{:?}", told.near);
        }
    }
}

fn with_rules(rules: Vec<Rule>) -> Policy {
    let mut policy = empty(false);
    let group = |name: &str, rules| Group {
        name: name.into(),
        vni: VNI,
        selects_ingress: true,
        selects_egress: false,
        rules,
    };
    policy.groups = BTreeMap::from([(1, group("web", rules)), (2, group("client", vec![]))]);
    policy.ports = BTreeMap::from([(1, port(vec![1]))]);
    policy.endpoints = BTreeMap::from([((VNI, v4(9)), endpoint(vec![2]))]);
    policy
}

fn tcp(peer: Addr, dport: u16) -> Query {
    Query {
        direction: Direction::Ingress,
        port: 1,
        peer,
        proto: proto::TCP,
        sport: 1,
        dport,
    }
}

#[test]
fn a_closed_port_says_what_would_nearly_have_matched() {
    let rules = vec![
        rule_to(
            "web/rules/http",
            Some(proto::TCP),
            &[(80, 80), (8000, 8010)],
            vec![Peer::Group(2)],
        ),
        rule_to("web/rules/dns", Some(proto::UDP), &[(53, 53)], vec![]),
    ];
    let ruleset = Ruleset::compile(with_rules(rules)).expect("a sound policy");

    let open = ruleset.judge(&tcp(v4(9), 8010));
    assert_eq!(
        open,
        Judgement {
            allow: true,
            decision: Decision::Rule(RuleId(0))
        }
    );
    assert_eq!(
        ruleset.explain(&open, &tcp(v4(9), 8010)).reason,
        "rule web/rules/http allows TCP to port 8010 from 10.0.0.9"
    );

    let q = tcp(v4(8), 81);
    let closed = ruleset.judge(&q);
    assert_eq!(
        closed,
        Judgement {
            allow: false,
            decision: Decision::Closed
        }
    );
    assert_eq!(
        ruleset.explain(&closed, &q).to_string(),
        "ingress of port p is closed by web, and no rule of its groups allows TCP to port 81 from 10.0.0.8\n  \
         web/rules/dns: is for UDP, not TCP\n  \
         web/rules/http: is for port 80, 8000-8010, not 81; is for client, which 10.0.0.8 is not in"
    );

    // Not selected on egress: the VPC's default; a port that nobody knows: closed.
    let egress = Query {
        direction: Direction::Egress,
        ..q
    };
    assert_eq!(
        ruleset.judge(&egress),
        Judgement {
            allow: false,
            decision: Decision::VpcDefault
        }
    );
    assert_eq!(
        ruleset.judge(&Query { port: 5, ..q }),
        Judgement {
            allow: false,
            decision: Decision::NoPort
        }
    );
    assert_eq!(
        ruleset.gateway(VNI, v4(1)).map(|s| s.name.as_str()),
        Some("s")
    );
    assert_eq!(ruleset.gateway(VNI, v4(2)), None);
}

#[test]
fn a_policy_that_contradicts_itself_is_refused() {
    type Spoil = fn(&mut Policy);
    let cases: [(&str, Spoil); 9] = [
        ("port p is in VPC 9, which", |p| {
            p.ports.get_mut(&1).unwrap().vni = 9
        }),
        ("port p is in subnet 9, which", |p| {
            p.ports.get_mut(&1).unwrap().subnet = 9
        }),
        ("port p names group 9, which", |p| {
            p.ports.get_mut(&1).unwrap().groups = vec![9]
        }),
        ("endpoint 10.0.0.9 names group 9", |p| {
            p.endpoints.get_mut(&(VNI, v4(9))).unwrap().groups = vec![9];
        }),
        ("rule r names group 3, which", |p| {
            rules(p).push(rule_to("r", None, &[], vec![Peer::Group(3)]))
        }),
        ("rule r has the port range 2-1;", |p| {
            rules(p).push(rule_to("r", Some(proto::TCP), &[(2, 1)], vec![]));
        }),
        ("rule r names ports;", |p| {
            rules(p).push(rule_to("r", None, &[(1, 2)], vec![]))
        }),
        ("rule r names an ICMP type", |p| {
            rules(p).push(Rule {
                icmp_code: Some(1),
                ..rule_to("r", Some(proto::ICMP), &[], vec![])
            });
        }),
        ("two subnets of VPC 7 have the gateway 10.0.0.1", |p| {
            let twin = p.subnets[&1].clone();
            p.subnets.insert(2, twin);
        }),
    ];
    for (message, spoil) in cases {
        let mut policy = with_rules(vec![]);
        spoil(&mut policy);
        let error: CompileError = Ruleset::compile(policy).expect_err(message);
        assert!(error.to_string().starts_with(message), "{error}");
    }
}

fn rules(policy: &mut Policy) -> &mut Vec<Rule> {
    &mut policy.groups.get_mut(&1).expect("group 1").rules
}

/// Rules x peers and rules x ranges must not multiply: were they to, this
/// would take minutes and gigabytes.
#[test]
fn many_overlapping_rules_compile_at_once() {
    let peers: Vec<Peer> = (0..200_u32)
        .map(|i| Peer::Cidr {
            prefix: around(
                Addr::from_v4([10, 0, 0, 1]),
                128 - u8::try_from(i % 100).unwrap(),
            ),
            except: vec![],
        })
        .collect();
    let rules = (0..1_000_u16)
        .map(|i| rule_to("r", Some(proto::TCP), &[(i, 60_000 - i)], peers.clone()))
        .collect();
    let ruleset = Ruleset::compile(with_rules(rules)).expect("a sound policy");
    for i in [0, 1, 500, 999] {
        assert!(ruleset.judge(&tcp(v4(1), i)).allow);
        assert_eq!(
            ruleset.judge(&tcp(v4(1), 60_000 - i)).decision,
            Decision::Rule(RuleId(0))
        );
    }
    assert!(!ruleset.judge(&tcp(v4(1), 60_001)).allow);
}
