//! `docs/policy.md` names every field that documents can have, with the limits
//! in force, and no other field.

use std::collections::BTreeSet;

use penstock_policies::document::{self, Kind};
use penstock_policies::model::LIMITS;

const TEXT: &str = include_str!("../../docs/policy.md");

/// The part of the text about a kind.
fn section(kind: Kind) -> &'static str {
    let heading = format!("\n## {}\n", kind.name());
    let begin = TEXT.find(&heading).expect("a section") + heading.len();
    let end = TEXT[begin..]
        .find("\n## ")
        .map_or(TEXT.len(), |n| begin + n);
    &TEXT[begin..end]
}

/// The rows of its table, by field.
fn rows(kind: Kind) -> Vec<(&'static str, &'static str)> {
    section(kind)
        .lines()
        .filter_map(|line| line.strip_prefix("| `spec.").map(|rest| (rest, line)))
        .map(|(rest, line)| (rest.split('`').next().unwrap_or_default(), line))
        .collect()
}

#[test]
fn every_field_is_documented_and_no_other() {
    for kind in Kind::ALL {
        assert!(TEXT.contains(&format!("| `{}` | `{}` |", kind.name(), kind.pattern())));
        let bare = |field: &str| field.replace("[]", "");
        let documented: BTreeSet<String> = rows(kind).iter().map(|(f, _)| bare(f)).collect();
        let real: BTreeSet<String> = document::schema(kind)
            .iter()
            .map(|field| bare(field.strip_prefix("spec.").expect(field)))
            .collect();
        assert_eq!(documented, real, "{kind:?}");
        for (field, row) in rows(kind) {
            assert_eq!(row.split('|').count(), 7, "{kind:?} {field}: five cells");
        }
    }
}

#[test]
fn the_limits_are_those_in_force() {
    for (kind, field, limit) in [
        (Kind::Tenant, "displayName", LIMITS.text),
        (Kind::Vpc, "cidrs", LIMITS.cidrs_per_vpc),
        (Kind::Port, "ips", LIMITS.ips_per_port),
        (Kind::Port, "securityGroups", LIMITS.groups_per_port),
        (Kind::Port, "labels", LIMITS.labels_per_port),
        (Kind::SecurityGroup, "rules[]", LIMITS.rules_per_list),
        (
            Kind::SecurityGroup,
            "rules[].ports[]",
            LIMITS.ranges_per_rule,
        ),
        (
            Kind::SecurityGroup,
            "rules[].peers[]",
            LIMITS.peers_per_rule,
        ),
        (
            Kind::SecurityGroup,
            "rules[].peers[].cidr.except[]",
            LIMITS.excepts_per_cidr,
        ),
        (
            Kind::SecurityGroup,
            "rules[].sourcePorts[]",
            LIMITS.ranges_per_rule,
        ),
        (
            Kind::SecurityGroup,
            "selector.matchLabels",
            LIMITS.labels_per_port,
        ),
        (
            Kind::SecurityGroup,
            "selector.matchExpressions[]",
            LIMITS.expressions,
        ),
        (
            Kind::SecurityGroup,
            "selector.matchExpressions[].values[]",
            LIMITS.values,
        ),
        (Kind::Policy, "rules[]", LIMITS.rules_per_list),
        (Kind::Policy, "rules[].ports[]", LIMITS.ranges_per_rule),
        (
            Kind::Policy,
            "rules[].sourcePorts[]",
            LIMITS.ranges_per_rule,
        ),
        (Kind::Policy, "rules[].peers[]", LIMITS.peers_per_rule),
        (
            Kind::Policy,
            "rules[].peers[].cidr.except[]",
            LIMITS.excepts_per_cidr,
        ),
        (
            Kind::Policy,
            "rules[].peers[].selector.matchExpressions[]",
            LIMITS.expressions,
        ),
        (
            Kind::Policy,
            "rules[].peers[].selector.matchExpressions[].values[]",
            LIMITS.values,
        ),
        (
            Kind::Policy,
            "appliesTo.securityGroups[]",
            LIMITS.applies_to,
        ),
        (Kind::Policy, "appliesTo.ports[]", LIMITS.applies_to),
        (Kind::PrefixSet, "prefixes[]", LIMITS.prefixes_per_set),
        (Kind::Node, "nics[]", LIMITS.nics_per_node),
    ] {
        let rows = rows(kind);
        let (_, row) = rows.iter().find(|(f, _)| *f == field).expect(field);
        let cell = row
            .trim_end_matches(" |")
            .rsplit(" | ")
            .next()
            .expect("a cell");
        let limits = cell.split([' ', ',']).any(|word| word == limit.to_string());
        assert!(limits, "{kind:?} {field}: {limit} is not in {cell:?}");
    }
    assert!(TEXT.contains("100 000 resources in a set") && LIMITS.resources == 100_000);
    assert!(TEXT.contains("at most 10 000 policies") && LIMITS.policies_per_vpc == 10_000);
}

/// Every word that a field takes is named where the field is.
#[test]
fn every_word_is_documented() {
    let words = |kind: Kind, field: &str, words: Vec<&str>| {
        let rows = rows(kind);
        let (_, row) = rows.iter().find(|(f, _)| *f == field).expect(field);
        for word in words {
            assert!(
                row.contains(&format!("`{word}`")),
                "{kind:?} {field}: {word}"
            );
        }
    };
    let all = |list: &[document::OnChange]| list.iter().map(|w| w.word()).collect();
    for kind in [Kind::SecurityGroup, Kind::Policy] {
        let protocols = document::Protocol::ALL.iter().map(|w| w.word());
        words(kind, "rules[].protocol", protocols.collect());
        let directions = document::Direction::ALL.iter().map(|w| w.word());
        words(kind, "rules[].direction", directions.collect());
        words(
            kind,
            "mode",
            document::Mode::ALL.iter().map(|w| w.word()).collect(),
        );
        words(kind, "onChange", all(document::OnChange::ALL));
        let operators = document::Operator::ALL.iter().map(|w| w.word());
        let field = "rules[].peers[].selector.matchExpressions[].operator";
        words(kind, field, operators.collect());
    }
    let actions = document::RuleAction::ALL.iter().map(|w| w.word());
    words(Kind::Policy, "rules[].action", actions.collect());
    words(
        Kind::Policy,
        "tier",
        document::Tier::ALL.iter().map(|w| w.word()).collect(),
    );
    let default = document::Action::ALL.iter().map(|w| w.word());
    words(Kind::Vpc, "defaultAction", default.collect());
    for operator in document::Operator::ALL {
        assert!(TEXT.contains(&format!("| `{}` | ", operator.word())));
    }
}

/// The example at the top is one.
#[test]
fn the_first_example_reads() {
    let begin = TEXT.find("```yaml\n").expect("an example") + 8;
    let end = begin + TEXT[begin..].find("```").expect("its end");
    let documents = document::parse("docs/policy.md", &TEXT.as_bytes()[begin..end]);
    assert_eq!((documents.resources.len(), documents.problems), (1, vec![]));
}
