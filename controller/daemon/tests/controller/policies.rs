//! Policies, prefix sets, peerings and selectors: stored, served, told about.

use std::collections::HashMap;
use std::sync::Arc;

use penstock_api::v1::condition::{State, Type};
use penstock_api::{convert, v1};
use penstock_daemon::plan::Plan;
use penstock_daemon::registry::{Error, Registry};
use penstock_daemon::status::{Report, compute};
use penstock_daemon::store::{Batch, Memory, Store};
use penstock_daemon::world::{LoadError, World};
use penstock_policies::document;
use proptest::prelude::*;

use crate::controller::Controller;

/// Documents as messages.
fn declared(text: &str) -> Vec<v1::Resource> {
    let read = document::parse("f", text.as_bytes());
    assert_eq!(read.problems, []);
    read.resources.iter().map(convert::from_document).collect()
}

fn apply(registry: &Registry, text: &str) -> Arc<World> {
    let request = v1::ApplyRequest {
        resources: declared(text),
        ..Default::default()
    };
    registry.apply(request).unwrap();
    registry.hub().world()
}

fn delete(registry: &Registry, names: &[&str]) -> Result<Arc<World>, Error> {
    let request = v1::DeleteRequest {
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        allow_missing: true,
        ..Default::default()
    };
    registry.delete(&request)?;
    Ok(registry.hub().world())
}

/// Two VPCs that could be peered; a port of the first on node a, of the second on b.
const GROUND: &str = "\
{kind: Node, name: nodes/a, spec: {workerAddress: 'a:1', nics: [{deviceId: 1, vtep: 192.0.2.1}]}}
---
{kind: Node, name: nodes/b, spec: {workerAddress: 'b:1', nics: [{deviceId: 1, vtep: 192.0.2.2}]}}
---
{kind: Node, name: nodes/c, spec: {workerAddress: 'c:1', nics: [{deviceId: 1, vtep: 192.0.2.3}]}}
---
{kind: Tenant, name: tenants/t}
---
{kind: Vpc, name: tenants/t/vpcs/v, spec: {vni: 1, cidrs: [10.0.0.0/16]}}
---
{kind: Vpc, name: tenants/t/vpcs/w, spec: {vni: 2, cidrs: [10.1.0.0/16]}}
---
{kind: Subnet, name: tenants/t/vpcs/v/subnets/s, spec: {cidrs: [10.0.0.0/24]}}
---
{kind: Subnet, name: tenants/t/vpcs/w/subnets/s, spec: {cidrs: [10.1.0.0/24]}}
---
{kind: Port, name: tenants/t/vpcs/v/ports/p, spec: {subnet: s, node: a, attachment: p, mac: '02:00:00:00:00:01', ips: [10.0.0.5], labels: {app: web}}}
---
{kind: Port, name: tenants/t/vpcs/w/ports/q, spec: {subnet: s, node: b, attachment: q, mac: '02:00:00:00:00:02', ips: [10.1.0.5]}}
---
{kind: SecurityGroup, name: tenants/t/vpcs/w/securityGroups/g}
---
{kind: PrefixSet, name: tenants/t/vpcs/v/prefixSets/s, spec: {prefixes: [10.0.0.0/8]}}
";

const HALF: &str = "{kind: Peering, name: tenants/t/vpcs/v/peerings/w, spec: {peer: w}}";
const OTHER_HALF: &str = "{kind: Peering, name: tenants/t/vpcs/w/peerings/v, spec: {peer: v}}";

fn policy(name: &str, peers: &str) -> String {
    format!(
        "kind: Policy\nname: tenants/t/vpcs/v/policies/{name}\nspec: {{tier: ADMIN, \
         rules: [{{name: r, direction: INGRESS, action: DENY, peers: [{peers}]}}]}}\n"
    )
}

#[tokio::test]
async fn the_new_kinds_are_stored_listed_and_served() {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../policies/examples/tiers");
    let read = document::load(std::path::Path::new(examples)).unwrap();
    let sent: Vec<_> = read.resources.iter().map(convert::from_document).collect();
    let controller = Controller::start().await;
    controller.apply(sent.clone()).await.unwrap();
    for (kind, count) in [
        ("Policy", 5),
        ("PrefixSet", 1),
        ("Peering", 2),
        ("SecurityGroup", 2),
    ] {
        let listed = controller.list("", kind, 0).await;
        assert_eq!(listed.len(), count, "{kind}");
        for resource in listed {
            let got = controller.get(&resource.name).await.unwrap();
            let as_sent = sent.iter().find(|it| it.name == got.name).unwrap();
            assert_eq!(got.spec, as_sent.spec);
        }
    }
    // The same again changes nothing, whatever the order of labels.
    assert_eq!(controller.apply(sent).await.unwrap().changed, 0);
    controller.stop().await;
}

#[test]
fn what_rules_speak_of_is_not_deleted() {
    let registry = Registry::open(Arc::new(Memory::default())).unwrap();
    let p = "tenants/t/vpcs/v/policies/p";
    apply(&registry, &format!("{GROUND}---\n{HALF}\n"));
    for (peer, needed) in [
        ("{prefixSet: s}", "tenants/t/vpcs/v/prefixSets/s"),
        ("{port: p}", "tenants/t/vpcs/v/ports/p"),
        (
            "{securityGroup: tenants/t/vpcs/w/securityGroups/g}",
            "tenants/t/vpcs/w/securityGroups/g",
        ),
        (
            "{port: tenants/t/vpcs/w/ports/q}",
            "tenants/t/vpcs/w/ports/q",
        ),
    ] {
        apply(&registry, &policy("p", peer));
        let Err(Error::Referred(references)) = delete(&registry, &[needed]) else {
            panic!("{needed} is gone");
        };
        assert!(
            references
                .iter()
                .any(|it| it.from == p && it.description.starts_with("spec.rules[0].peers[0].")),
            "{needed}: {references:?}"
        );
    }
    // The VPC at the other end of a peering, and of a selector.
    apply(
        &registry,
        &policy("p", "{selector: {matchLabels: {a: b}, vpc: w}}, {vpc: w}"),
    );
    let w: Vec<&str> = vec![
        "tenants/t/vpcs/w",
        "tenants/t/vpcs/w/subnets/s",
        "tenants/t/vpcs/w/ports/q",
        "tenants/t/vpcs/w/securityGroups/g",
    ];
    let Err(Error::Referred(references)) = delete(&registry, &w) else {
        panic!("the VPC is gone");
    };
    let told: Vec<String> = references
        .iter()
        .map(|it| format!("{}: {}", it.from, it.description.split(':').next().unwrap()))
        .collect();
    assert_eq!(
        told,
        [
            format!("{}: spec.peer", "tenants/t/vpcs/v/peerings/w"),
            format!("{p}: spec.rules[0].peers[0].selector.vpc"),
            format!("{p}: spec.rules[0].peers[1].vpc"),
        ]
    );
    // With all that needs it, it goes.
    let all = [&w[..], &[p, "tenants/t/vpcs/v/peerings/w"]].concat();
    delete(&registry, &all).unwrap();
}

/// State, reason and message of a condition.
fn told(world: &World, name: &str, kind: Type) -> (State, String, String, usize) {
    let plan = Plan::of(world, None).unwrap();
    let reports: HashMap<String, Report> = plan
        .nodes
        .keys()
        .map(|node| {
            let report = Report {
                revision: world.revision,
                ..Report::default()
            };
            (node.clone(), report)
        })
        .collect();
    let (_, status) = compute(world, &plan, &reports)
        .into_iter()
        .find(|(it, _)| it == name)
        .unwrap();
    let condition = status
        .conditions
        .iter()
        .find(|it| it.r#type() == kind)
        .unwrap();
    let (reason, message) = (condition.reason.clone(), condition.message.clone());
    (condition.state(), reason, message, status.nodes.len())
}

#[test]
fn a_peering_is_told_as_it_is() {
    let registry = Registry::open(Arc::new(Memory::default())).unwrap();
    let (mine, theirs) = ("tenants/t/vpcs/v/peerings/w", "tenants/t/vpcs/w/peerings/v");
    let rule = policy(
        "p",
        "{vpc: v}, {securityGroup: tenants/t/vpcs/w/securityGroups/g}",
    );
    let p = "tenants/t/vpcs/v/policies/p";
    let alone = apply(&registry, &format!("{GROUND}---\n{HALF}\n---\n{rule}"));
    let waits =
        "waits for the other side: tenants/t/vpcs/w declares no Peering to tenants/t/vpcs/v";
    for kind in [Type::Resolved, Type::Programmed] {
        let (state, reason, message, _) = told(&alone, mine, kind);
        assert_eq!(
            (state, reason.as_str(), message.as_str()),
            (State::False, "WaitsForPeer", waits)
        );
    }
    let (state, reason, message, nodes) = told(&alone, p, Type::Resolved);
    assert_eq!(
        (state, reason.as_str(), nodes),
        (State::False, "PeerUnresolved", 1)
    );
    assert_eq!(
        message,
        "spec.rules[0].peers[1].securityGroup is in tenants/t/vpcs/w, which is not peered with \
         tenants/t/vpcs/v; declare the Peering of tenants/t/vpcs/w too"
    );
    assert_eq!(told(&alone, p, Type::Programmed).0, State::True);
    assert_eq!(
        told(&alone, "tenants/t/vpcs/w/ports/q", Type::Programmed).3,
        1
    );

    let both = apply(&registry, OTHER_HALF);
    for name in [mine, theirs] {
        assert_eq!(told(&both, name, Type::Resolved).0, State::True);
        let (state, reason, message, nodes) = told(&both, name, Type::Programmed);
        assert_eq!(
            (state, reason.as_str(), nodes),
            (State::False, "NotForwarded", 2)
        );
        assert!(
            message.contains("2 nodes") && message.contains("not forwarded"),
            "{message}"
        );
    }
    assert_eq!(told(&both, p, Type::Resolved).0, State::True);
    // Its own node carries it; the other port is known to both.
    assert_eq!(told(&both, p, Type::Programmed).3, 1);
    assert_eq!(
        told(&both, "tenants/t/vpcs/w/ports/q", Type::Programmed).3,
        2
    );
    assert_eq!(
        told(&both, "tenants/t/vpcs/w/subnets/s", Type::Programmed).3,
        1
    );

    let again = delete(&registry, &[theirs]).unwrap();
    assert_eq!(told(&again, mine, Type::Resolved).0, State::False);
    assert_eq!(told(&again, p, Type::Resolved).0, State::False);
}

/// A peering changes the nodes of both sides, and no other; and then each side's ports
/// concern the other's nodes.
#[test]
fn a_peering_concerns_the_nodes_of_both() {
    let registry = Registry::open(Arc::new(Memory::default())).unwrap();
    let mut world = apply(&registry, GROUND);
    let mut plan = Plan::of(&world, None).unwrap();
    let relabelled = "{kind: Port, name: tenants/t/vpcs/w/ports/q, spec: {subnet: s, node: b, \
                      attachment: q, mac: '02:00:00:00:00:02', ips: [10.1.0.5], labels: {x: y}}}";
    for (text, expected) in [
        (HALF, [2, 1, 1]),
        (OTHER_HALF, [3, 3, 1]),
        (relabelled, [4, 4, 1]),
        (&*policy("p", "{prefixSet: s}"), [5, 5, 1]),
    ] {
        let next = apply(&registry, text);
        plan = Plan::of(&next, Some((&world, &plan))).unwrap();
        world = next;
        let revisions: Vec<u64> = plan.nodes.values().map(|node| node.revision).collect();
        assert_eq!(revisions, expected, "{text}");
    }
}

#[test]
fn selectors_keep_their_numbers_over_restarts() {
    let store = Arc::new(Memory::default());
    let open = || Registry::open(Arc::clone(&store) as Arc<dyn Store>);
    let registry = open().unwrap();
    let web = "{selector: {matchLabels: {app: web}}}";
    apply(&registry, &format!("{GROUND}---\n{}", policy("p", web)));
    let first = apply(
        &registry,
        &policy(
            "q",
            &format!("{web}, {{selector: {{matchLabels: {{app: db}}}}}}"),
        ),
    );
    assert_eq!(first.anonymous.len(), 2);
    drop(registry);

    let registry = open().unwrap();
    assert_eq!(registry.hub().world().anonymous, first.anonymous);
    // One goes when the last that speaks of it does; what is new has a number of its own.
    let second = delete(&registry, &["tenants/t/vpcs/v/policies/q"]).unwrap();
    assert_eq!(second.anonymous.len(), 1);
    let third = apply(
        &registry,
        &policy("r", "{selector: {matchLabels: {app: new}}}"),
    );
    let text = "app=web in tenants/t/vpcs/v";
    assert_eq!(third.anonymous[text], first.anonymous[text]);
    let new = third.anonymous["app=new in tenants/t/vpcs/v"];
    assert!(!first.anonymous.values().any(|id| *id == new));
    let rows = third
        .rows
        .values()
        .filter(|row| row.name().contains("/vpcs/v/policies/"));
    assert!(
        !rows
            .map(|row| row.id)
            .any(|id| third.anonymous.values().any(|it| *it == id))
    );
    drop(registry);
    assert_eq!(open().unwrap().hub().world().anonymous, third.anonymous);

    // Without its row a selector could be taken for another.
    let (revision, rows) = store.snapshot(b"anonymous-id/").unwrap();
    assert_eq!(rows.len(), 2);
    let mut batch = Batch::default();
    batch.delete(rows[0].0.clone());
    store.commit(&batch, revision).unwrap();
    assert!(matches!(open(), Err(LoadError::NoNumber(text)) if text.starts_with("app=")));
    let mut batch = Batch::default();
    batch.put(rows[0].0.clone(), *b"app=nobody in tenants/t/vpcs/v");
    store.commit(&batch, revision + 1).unwrap();
    let error = open().unwrap_err();
    assert!(matches!(error, LoadError::NoNumber(_)), "{error}");
    batch = Batch::default();
    batch.put(rows[0].0.clone(), rows[0].1.clone());
    batch.put("anonymous-id/000000ff", *b"app=nobody in tenants/t/vpcs/v");
    store.commit(&batch, revision + 2).unwrap();
    let error = open().unwrap_err().to_string();
    assert!(
        error.contains("anonymous-id/000000ff") && error.contains("app=nobody"),
        "{error}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Step by step equals all at once, whatever comes and goes.
    #[test]
    fn kept_plans_of_peered_vpcs_equal_fresh_ones(
        steps in prop::collection::vec((0_u8..8, 0_u8..3, any::<bool>()), 1..20)
    ) {
        let registry = Registry::open(Arc::new(Memory::default())).unwrap();
        let mut world = apply(&registry, GROUND);
        let mut plan = Plan::of(&world, None).unwrap();
        for (what, which, second) in steps {
            let node = ["a", "b", "c"][usize::from(which)];
            let (vpc, byte, last) = if second { ("w", 1, 9) } else { ("v", 0, 8) };
            let next = match what {
                0 => apply(&registry, if second { OTHER_HALF } else { HALF }),
                1 => {
                    let name = if second { "tenants/t/vpcs/w/peerings/v" } else { "tenants/t/vpcs/v/peerings/w" };
                    delete(&registry, &[name]).unwrap()
                }
                2 | 3 => apply(&registry, &format!(
                    "{{kind: Port, name: tenants/t/vpcs/{vpc}/ports/m{which}, spec: {{subnet: s, node: {node}, \
                     attachment: m{vpc}{which}, mac: '02:00:00:00:01:{which}{last}', ips: [10.{byte}.0.1{which}], \
                     labels: {{app: web{what}}}}}}}"
                )),
                4 => delete(&registry, &[&format!("tenants/t/vpcs/{vpc}/ports/m{which}")]).unwrap(),
                5 => apply(&registry, &policy(node, "{selector: {vpc: w, matchLabels: {app: web2}}}")),
                6 => apply(&registry, &policy(node, "{vpc: w}, {securityGroup: tenants/t/vpcs/w/securityGroups/g}")),
                _ => delete(&registry, &[&format!("tenants/t/vpcs/v/policies/{node}")]).unwrap(),
            };
            plan = Plan::of(&next, Some((&world, &plan))).unwrap();
            world = next;
            let fresh = Plan::of(&world, None).unwrap();
            for (kept, fresh) in plan.nodes.values().zip(fresh.nodes.values()) {
                prop_assert_eq!(&kept.policy, &fresh.policy);
                prop_assert_eq!((&kept.vpcs, &kept.beside), (&fresh.vpcs, &fresh.beside));
            }
            prop_assert_eq!(&plan.unresolved, &fresh.unresolved);
            prop_assert_eq!(&plan.lone, &fresh.lone);
        }
    }
}
