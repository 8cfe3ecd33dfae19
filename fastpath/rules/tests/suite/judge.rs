//! The compiled ruleset against a linear scan of the model, and the meaning of
//! rules case by case.

use penstock_flow::Addr;
use penstock_flow::tuple::proto;
use penstock_rules::model::Direction;
use penstock_rules::model::{List, Peer, Policy, Rule};
use penstock_rules::{CompileError, Decision, Judgement, Outcome, Query, RuleId, Ruleset, Verdict};
use proptest::prelude::*;

use crate::generate::{VNI, around, empty, endpoint, policy, port, prefix_set, query, rule_to, v4};
use crate::reference;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// The same verdict, and the same rule named, as a linear scan.
    #[test]
    fn agrees_with_a_linear_scan(policy in policy(), queries in prop::collection::vec(query(), 150)) {
        let ruleset = Ruleset::compile(policy.clone()).expect("a sound policy");
        prop_assert_eq!(&ruleset.policy(), &policy);
        let queries: Vec<Query> = queries.into_iter().chain(reference::edges(&policy)).collect();
        for q in queries {
            let judgement = ruleset.judge(&q);
            prop_assert_eq!(judgement, reference::judge(&policy, &q), "{:?}", q);
        }
    }

    /// What is told is what was judged.
    #[test]
    fn tells_what_was_judged(policy in policy(), queries in prop::collection::vec(query(), 10)) {
        let ruleset = Ruleset::compile(policy.clone()).expect("a sound policy");
        for q in queries {
            let judgement = ruleset.judge(&q);
            let rule = match judgement.decision {
                Decision::Rule(id) => Some(ruleset.rule_name(id).to_owned()),
                Decision::Closed | Decision::VpcDefault | Decision::NoPort => None,
            };
            let told = ruleset.explain(&judgement, &q);
            prop_assert_eq!((told.allow, told.verdict), (judgement.allow(), judgement.verdict));
            prop_assert_eq!(&told.rule, &rule);
            prop_assert_eq!(told.audit.is_some(), judgement.audit.is_some());
            prop_assert!(told.near.iter().all(|near| !near.why.is_empty()), "{:?}", told.near);
            // The tiers are gone through rule by rule, and come to the same.
            let last = told.tiers.last().map(|tier| tier.outcome);
            let decided = told.tiers.iter().flat_map(|t| &t.matches).rfind(|m| m.decides);
            match judgement.decision {
                Decision::Rule(_) => {
                    prop_assert_eq!(last, Some(Outcome::Decided));
                    prop_assert_eq!(decided.map(|m| &m.rule), rule.as_ref());
                }
                Decision::Closed => prop_assert_eq!(last, Some(Outcome::Closed)),
                Decision::VpcDefault => prop_assert_eq!(last, Some(Outcome::NoMatch)),
                Decision::NoPort => prop_assert!(told.tiers.is_empty()),
            }
        }
    }
}

/// Group 1 has these rules on ingress, and port 1 is in it; 10.0.0.9 is in group 2.
fn with_rules(rules: Vec<Rule>) -> Policy {
    let mut policy = empty(false);
    let list = List {
        selects_ingress: true,
        rules,
        ..List::of_group("web".into(), VNI, 1)
    };
    policy.groups.get_mut(&2).expect("group 2").name = "client".into();
    policy.lists.insert(1, list);
    policy.ports.insert(1, port(vec![1]));
    policy.endpoints.insert((VNI, v4(9)), endpoint(vec![2]));
    policy
        .sets
        .insert(11, prefix_set(11, vec![around(v4(8), 125)]));
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
            verdict: Verdict::Allow,
            decision: Decision::Rule(RuleId { list: 1, index: 0 }),
            ..Judgement::NO_PORT
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
            decision: Decision::Closed,
            ..Judgement::NO_PORT
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
            decision: Decision::VpcDefault,
            ..Judgement::NO_PORT
        }
    );
    assert_eq!(
        ruleset.judge(&Query { port: 5, ..q }),
        Judgement {
            decision: Decision::NoPort,
            ..Judgement::NO_PORT
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
        ("port p is in VPC 99, which", |p| {
            p.ports.get_mut(&1).unwrap().vni = 99
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
        ("rule r names group 7, which", |p| {
            rules(p).push(rule_to("r", None, &[], vec![Peer::Group(7)]))
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
    &mut policy.lists.get_mut(&1).expect("list 1").rules
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
        assert!(ruleset.judge(&tcp(v4(1), i)).allow());
        assert_eq!(
            ruleset.judge(&tcp(v4(1), 60_000 - i)).decision,
            Decision::Rule(RuleId { list: 1, index: 0 })
        );
    }
    assert!(!ruleset.judge(&tcp(v4(1), 60_001)).allow());
}
