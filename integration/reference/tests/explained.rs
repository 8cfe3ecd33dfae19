//! What `explain` tells of each tier against the reference: which rules match, in
//! which order, which one counts, and what comes of it.

use std::collections::BTreeMap;

use penstock_policies::explain::{Explanation, Outcome};
use penstock_policies::model::{Action, Model, NodeName, Tier};
use penstock_policies::{Ids, compile};
use penstock_reference::random::{self, Random};
use penstock_reference::{By, Judged, Match, Packet, Verdict, judge, matching};
use penstock_rules::{Query, Ruleset};

const PER_MODEL: usize = 200;

fn explain(ids: &Ids, ruleset: &Ruleset, packet: &Packet) -> Explanation {
    let query = Query {
        direction: packet.direction,
        port: ids.ports[&packet.port],
        peer: packet.peer,
        proto: packet.protocol,
        sport: packet.source_port,
        dport: packet.destination_port,
    };
    ruleset.explain(&ruleset.judge(&query), &query)
}

#[test]
fn explanations_agree_with_the_reference_tier_by_tier() {
    let models = if std::env::var_os("PENSTOCK_LONG").is_some() {
        5_000
    } else {
        150
    };
    let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..models {
        let mut random = Random::new(seed);
        let model = random::model(&mut random);
        let mut ids = Ids::default();
        ids.assign(&model).expect("ids");
        let ruleset = |node: &NodeName| {
            let policy = compile::policy(&model, &ids, node, 1).expect("a valid model");
            Ruleset::compile(policy).expect("a valid policy")
        };
        let nodes = model.nodes.keys();
        let rulesets: BTreeMap<&NodeName, Ruleset> = nodes.map(|n| (n, ruleset(n))).collect();
        for packet in random::packets(&mut random, &model, PER_MODEL) {
            let want = judge(&model, &packet).expect("a port of the model");
            let ruleset = &rulesets[&model.ports[&packet.port].node];
            let got = explain(&ids, ruleset, &packet);
            compare(&model, &packet, &got, &want, &mut seen);
        }
    }
    println!("{seen:?}");
    let all = [
        "Decided",
        "Passed",
        "Closed",
        "NotSelected",
        "NoMatch",
        "audit",
        "near misses",
    ];
    for what in all {
        assert!(seen.get(what).is_some_and(|n| *n > 100), "{what}: {seen:?}");
    }
}

fn compare<'a>(
    model: &Model,
    packet: &Packet,
    got: &Explanation,
    want: &Judged,
    seen: &mut BTreeMap<&'a str, u64>,
) {
    let verdict = match got.verdict {
        penstock_rules::Verdict::Allow => Verdict::Allow,
        penstock_rules::Verdict::Deny => Verdict::Deny,
        penstock_rules::Verdict::Reject => Verdict::Reject,
    };
    let rule = match &want.by {
        By::Rule(name) => Some(name.clone()),
        By::Closed | By::Default => None,
    };
    let told = (
        verdict,
        &got.rule,
        got.stateful,
        got.log,
        got.audit.is_some(),
    );
    let meant = (
        want.verdict,
        &rule,
        want.stateful,
        want.log,
        want.would_stop.is_some(),
    );
    assert_eq!(told, meant, "{packet:?}");
    assert_eq!(got.allow, want.verdict == Verdict::Allow);
    if let (Some(text), Some(By::Rule(name))) = (&got.audit, &want.would_stop) {
        assert!(text.contains(name.as_str()), "{text}: {name}");
    }
    let mut count = |what: &'a str| *seen.entry(what).or_default() += 1;
    if got.audit.is_some() {
        count("audit");
    }
    if !got.near.is_empty() {
        assert!(!got.allow, "{packet:?}");
        count("near misses");
    }
    let tiers = [Tier::Admin, Tier::Tenant, Tier::Baseline];
    for (i, says) in got.tiers.iter().enumerate() {
        let matching = matching(model, tiers[i], packet);
        let matches = says.matches.iter().map(|found| Match {
            rule: found.rule.clone(),
            action: match found.action {
                penstock_rules::model::Action::Allow => Action::Allow,
                penstock_rules::model::Action::Deny => Action::Deny,
                penstock_rules::model::Action::Reject => Action::Reject,
                penstock_rules::model::Action::Pass => Action::Pass,
            },
            audit: found.audit,
        });
        assert_eq!(matches.collect::<Vec<_>>(), matching, "{packet:?}");
        let counts = matching.iter().position(|found| !found.audit);
        assert_eq!(says.matches.iter().position(|found| found.decides), counts);
        let expected = match counts.map(|at| matching[at].action) {
            Some(Action::Pass) => Outcome::Passed,
            Some(_) => Outcome::Decided,
            None if tiers[i] != Tier::Tenant => Outcome::NoMatch,
            None if want.by == By::Closed => Outcome::Closed,
            None => Outcome::NotSelected,
        };
        assert_eq!(says.outcome, expected, "{packet:?}");
        let is_last = i + 1 == got.tiers.len();
        match says.outcome {
            Outcome::Decided => {
                let at = counts.expect("a rule that counts");
                assert!(is_last && rule.as_ref() == Some(&matching[at].rule));
                count("Decided");
            }
            Outcome::Closed => {
                assert!(is_last && want.by == By::Closed);
                count("Closed");
            }
            Outcome::Passed => count("Passed"),
            Outcome::NotSelected => count("NotSelected"),
            Outcome::NoMatch => count("NoMatch"),
        }
    }
    if want.by == By::Default {
        assert_eq!(got.tiers.len(), tiers.len());
    }
}
