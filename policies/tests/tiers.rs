//! Policies, selectors and peerings, from documents to verdicts.

use std::collections::BTreeSet;
use std::path::Path;

use penstock_flow::tuple::proto;
use penstock_flow::{Addr, Prefix};
use penstock_policies::model::{Model, NodeName, PortName};
use penstock_policies::{Ids, compile, document, unresolved};
use penstock_rules::model::{Applies, Direction, Peer, Peers, Policy};
use penstock_rules::{Query, Ruleset, Verdict};

fn model(text: &str) -> Model {
    let read = document::parse("f", text.as_bytes());
    read.validate().expect("a valid set")
}

fn ids(model: &Model) -> Ids {
    let mut ids = Ids::default();
    ids.assign(model).expect("ids");
    ids
}

fn compiled(model: &Model, ids: &Ids, node: &str) -> Policy {
    let node = NodeName::parse(&format!("nodes/{node}")).expect("a name");
    compile::policy(model, ids, &node, 1).expect("a policy")
}

fn port(ids: &Ids, name: &str) -> u32 {
    ids.ports[&PortName::parse(name).expect("a name")]
}

fn addr(text: &str) -> Addr {
    text.parse::<std::net::IpAddr>().expect("an address").into()
}

fn prefix(text: &str, len: u8) -> Prefix {
    Prefix::new(addr(text), len).expect("a prefix")
}

/// The example's own words: who says what, and who is heard.
#[test]
fn the_example_is_judged_as_it_says() {
    use Direction::{Egress, Ingress};
    use Verdict::{Allow, Deny, Reject};
    const ECHO: u16 = 8 << 8;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/tiers");
    let model = document::load(&folder)
        .expect("the example")
        .validate()
        .expect("a valid set");
    let ids = ids(&model);
    let rulesets = ["gpu-a", "gpu-b"]
        .map(|node| Ruleset::compile(compiled(&model, &ids, node)).expect("a ruleset"));
    let (trainer, other) = ("10.20.0.11", "10.20.0.12");
    let (login, monitor, server) = ("10.20.0.21", "10.20.0.200", "10.21.0.11");
    for (who, way, peer, proto, dport, verdict, rule) in [
        // Admin, before everyone.
        (
            "suspect",
            Egress,
            other,
            proto::UDP,
            4791,
            Deny,
            "quarantine/rules/nothing-out",
        ),
        (
            "suspect",
            Ingress,
            monitor,
            proto::TCP,
            9100,
            Deny,
            "quarantine/rules/nothing-in",
        ),
        (
            "trainer-1",
            Ingress,
            monitor,
            proto::TCP,
            9100,
            Allow,
            "platform/rules/monitoring",
        ),
        (
            "trainer-1",
            Egress,
            "192.0.2.1",
            proto::TCP,
            23,
            Reject,
            "platform/rules/no-telnet",
        ),
        (
            "login",
            Egress,
            trainer,
            proto::TCP,
            23,
            Reject,
            "platform/rules/no-telnet",
        ),
        // Admin hands on, the tenant is closed.
        ("trainer-1", Ingress, monitor, proto::ICMP, ECHO, Deny, ""),
        // Tenant: groups by labels, RoCEv2, the peered VPC.
        (
            "trainer-1",
            Ingress,
            other,
            proto::UDP,
            4791,
            Allow,
            "trainers/rules/rdma-in",
        ),
        ("trainer-1", Ingress, login, proto::UDP, 4791, Deny, ""),
        ("trainer-1", Ingress, other, proto::UDP, 53, Deny, ""),
        (
            "trainer-1",
            Egress,
            server,
            proto::TCP,
            2049,
            Allow,
            "trainers/rules/data",
        ),
        ("trainer-1", Egress, login, proto::TCP, 2049, Deny, ""),
        (
            "server-1",
            Ingress,
            trainer,
            proto::TCP,
            2049,
            Allow,
            "servers/rules/from-trainers",
        ),
        ("server-1", Ingress, login, proto::TCP, 2049, Deny, ""),
        // A TENANT policy for one port and one direction.
        (
            "login",
            Ingress,
            other,
            proto::TCP,
            22,
            Allow,
            "logins/rules/ssh",
        ),
        ("login", Ingress, monitor, proto::TCP, 22, Deny, ""),
        // Baseline, where nobody selects.
        (
            "login",
            Egress,
            "192.0.2.1",
            proto::TCP,
            443,
            Allow,
            "otherwise/rules/web-out",
        ),
        (
            "login",
            Egress,
            "192.0.2.1",
            proto::TCP,
            80,
            Reject,
            "otherwise/rules/rest-out",
        ),
        (
            "monitor",
            Ingress,
            trainer,
            proto::ICMP,
            ECHO,
            Allow,
            "otherwise/rules/ping",
        ),
        (
            "monitor",
            Ingress,
            server,
            proto::ICMP,
            ECHO,
            Deny,
            "otherwise/rules/rest-in",
        ),
        // No policy at all: the VPC's default.
        ("server-1", Egress, trainer, proto::TCP, 1, Deny, ""),
    ] {
        let vpc = if who == "server-1" {
            "storage/vpcs/data"
        } else {
            "research/vpcs/train"
        };
        let name = format!("tenants/{vpc}/ports/{who}");
        let home = &model.ports[&PortName::parse(&name).expect("a name")].node;
        let ruleset = &rulesets[usize::from(home.last() == "gpu-b")];
        let query = Query {
            direction: way,
            port: port(&ids, &name),
            peer: addr(peer),
            proto,
            sport: 1000,
            dport,
        };
        let judgement = ruleset.judge(&query);
        let case = format!("{who} {way:?} {peer} {proto} {dport}: {judgement:?}");
        assert_eq!(judgement.verdict, verdict, "{case}");
        let told = ruleset.explain(&judgement, &query).rule.unwrap_or_default();
        assert!(
            told.ends_with(rule) && told.is_empty() == rule.is_empty(),
            "{case} {told}"
        );
        assert_eq!(judgement.audit.is_some(), dport == 443, "{case}");
        assert_eq!(judgement.stateful, !told.contains("rdma"), "{case}");
        assert_eq!(judgement.log, told.contains("quarantine"), "{case}");
    }
}

const GROUND: &str = "\
{kind: Node, name: nodes/a, spec: {workerAddress: 'a:1', nics: [{deviceId: 1, vtep: 192.0.2.1}]}}
---
{kind: Node, name: nodes/b, spec: {workerAddress: 'b:1', nics: [{deviceId: 1, vtep: 192.0.2.2}]}}
---
{kind: Tenant, name: tenants/t}
---
{kind: Vpc, name: tenants/t/vpcs/v, spec: {vni: 1, cidrs: [10.0.0.0/16, 'fd00::/48']}}
---
{kind: Vpc, name: tenants/t/vpcs/w, spec: {vni: 2, cidrs: [10.1.0.0/16]}}
---
{kind: Subnet, name: tenants/t/vpcs/v/subnets/s, spec: {cidrs: [10.0.0.0/24, 'fd00::/64']}}
---
{kind: Subnet, name: tenants/t/vpcs/w/subnets/s, spec: {cidrs: [10.1.0.0/24]}}
---
{kind: Port, name: tenants/t/vpcs/v/ports/p, spec: {subnet: s, node: a, attachment: p, mac: '02:00:00:00:00:01', ips: [10.0.0.5, 'fd00::5'], labels: {app: web}}}
---
{kind: Port, name: tenants/t/vpcs/v/ports/q, spec: {subnet: s, node: a, attachment: q, mac: '02:00:00:00:00:02', ips: [10.0.0.6]}}
---
{kind: Port, name: tenants/t/vpcs/w/ports/r, spec: {subnet: s, node: b, attachment: r, mac: '02:00:00:00:00:03', ips: [10.1.0.5], labels: {app: web}, securityGroups: [g]}}
---
{kind: SecurityGroup, name: tenants/t/vpcs/w/securityGroups/g}
---
{kind: SecurityGroup, name: tenants/t/vpcs/w/securityGroups/unneeded}
---
{kind: PrefixSet, name: tenants/t/vpcs/v/prefixSets/s, spec: {prefixes: ['::/0', 10.9.0.0/16, 10.0.0.0/8]}}
---
{kind: PrefixSet, name: tenants/t/vpcs/v/prefixSets/unneeded, spec: {prefixes: [10.0.0.0/8]}}
";

const PEERED: &str = "\
---
{kind: Peering, name: tenants/t/vpcs/v/peerings/w, spec: {peer: w}}
---
{kind: Peering, name: tenants/t/vpcs/w/peerings/v, spec: {peer: v}}
";

fn policy(name: &str, spec: &str) -> String {
    format!("---\nkind: Policy\nname: tenants/t/vpcs/v/policies/{name}\nspec: {spec}\n")
}

/// The peers of a policy's only rule.
fn peers(policy: &Policy) -> &Peers {
    let list = policy.lists.values().find(|list| list.rules.len() == 1);
    &list.expect("a list").rules[0].peers
}

#[test]
fn every_kind_of_peer_becomes_addresses_sets_or_groups() {
    let text = policy(
        "p",
        "{tier: ADMIN, rules: [{name: r, direction: INGRESS, action: DENY, peers: [\
         {cidr: {prefix: 10.0.0.0/8, except: [10.2.0.0/16]}}, {prefixSet: s}, \
         {selector: {matchLabels: {app: web}}}, {port: p}, {vpc: v}, \
         {securityGroup: tenants/t/vpcs/w/securityGroups/g}]}]}",
    );
    let model = model(&format!("{GROUND}{PEERED}{text}"));
    let ids = ids(&model);
    let compiled = compiled(&model, &ids, "a");
    let (sets, groups): (Vec<_>, Vec<_>) = (
        compiled.sets.keys().copied().collect(),
        ids.groups
            .iter()
            .filter(|(name, _)| name.last() == "g")
            .map(|(_, id)| *id)
            .collect(),
    );
    let selected = *ids.anonymous.values().next().expect("a selector");
    let whole = |prefix| Peer::Cidr {
        prefix,
        except: vec![],
    };
    assert_eq!(
        *peers(&compiled),
        Peers::Any(vec![
            Peer::Cidr {
                prefix: prefix("10.0.0.0", 104),
                except: vec![prefix("10.2.0.0", 112)],
            },
            Peer::Set(sets[0]),
            Peer::Group(selected),
            whole(prefix("10.0.0.5", 128)),
            whole(prefix("fd00::5", 128)),
            whole(prefix("10.0.0.0", 112)),
            whole(prefix("fd00::", 48)),
            Peer::Group(groups[0]),
        ])
    );
    assert_eq!(
        compiled.groups[&selected].name,
        "app=web in tenants/t/vpcs/v"
    );
    assert_eq!(sets.len(), 1, "only what rules speak of");
    let prefixes = &compiled.sets[&sets[0]].prefixes;
    assert!(prefixes.len() == 3 && prefixes.is_sorted());
    // Of the peered VPC: addresses, and the groups that are named; none of its rules.
    assert_eq!(compiled.vpcs[&1].peers, BTreeSet::from([2]));
    assert_eq!(compiled.vpcs[&2].peers, BTreeSet::from([1]));
    assert_eq!(compiled.endpoints[&(2, addr("10.1.0.5"))].groups, groups);
    assert_eq!(
        compiled.endpoints[&(1, addr("10.0.0.5"))].groups,
        [selected]
    );
    assert_eq!(
        compiled.endpoints[&(1, addr("10.0.0.6"))].groups,
        Vec::<u32>::new()
    );
    assert!(compiled.groups.len() == 2 && compiled.lists.len() == 1);
    assert!(compiled.subnets.values().all(|subnet| subnet.vni == 1));
    Ruleset::compile(compiled).expect("a ruleset");
}

#[test]
fn what_a_policy_applies_to_becomes_groups() {
    let text = policy(
        "p",
        "{tier: TENANT, directions: [EGRESS], mode: AUDIT, onChange: DROP, \
         appliesTo: {ports: [q], selector: {matchLabels: {app: web}}}}",
    );
    let model = model(&format!("{GROUND}{text}"));
    let ids = ids(&model);
    let compiled = compiled(&model, &ids, "a");
    let list = compiled.lists.values().next().expect("a list");
    let Applies::Groups(groups) = &list.applies else {
        panic!("{list:?}");
    };
    assert!(groups.is_sorted() && groups.len() == 2);
    assert!(list.audit && list.selects_egress && !list.selects_ingress);
    let mut members: Vec<u32> = compiled
        .ports
        .values()
        .flat_map(|p| p.groups.clone())
        .collect();
    members.sort_unstable();
    assert_eq!(members, *groups, "each port is in one of them");
}

/// A peer in a VPC that is not peered in force closes.
#[test]
fn peers_that_cannot_be_found_close() {
    let rule = |action: &str| {
        let peer = "{securityGroup: tenants/t/vpcs/w/securityGroups/g}";
        let tier = if action == "TENANT" {
            "TENANT"
        } else {
            "ADMIN"
        };
        let action = if action == "TENANT" { "ALLOW" } else { action };
        policy(
            "p",
            &format!(
                "{{tier: {tier}, rules: [{{name: r, direction: INGRESS, action: {action}, \
                 peers: [{{vpc: v}}, {peer}]}}]}}"
            ),
        )
    };
    let half = PEERED.split("---\n").nth(1).expect("a half");
    for (action, closes) in [
        ("ALLOW", false),
        ("PASS", false),
        ("TENANT", false),
        ("DENY", true),
        ("REJECT", true),
    ] {
        for peering in ["", &format!("---\n{half}")] {
            let model = model(&format!("{GROUND}{peering}{}", rule(action)));
            let ids = ids(&model);
            let compiled = compiled(&model, &ids, "a");
            match peers(&compiled) {
                Peers::Everyone => assert!(closes, "{action}"),
                Peers::Any(rest) => assert!(!closes && rest.len() == 2, "{action} {rest:?}"),
            }
            assert_eq!(compiled.vpcs.len(), 1);
            let found = unresolved::of(&model);
            let told = found["tenants/t/vpcs/v/policies/p"][0].to_string();
            let remedy = match peering {
                "" => "declare a Peering in each of the two",
                _ => "declare the Peering of tenants/t/vpcs/w too",
            };
            assert_eq!(
                told,
                format!(
                    "spec.rules[0].peers[1].securityGroup is in tenants/t/vpcs/w, which is not \
                     peered with tenants/t/vpcs/v; {remedy}"
                )
            );
            let lone = unresolved::lone(&model);
            assert_eq!(lone.len(), usize::from(!peering.is_empty()));
        }
        let model = model(&format!("{GROUND}{PEERED}{}", rule(action)));
        assert!(unresolved::of(&model).is_empty() && unresolved::lone(&model).is_empty());
        let ids = ids(&model);
        match peers(&compiled(&model, &ids, "a")) {
            Peers::Any(all) => assert_eq!(all.len(), 3, "{action}"),
            Peers::Everyone => panic!("{action}"),
        }
    }
    // Nobody is left: no one, not everyone.
    let text = policy(
        "p",
        "{tier: ADMIN, rules: [{name: r, direction: INGRESS, action: ALLOW, peers: [{vpc: w}]}]}",
    );
    let model = model(&format!("{GROUND}{text}"));
    let ids = ids(&model);
    assert_eq!(*peers(&compiled(&model, &ids, "a")), Peers::Any(vec![]));
}

/// Equal selectors are one group, whose number stays as long as anybody speaks of it.
#[test]
fn selectors_keep_their_numbers() {
    let spec = |label: &str| {
        format!("{{tier: ADMIN, appliesTo: {{selector: {{matchLabels: {{app: {label}}}}}}}}}")
    };
    let one = model(&format!(
        "{GROUND}{}{}",
        policy("p", &spec("web")),
        policy("q", &spec("db"))
    ));
    let mut ids = ids(&one);
    let before = ids.anonymous.clone();
    assert_eq!(before.len(), 2);
    let other = model(&format!(
        "{GROUND}{}{}",
        policy("x", &spec("new")),
        policy("y", &spec("web"))
    ));
    ids.assign(&other).expect("ids");
    let web = "app=web in tenants/t/vpcs/v";
    assert_eq!(ids.anonymous[web], before[web]);
    assert!(!ids.anonymous.contains_key("app=db in tenants/t/vpcs/v"));
    let numbers: BTreeSet<u32> = ids
        .groups
        .values()
        .chain(ids.policies.values())
        .chain(ids.anonymous.values())
        .copied()
        .collect();
    let count = ids.groups.len() + ids.policies.len() + ids.anonymous.len();
    assert_eq!(numbers.len(), count, "no number twice");
    assert!(
        !before
            .values()
            .any(|id| *id == ids.anonymous["app=new in tenants/t/vpcs/v"])
    );
}
