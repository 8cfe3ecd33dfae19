//! Two nodes with eight NICs each, and a port on each NIC: each NIC is on its own.

use std::time::{Duration, Instant};

use p4runtime::pipeline::Table;
use penstock_integration::bed::{Interrupt, Workload, eventually};
use penstock_integration::lab::{Lab, NodeSpec, SOON, can_run, uplink};
use serde_json::Value;

use crate::mesh::{self, CLOSED, OPEN, Place};
use crate::{binaries, p4rt};

const NICS: u8 = 8;
const NODES: [&str; 2] = ["n1", "n2"];

/// The status of a node's NICs, by device id from 1.
fn nics(lab: &Lab, node: &str) -> Vec<Value> {
    let name = format!("nodes/{node}");
    let found = lab.penstock().json(&["get", &name]).expect("answers");
    let nodes = &found["status"]["nodes"];
    let nics = nodes[0]["nics"].as_array();
    nics.expect("a status of its NICs").clone()
}

fn degraded(lab: &Lab, name: &str) -> Option<String> {
    let found = lab.penstock().json(&["get", name]).expect("answers");
    let conditions = found["status"]["conditions"].as_array().expect("some");
    let mut conditions = conditions.iter();
    let it = conditions.find(|it| it["type"] == "DEGRADED" && it["state"] == "TRUE")?;
    Some(format!("{}: {}", it["reason"], it["message"]))
}

/// Repeats until nothing is wrong: neighbours are being found, ports come back.
fn all_talk(lab: &Lab, places: &[&Place], most: usize, what: &str) {
    eventually(&Interrupt::none(), SOON, what, || {
        let wrong = mesh::talk(lab, places, most);
        anyhow::ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
        Ok(())
    })
    .expect("all talk");
}

/// How many others each asks, after all have asked all.
fn few() -> usize {
    let long = std::env::var_os("PENSTOCK_LONG").is_some();
    if long { usize::MAX } else { 3 }
}

fn wait_for<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    eventually(&Interrupt::none(), SOON, what, || {
        probe().ok_or_else(|| anyhow::anyhow!("not yet"))
    })
    .expect(what)
}

#[test]
fn eight_nics_on_each_of_two_nodes() {
    if !can_run(binaries()) {
        return;
    }
    let specs = NODES.map(|name| NodeSpec { name, nics: NICS });
    let mut lab = Lab::build("pn", binaries(), &specs).expect("a lab");
    let mut places = Vec::new();
    for node in 0..NODES.len() {
        // One on each NIC, and a second one on the first.
        for nic in (1..=NICS).chain([1]) {
            let number = places.len() + 1;
            places.push(mesh::plug(&mut lab, number, node, nic));
        }
    }
    let all: Vec<&Place> = places.iter().collect();
    // 18 ports with two addresses each fit NIC 8 of n2, and little more.
    let small = |node, nic| match (node, nic) {
        (1, 8) => "capacity = { mapping = 38 }",
        _ => "",
    };
    lab.start(small).expect("starts");
    let declared = lab.node_documents() + &mesh::documents(&places, &NODES, &mesh::rules(OPEN));
    lab.apply(&declared).expect("programmed");

    everyone_reaches_everyone(&lab, &all);
    a_policy_is_enforced_between_nics_of_one_node(&mut lab, &places, &declared);
    an_uplink_that_is_down_harms_its_own_ports(&lab, &places);
    a_full_table_is_its_nics_own_trouble(&mut lab, &all);
    lab.check_alive().expect("all run");
}

fn everyone_reaches_everyone(lab: &Lab, all: &[&Place]) {
    all_talk(lab, all, all.len(), "a full mesh");
    let ports = all.len() as u64;
    for (node, name) in NODES.into_iter().enumerate() {
        let status = nics(lab, name);
        let tables = p4rt::occupancy(lab, node, name, NICS);
        assert_eq!((status.len(), tables.len()), (8, 8));
        for (nic, (told, found)) in (1_u64..).zip(status.iter().zip(&tables)) {
            let here = if nic == 1 { 2 } else { 1 };
            assert_eq!(told["deviceId"], nic, "{told}");
            assert_eq!(told["programmed"], true, "{told}");
            assert!(told["reason"].as_str().is_none_or(str::is_empty), "{told}");
            let expected = [
                (Table::SpoofGuard, 2 * here),
                // Every other NIC of both nodes has ports of the VPC.
                (Table::Underlay, 15),
                (Table::Mapping, 2 * ports),
                (Table::Nexthop, ports),
            ];
            for (table, count) in expected {
                assert_eq!(found[&table], count, "NIC {nic} of {name}, {table:?}");
                let tables = told["tables"].as_array().expect("tables");
                let mut tables = tables.iter();
                let row = tables.find(|row| row["name"] == table.name());
                let row = row.expect("a row for each table");
                let number = |field: &str| {
                    let value = &row[field];
                    let text = value.as_str().map(str::to_owned);
                    text.unwrap_or_else(|| value.to_string())
                };
                assert_eq!(number("entries"), count.to_string(), "{row}");
                assert_eq!(number("wanted"), count.to_string(), "{row}");
            }
            // Its ports' connections and nobody else's: 34 TCP and as many pings each, of
            // which some are still there.
            let flows = found[&Table::Flow];
            assert!(
                flows > 0 && flows <= 2 * here * 17 * 8,
                "{flows} on NIC {nic}"
            );
        }
    }
    let shown = lab.penstock().run(&["get", "nodes/n1"]).expect("answers");
    assert!(shown.contains("NIC  PROGRAMMED  TABLES"), "{shown}");
    for nic in 1..=NICS {
        let row = shown.lines().any(|line| {
            line.starts_with(&format!("{nic} "))
                && line.contains("yes")
                && line.contains("mapping 36")
        });
        assert!(row, "NIC {nic} in {shown}");
    }
}

/// p1 on NIC 1 and p2 on NIC 2 of n1.
fn a_policy_is_enforced_between_nics_of_one_node(lab: &mut Lab, places: &[Place], declared: &str) {
    let (one, two) = (&places[0], &places[1]);
    assert_eq!((one.node, one.nic, two.node, two.nic), (0, 1, 0, 2));
    assert_eq!(mesh::opens(lab, one, two, OPEN), Ok(()));
    let silence = mesh::opens(lab, one, two, CLOSED).expect_err("closed");
    assert!(silence.contains("timed out"), "{silence}");
    // Refused at the sender already; with the sender's side open, at the receiver.
    let drops = |lab: &Lab, reason: &str| {
        let found = lab
            .penstock()
            .json(&["drops"])
            .expect("answers")
            .to_string();
        found.contains(reason) && found.contains(&CLOSED.to_string())
    };
    assert!(drops(lab, "denied_egress"));
    let way_out = declared.replace(
        "ports: [{first: 7000}], peers: [{securityGroup: mesh}]}\n    - {name: ping-egress",
        "ports: [{first: 7000, last: 7001}], peers: [{securityGroup: mesh}]}\n    - {name: ping-egress",
    );
    assert_ne!(way_out, declared);
    lab.apply(&way_out).expect("programmed");
    let silence = mesh::opens(lab, one, two, CLOSED).expect_err("closed");
    assert!(silence.contains("timed out"), "{silence}");
    assert!(drops(lab, "denied_ingress"));
    // Both sides open, and closed again: the other port this time.
    let swapped = declared.replace("first: 7000", "first: 7001");
    lab.apply(&swapped).expect("programmed");
    assert_eq!(mesh::opens(lab, one, two, CLOSED), Ok(()));
    mesh::opens(lab, one, two, OPEN).expect_err("closed now");
    lab.apply(declared).expect("programmed");
}

fn an_uplink_that_is_down_harms_its_own_ports(lab: &Lab, places: &[Place]) {
    let node = lab.node(0).expect("n1");
    let link = uplink(2);
    node.run(&["ip", "link", "set", &link, "down"])
        .expect("down");
    let told = wait_for("NIC 2 to say that it is down", || degraded(lab, "nodes/n1"));
    assert!(
        told.contains("UplinkDown") && told.contains("u2 is down"),
        "{told}"
    );
    for (nic, status) in (1..).zip(nics(lab, "n1")) {
        assert_eq!(status["programmed"], true, "its tables are right: {status}");
        let says = status["reason"]
            .as_str()
            .is_some_and(|it| it.contains("u2 is down"));
        assert_eq!(says, nic == 2, "{status}");
    }
    let on_it = |place: &&Place| place.node == 0 && place.nic == 2;
    for place in places {
        let name = format!("tenants/blue/vpcs/main/ports/{}", place.name);
        if on_it(&place) {
            wait_for("its port to say so", || degraded(lab, &name));
        } else {
            assert_eq!(degraded(lab, &name), None, "{name}");
        }
    }
    assert_eq!(degraded(lab, "nodes/n2"), None);
    let others: Vec<&Place> = places.iter().filter(|it| !on_it(it)).collect();
    all_talk(lab, &others, few(), "those on other NICs");
    let victim = places.iter().find(on_it).expect("one");
    mesh::opens(lab, victim, others[0], OPEN).expect_err("cut off");
    node.run(&["ip", "link", "set", &link, "up"]).expect("up");
    wait_for("NIC 2 to be well", || {
        degraded(lab, "nodes/n1").is_none().then_some(())
    });
    let all: Vec<&Place> = places.iter().collect();
    all_talk(lab, &all, few(), "all, when it is back");
}

/// Tenant red has a port on NIC 8 of n2, and one with eight addresses on n1: more than fit
/// that NIC beside tenant blue.
fn a_full_table_is_its_nics_own_trouble(lab: &mut Lab, all: &[&Place]) {
    let mut red = "kind: Tenant\nname: tenants/red\nspec: {}\n---\n\
         kind: Vpc\nname: tenants/red/vpcs/main\nspec:\n  vni: 1002\n  cidrs: [10.0.0.0/16]\n---\n\
         kind: Subnet\nname: tenants/red/vpcs/main/subnets/main\nspec:\n  cidrs: [10.0.0.0/24]\n---\n\
         kind: SecurityGroup\nname: tenants/red/vpcs/main/securityGroups/none\nspec:\n  rules: []\n---\n"
        .to_owned();
    for (node, name, nic, mac, last) in [
        (1, "r1", 8, "02:00:00:00:02:01", 11..12),
        (0, "r2", 1, "02:00:00:00:02:02", 21..29),
    ] {
        let ips: Vec<String> = last.map(|last| format!("10.0.0.{last}")).collect();
        let Workload { ns: _ } = lab
            .plug(node, name, mac, &[&format!("{}/24", ips[0])])
            .expect("plugs");
        red += &format!(
            "kind: Port\nname: tenants/red/vpcs/main/ports/{name}\nspec:\n  subnet: main\n  node: {}\n  nic: {nic}\n  \
             attachment: {name}\n  mac: \"{mac}\"\n  ips: [{}]\n  securityGroups: [none]\n---\n",
            NODES[node],
            ips.join(", ")
        );
    }
    lab.declare(&red).expect("accepted");
    let told = wait_for("NIC 8 to be full", || {
        let told = nics(lab, "n2");
        told.iter()
            .any(|it| it["programmed"] != true)
            .then_some(told)
    });
    for (nic, status) in (1..).zip(told) {
        assert_eq!(status["programmed"] == true, nic != 8, "{status}");
        let why = status["reason"].as_str().unwrap_or_default();
        let words = "NIC 8: table mapping has 38 of 45 entries, it takes 38";
        assert_eq!(why.contains(words), nic == 8, "{status}");
    }
    let told = wait_for("the node to be degraded", || degraded(lab, "nodes/n2"));
    assert!(
        told.contains("TableFull") && told.contains("1 of 8 NICs"),
        "{told}"
    );
    assert_eq!(degraded(lab, "nodes/n1"), None);
    // Those who were there before keep what they have.
    all_talk(lab, all, few(), "tenant blue");
    // Room again.
    let ports = ["r1", "r2"].map(|name| format!("tenants/red/vpcs/main/ports/{name}"));
    let begin = Instant::now();
    lab.penstock()
        .run(&["delete", &ports[0], &ports[1]])
        .expect("deletes");
    lab.penstock()
        .run(&["wait", "--timeout", "35"])
        .expect("programmed");
    assert!(begin.elapsed() < Duration::from_secs(40));
    assert_eq!(degraded(lab, "nodes/n2"), None);
}
