//! Messages and documents say the same.

use std::path::Path;

use penstock_api::convert::{from_document, parse_violation_field, to_document, violation_field};
use penstock_api::v1;
use penstock_policies::document;

#[test]
fn documents_survive_the_way_there_and_back() {
    let policies = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../policies");
    for folder in ["corpus/valid", "examples"] {
        let documents = document::load(&policies.join(folder)).expect("documents");
        assert!(documents.problems.is_empty() && documents.resources.len() > 40);
        for resource in documents.resources {
            let message = from_document(&resource);
            assert_eq!(
                to_document(&message).as_ref(),
                Ok(&resource),
                "{}",
                resource.name
            );
        }
    }
}

#[test]
fn what_the_schema_does_not_have_is_refused_with_its_field() {
    let rule = |direction, protocol| v1::Rule {
        name: "r".into(),
        direction,
        protocol,
        ..v1::Rule::default()
    };
    let group = v1::SecurityGroup {
        rules: vec![rule(1, 2), rule(9, 77)],
        directions: vec![1, 0, 3],
        ..v1::SecurityGroup::default()
    };
    let message = v1::Resource {
        name: "tenants/t/vpcs/v/securityGroups/g".into(),
        spec: Some(v1::resource::Spec::SecurityGroup(group)),
        ..v1::Resource::default()
    };
    let told: Vec<_> = to_document(&message)
        .expect_err("unknown values")
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        told,
        [
            "spec.rules[1].direction: 9 is no value of this field; use one of INGRESS, EGRESS",
            "spec.rules[1].protocol: 77 is no value of this field; use one of ANY, TCP, UDP, SCTP, ICMP, ICMPV6, ROCEV2",
            "spec.directions[1]: 0 is no value of this field; use one of INGRESS, EGRESS",
            "spec.directions[2]: 3 is no value of this field; use one of INGRESS, EGRESS",
        ]
    );
    let selector = v1::Selector {
        match_expressions: vec![v1::Expression {
            operator: 9,
            ..Default::default()
        }],
        ..Default::default()
    };
    let policy = v1::Policy {
        tier: 9,
        mode: 9,
        on_change: 9,
        applies_to: Some(v1::AppliesTo {
            selector: Some(selector.clone()),
            ..Default::default()
        }),
        rules: vec![v1::Rule {
            action: 9,
            peers: vec![v1::Peer {
                peer: Some(v1::peer::Peer::Selector(selector)),
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let vpc = v1::Vpc {
        default_action: v1::Action::Reject.into(),
        ..Default::default()
    };
    let told: Vec<_> = [
        v1::resource::Spec::Policy(policy),
        v1::resource::Spec::Vpc(vpc),
    ]
    .into_iter()
    .flat_map(|spec| {
        let message = v1::Resource {
            spec: Some(spec),
            ..Default::default()
        };
        to_document(&message).expect_err("unknown values")
    })
    .map(|wrong| wrong.to_string())
    .collect();
    assert_eq!(
        told,
        [
            "spec.tier: 9 is no value of this field; use one of ADMIN, TENANT, BASELINE",
            "spec.appliesTo.selector.matchExpressions[0].operator: 9 is no value of this field; use one of IN, NOT_IN, EXISTS, DOES_NOT_EXIST",
            "spec.mode: 9 is no value of this field; use one of ENFORCE, AUDIT",
            "spec.onChange: 9 is no value of this field; use one of REEVALUATE, PERSIST, DROP",
            "spec.rules[0].action: 9 is no value of this field; use one of ALLOW, DENY, REJECT, PASS",
            "spec.rules[0].peers[0].selector.matchExpressions[0].operator: 9 is no value of this field; use one of IN, NOT_IN, EXISTS, DOES_NOT_EXIST",
            "spec.defaultAction: 3 is no value of this field; use one of ALLOW, DENY",
        ]
    );
    let empty = to_document(&v1::Resource::default()).expect_err("no spec");
    assert_eq!(empty[0].field, "spec");
}

#[test]
fn violation_fields_lead_back() {
    for field in ["name", "spec", "spec.rules[2].peers[0].cidr.prefix"] {
        assert_eq!(
            parse_violation_field(&violation_field(7, field)),
            Some((7, field))
        );
    }
    for field in ["resources", "resources[x].name", "name", "resources[3"] {
        assert_eq!(parse_violation_field(field), None);
    }
}
