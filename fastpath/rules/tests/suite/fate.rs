//! What becomes of a connection when its policy changes, case by case.

use penstock_flow::tuple::proto;
use penstock_rules::model::{Action, Applies, List, OnChange, Policy, Rule, Tier};
use penstock_rules::{Decision, Fate, Query, RuleId, Ruleset};

use crate::generate::{VNI, empty, port, rule_to, v4};

/// Port 1 is in groups 1 and 2. Tenant list 1 allows TCP 80 in.
fn base(on_change: OnChange) -> Policy {
    let mut policy = empty(true);
    policy.ports.insert(1, port(vec![1, 2]));
    let list = List {
        selects_ingress: true,
        on_change,
        rules: vec![web("web/rules/http")],
        ..List::of_group("web".into(), VNI, 1)
    };
    policy.lists.insert(1, list);
    policy
}

fn web(name: &str) -> Rule {
    rule_to(name, Some(proto::TCP), &[(80, 80)], vec![])
}

fn admin(action: Action, on_change: OnChange) -> List {
    List {
        tier: Tier::Admin,
        applies: Applies::Vpc,
        on_change,
        rules: vec![Rule {
            action,
            ..web("admin/rules/r")
        }],
        ..List::of_group("admin".into(), VNI, 1)
    }
}

/// Another list that selects the port, and allows nothing.
fn closed(on_change: OnChange) -> List {
    List {
        selects_ingress: true,
        on_change,
        ..List::of_group("closed".into(), VNI, 2)
    }
}

const WEB: Decision = Decision::Rule(RuleId { list: 1, index: 0 });

type Change = fn(&mut Policy);

#[test]
fn each_change_has_its_fate() {
    use OnChange::{Drop, Persist, Reevaluate};
    let shut: Change = |p| p.lists.get_mut(&1).unwrap().rules.clear();
    let more: Change = |p| {
        p.lists
            .get_mut(&1)
            .unwrap()
            .rules
            .push(web("web/rules/more"))
    };
    let cases: Vec<(&str, OnChange, Decision, Change, Fate)> = vec![
        ("nothing changes", Drop, WEB, |_| {}, Fate::Admitted),
        ("another rule comes", Reevaluate, WEB, more, Fate::Admitted),
        ("a list that cuts changes", Drop, WEB, more, Fate::Cut),
        (
            "what a list that cuts tells changes",
            Drop,
            WEB,
            |p| p.lists.get_mut(&1).unwrap().rules[0].log = true,
            Fate::Admitted,
        ),
        (
            "a list that cuts begins to be asked first",
            Reevaluate,
            WEB,
            |p| drop(p.lists.insert(9, admin(Action::Allow, Drop))),
            Fate::Cut,
        ),
        (
            "a list that cuts is gone, and its rule is another's",
            Drop,
            WEB,
            |p| {
                let list = p.lists.remove(&1).unwrap();
                let name = "other".into();
                p.lists.insert(
                    2,
                    List {
                        name,
                        on_change: Reevaluate,
                        ..list
                    },
                );
            },
            Fate::Cut,
        ),
        ("the rule goes", Reevaluate, WEB, shut, Fate::Cut),
        (
            "the rule goes, and lets persist",
            Persist,
            WEB,
            shut,
            Fate::Persists,
        ),
        (
            "the list goes, and the default denies",
            Persist,
            WEB,
            |p| {
                p.lists.clear();
                p.vpcs.get_mut(&VNI).unwrap().default_allow = false;
            },
            Fate::Persists,
        ),
        (
            "the default had admitted it, and denies",
            Persist,
            Decision::VpcDefault,
            |p| {
                p.lists.clear();
                p.vpcs.get_mut(&VNI).unwrap().default_allow = false;
            },
            Fate::Cut,
        ),
        (
            "the default had admitted it, and lists that let persist close it",
            Persist,
            Decision::VpcDefault,
            shut,
            Fate::Persists,
        ),
        (
            "another list closes it as well, and does not let persist",
            Persist,
            Decision::VpcDefault,
            |p| {
                p.lists.get_mut(&1).unwrap().rules.clear();
                p.lists.insert(3, closed(Reevaluate));
            },
            Fate::Cut,
        ),
        (
            "the other one is in audit",
            Persist,
            Decision::VpcDefault,
            |p| {
                p.lists.get_mut(&1).unwrap().rules.clear();
                let audit = true;
                p.lists.insert(
                    3,
                    List {
                        audit,
                        ..closed(Reevaluate)
                    },
                );
            },
            Fate::Persists,
        ),
        (
            "a rule denies, whatever the list that admitted it",
            Persist,
            WEB,
            |p| drop(p.lists.insert(9, admin(Action::Deny, Reevaluate))),
            Fate::Cut,
        ),
        (
            "a rule rejects, and lets persist",
            Reevaluate,
            WEB,
            |p| drop(p.lists.insert(9, admin(Action::Reject, Persist))),
            Fate::Persists,
        ),
        (
            "the port goes",
            Persist,
            WEB,
            |p| p.ports.clear(),
            Fate::Cut,
        ),
    ];
    let query = Query {
        direction: penstock_rules::model::Direction::Ingress,
        port: 1,
        peer: v4(9),
        proto: proto::TCP,
        sport: 40_000,
        dport: 80,
    };
    for (name, on_change, admitted, change, expected) in cases {
        let before = base(on_change);
        let mut after = before.clone();
        change(&mut after);
        let [old, new] = [before, after].map(|p| Ruleset::compile(p).expect("a sound policy"));
        let judgement = new.judge(&query);
        assert_eq!(
            new.fate(Some(&old), admitted, &judgement, &query),
            expected,
            "{name}"
        );
    }
    // Without the ruleset before, a list that cuts counts as changed.
    let ruleset = Ruleset::compile(base(OnChange::Drop)).expect("a sound policy");
    let judgement = ruleset.judge(&query);
    let fate = ruleset.fate(None, WEB, &judgement, &query);
    assert_eq!(fate, Fate::Cut);
}
