//! The example, from its documents to verdicts and NIC tables.

use std::collections::BTreeSet;
use std::path::Path;

use penstock_flow::tuple::proto;
use penstock_flow::{Addr, Mac};
use penstock_policies::model::{Model, NodeName, PortName};
use penstock_policies::nic::{self, Interfaces, MappingKey, Nexthop, UnderlayKey, Vport, VportKey};
use penstock_policies::{Ids, compile, document};
use penstock_rules::model::{Direction, PortId};
use penstock_rules::{Query, Ruleset};

fn example() -> Model {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/two-tenants");
    let documents = document::load(&folder).expect("the example");
    documents.validate().expect("a valid set")
}

fn node(last: &str) -> NodeName {
    NodeName::parse(&format!("nodes/{last}")).expect("a name")
}

fn ids(model: &Model) -> Ids {
    let mut ids = Ids::default();
    ids.assign(model).expect("ids");
    ids
}

fn port(ids: &Ids, tenant: &str, port: &str) -> PortId {
    let name = format!("tenants/{tenant}/vpcs/main/ports/{port}");
    ids.ports[&PortName::parse(&name).expect("a name")]
}

fn addr(text: &str) -> Addr {
    text.parse::<std::net::IpAddr>().expect("an address").into()
}

const ECHO: u16 = 8 << 8;
const ECHO_V6: u16 = 128 << 8;

/// Whether a packet passes both ends, each judged by its own node's policy.
#[test]
fn the_example_lets_pass_what_it_says_and_nothing_else() {
    let model = example();
    let ids = ids(&model);
    let rulesets = ["host-a", "host-b"].map(|host| {
        let policy = compile::policy(&model, &ids, &node(host), 1).expect("a policy");
        Ruleset::compile(policy).expect("a ruleset")
    });
    let home = |port: &str| &rulesets[usize::from(port != "web")];
    let v4 = |port: &str| match port {
        "web" => "10.0.0.11",
        "db" => "10.0.0.12",
        _ => "10.0.0.21",
    };
    let v6 = |port: &str| format!("fd00:10::{}", v4(port).rsplit('.').next().expect("a byte"));
    let services = [
        (proto::TCP, 80),
        (proto::TCP, 81),
        (proto::TCP, 5432),
        (proto::UDP, 7),
        (proto::UDP, 53),
        (proto::ICMP, ECHO),
        (proto::ICMP, 13 << 8),
        (proto::ICMPV6, ECHO_V6),
        (proto::ICMPV6, 13 << 8),
    ];
    let open: BTreeSet<_> = [
        ("client", "web", proto::TCP, 80),
        ("client", "web", proto::UDP, 7),
        ("client", "web", proto::ICMP, ECHO),
        ("client", "web", proto::ICMPV6, ECHO_V6),
        ("web", "db", proto::TCP, 5432),
    ]
    .into();
    for tenant in ["blue", "red"] {
        for from in ["web", "db", "client"] {
            for to in ["web", "db", "client"].into_iter().filter(|to| *to != from) {
                for (proto, dport) in services {
                    for six in [false, true] {
                        if proto == if six { proto::ICMP } else { proto::ICMPV6 } {
                            continue;
                        }
                        let address = |p: &str| addr(&if six { v6(p) } else { v4(p).to_owned() });
                        let query = |direction, port, peer| Query {
                            direction,
                            port,
                            peer,
                            proto,
                            sport: 9,
                            dport,
                        };
                        let out = query(Direction::Egress, port(&ids, tenant, from), address(to));
                        let into = query(Direction::Ingress, port(&ids, tenant, to), address(from));
                        let passes =
                            home(from).judge(&out).allow() && home(to).judge(&into).allow();
                        let expected = open.contains(&(from, to, proto, dport));
                        assert_eq!(passes, expected, "{tenant} {from} {to} {proto} {dport}");
                    }
                }
            }
        }
    }
    // A port is known to its own node only; every address is known to both.
    assert!(rulesets[0].port(port(&ids, "blue", "db")).is_none());
    for (ruleset, other) in rulesets.iter().zip(["192.168.50.12", "192.168.50.11"]) {
        let addresses: usize = model.ports.values().map(|p| p.ips.len()).sum();
        assert_eq!(ruleset.policy().endpoints.len(), addresses);
        assert_eq!(
            ruleset.policy().vteps.keys().copied().collect::<Vec<_>>(),
            [addr(other)]
        );
        assert_eq!(
            ruleset.gateway(1001, addr("10.0.0.1")).map(|s| s.mtu),
            Some(1500)
        );
        assert!(ruleset.gateway(1002, addr("fd00:10::1")).is_some());
    }
}

#[test]
fn nic_tables_hold_what_the_nic_needs() {
    let model = example();
    let ids = ids(&model);
    let (web, db) = (port(&ids, "blue", "web"), port(&ids, "blue", "db"));
    let mut interfaces = Interfaces::default();
    interfaces.uplinks.insert(1, 40);
    let tables = |interfaces: &Interfaces| {
        let programs = nic::programs(&model, &ids, &node("host-a"), interfaces).expect("programs");
        assert_eq!(programs.keys().copied().collect::<Vec<_>>(), [1]);
        programs[&1].clone()
    };

    // Before the interface is there, nothing leads to it.
    let before = tables(&interfaces);
    assert!(before.vport.is_empty() && !before.nexthop.contains_key(&web));
    // Two tenants, two remote ports each, two addresses each.
    assert_eq!((before.nexthop.len(), before.mapping.len()), (4, 8));

    interfaces.ports.insert(web, 3);
    let after = tables(&interfaces);
    let key = VportKey {
        device_port: 3,
        vlan: 0,
    };
    assert_eq!(
        after.vport.get(&key),
        Some(&Vport {
            port: web,
            vni: 1001
        })
    );
    assert_eq!(after.vport.len(), 1);
    let mac = model
        .ports
        .values()
        .find(|p| p.attachment == "blue-web")
        .map(|p| p.mac);
    assert_eq!(
        after.nexthop.get(&web).copied(),
        mac.map(|mac| Nexthop::ToPort {
            device_port: 3,
            vlan: 0,
            mac
        })
    );
    let (here, there) = (addr("192.168.50.11"), addr("192.168.50.12"));
    assert_eq!(
        after.nexthop.get(&db),
        Some(&Nexthop::ToVtep {
            src_vtep: here,
            dst_vtep: there,
            src_mac: Mac::default(),
            dst_mac: Mac::default(),
            vni: 1001,
            mtu: 1550,
            device_port: 40,
        })
    );
    let tunnel = |vni| UnderlayKey {
        src_vtep: there,
        dst_vtep: here,
        vni,
    };
    assert_eq!(after.underlay, BTreeSet::from([tunnel(1001), tunnel(1002)]));
    let spoof: Vec<_> = after
        .spoof_guard
        .iter()
        .filter(|k| k.port == web)
        .map(|k| k.ip)
        .collect();
    assert_eq!(spoof, [addr("10.0.0.11"), addr("fd00:10::11")]);
    let dst = penstock_flow::Prefix::new(addr("fd00:10::12"), 128).expect("a prefix");
    assert_eq!(after.mapping.get(&MappingKey { vni: 1001, dst }), Some(&db));
}

/// Two NICs of one node are as remote to each other as two nodes, and a NIC
/// without ports of a VPC knows nothing of it.
#[test]
fn nics_of_one_node_tunnel_to_each_other() {
    let text = r#"
kind: Node
name: nodes/gpu
spec:
  workerAddress: 10.0.0.1:9600
  nics: [{deviceId: 1, vtep: 192.0.2.1}, {deviceId: 2, vtep: 192.0.2.2}, {deviceId: 3, vtep: 192.0.2.3}]
---
{kind: Node, name: nodes/idle, spec: {workerAddress: "10.0.0.2:9600", nics: [{deviceId: 1, vtep: 192.0.2.9}]}}
---
{kind: Tenant, name: tenants/t}
---
{kind: Vpc, name: tenants/t/vpcs/v, spec: {vni: 5, cidrs: [10.0.0.0/16]}}
---
{kind: Subnet, name: tenants/t/vpcs/v/subnets/s, spec: {cidrs: [10.0.0.0/24]}}
---
kind: Port
name: tenants/t/vpcs/v/ports/a
spec: {subnet: s, node: gpu, nic: 1, attachment: a, mac: "02:00:00:00:00:0a", ips: [10.0.0.10]}
---
kind: Port
name: tenants/t/vpcs/v/ports/b
spec: {subnet: s, node: gpu, nic: 2, attachment: b, mac: "02:00:00:00:00:0b", ips: [10.0.0.11]}
"#;
    let model = document::parse("f", text.as_bytes())
        .validate()
        .expect("valid");
    let ids = ids(&model);
    let name =
        |last: &str| PortName::parse(&format!("tenants/t/vpcs/v/ports/{last}")).expect("a name");
    let (a, b) = (ids.ports[&name("a")], ids.ports[&name("b")]);
    let interfaces = Interfaces {
        ports: [(a, 1), (b, 2)].into(),
        uplinks: [(1, 11), (2, 12), (3, 13)].into(),
    };
    let programs = nic::programs(&model, &ids, &node("gpu"), &interfaces).expect("programs");
    let tunnel = |src, dst| UnderlayKey {
        src_vtep: addr(src),
        dst_vtep: addr(dst),
        vni: 5,
    };
    assert_eq!(
        programs[&1].underlay,
        BTreeSet::from([tunnel("192.0.2.2", "192.0.2.1")])
    );
    assert_eq!(
        programs[&2].underlay,
        BTreeSet::from([tunnel("192.0.2.1", "192.0.2.2")])
    );
    assert!(matches!(
        programs[&1].nexthop[&b],
        Nexthop::ToVtep {
            device_port: 11,
            ..
        }
    ));
    assert!(matches!(
        programs[&2].nexthop[&b],
        Nexthop::ToPort { device_port: 2, .. }
    ));
    assert_eq!(programs[&3], nic::Program::default());

    let policy = compile::policy(&model, &ids, &node("gpu"), 1).expect("a policy");
    assert_eq!(policy.vteps.len(), 2, "each is the other's peer");
    let idle = compile::policy(&model, &ids, &node("idle"), 2).expect("a policy");
    assert_eq!(
        idle,
        penstock_rules::model::Policy {
            generation: 2,
            ..Default::default()
        }
    );
}

#[test]
fn ids_stay_and_are_never_given_twice() {
    let model = example();
    let mut ids = ids(&model);
    let before = ids.clone();
    ids.assign(&model).expect("ids");
    assert_eq!(ids, before);

    let mut smaller = model.clone();
    let gone = PortName::parse("tenants/red/vpcs/main/ports/web").expect("a name");
    smaller.ports.remove(&gone);
    ids.assign(&smaller).expect("ids");
    assert!(!ids.ports.contains_key(&gone));
    ids.assign(&model).expect("ids");
    assert_eq!(ids.ports[&gone], before.last + 1);

    ids.last = u32::MAX;
    ids.ports.remove(&gone);
    assert!(ids.assign(&model).is_err());
}

#[test]
fn a_missing_node_or_id_is_an_error() {
    let model = example();
    let unknown = compile::policy(&model, &ids(&model), &node("host-c"), 1).expect_err("no node");
    assert_eq!(
        unknown.to_string(),
        "nodes/host-c is not declared; declare it, or ask for one that is"
    );
    let without = compile::policy(&model, &Ids::default(), &node("host-a"), 1).expect_err("no ids");
    assert!(without.to_string().contains("has no id"), "{without}");
}
