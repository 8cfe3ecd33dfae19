//! What needs no server, with the real program.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn policies() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../policies")
}

fn penstock(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_penstock"))
        .current_dir(policies())
        .env_clear()
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("penstock")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

/// Exit code and standard output.
fn told(arguments: &[&str]) -> (i32, String) {
    let output = penstock(arguments);
    (
        output.status.code().expect("an exit code"),
        text(&output.stdout).to_owned(),
    )
}

#[test]
fn check_says_that_all_is_well_or_what_is_not() {
    let (code, out) = told(&["check", "examples"]);
    assert!(
        code == 0
            && out.ends_with(
                " resources, no problems
"
            ),
        "{out}"
    );
    assert_eq!(
        told(&["check", "corpus/invalid/cidr-host-bits.yaml"]),
        (
            1,
            "corpus/invalid/cidr-host-bits.yaml:6:25: tenants/t/vpcs/v: spec.cidrs[0]: 10.0.0.7/16 has \
             bits set beyond its length; did you mean 10.0.0.0/16?\n"
                .to_owned()
        )
    );
    let (code, json) = told(&["check", "corpus/invalid/vni-range.yaml", "-o", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(
        (code, &json[0]["line"], &json[0]["field"]),
        (1, &6.into(), &"spec.vni".into())
    );
}

/// References go from file to file, so files are checked together.
#[test]
fn check_takes_several_files_as_one_set() {
    let folder = "examples/two-tenants";
    let file = |name: &str| format!("{folder}/{name}.yaml");
    assert_eq!(told(&["check", &file("blue"), &file("nodes")]).0, 0);
    let (code, out) = told(&["check", &file("blue")]);
    assert_eq!(code, 1);
    assert!(
        out.contains("spec.node: no Node \"host-a\" exists"),
        "{out}"
    );
}

const EXAMPLE: &str = "examples/two-tenants";

#[test]
fn explain_names_the_rule_at_both_ends() {
    let ask = [
        "explain",
        "-f",
        EXAMPLE,
        "--from",
        "blue/main/client",
        "--to",
        "blue/main/web",
    ];
    let (code, out) = told(&[&ask[..], &["--proto", "tcp", "--dport", "80"]].concat());
    assert_eq!(code, 0);
    assert_eq!(
        out,
        "ALLOW  TCP 10.0.0.21 -> 10.0.0.11 port 80
  egress   ALLOW  tenants/blue/vpcs/main/ports/client on nodes/host-b
           rule tenants/blue/vpcs/main/securityGroups/client/rules/web-pages allows TCP to port 80 towards 10.0.0.11
           admin     no rule matches
           tenant    decides
                       ALLOW   tenants/blue/vpcs/main/securityGroups/client/rules/web-pages  <- counts
           enforced: first packet by software, then the connection by NIC 1, stage flow
  ingress  ALLOW  tenants/blue/vpcs/main/ports/web on nodes/host-a
           rule tenants/blue/vpcs/main/securityGroups/web/rules/from-client allows TCP to port 80 from 10.0.0.21
           admin     no rule matches
           tenant    decides
                       ALLOW   tenants/blue/vpcs/main/securityGroups/web/rules/from-client  <- counts
           enforced: first packet by software, then the connection by NIC 1, stage flow
  route    10.0.0.11/32 in VNI 1001 is next hop 4: VXLAN 192.168.50.12 -> 192.168.50.11 with VNI 1001, to NIC 1 of nodes/host-a; IP packets up to 1550 bytes
  entries  nodes/host-a NIC 1: from the wire, VNI 1001, 10.0.0.21:40000 -> 10.0.0.11:80 protocol 6: to next hop 4
           nodes/host-a NIC 1: from tenants/blue/vpcs/main/ports/web, VNI 1001, 10.0.0.11:80 -> 10.0.0.21:40000 protocol 6: to next hop 2
           nodes/host-b NIC 1: from tenants/blue/vpcs/main/ports/client, VNI 1001, 10.0.0.21:40000 -> 10.0.0.11:80 protocol 6: to next hop 4
           nodes/host-b NIC 1: from the wire, VNI 1001, 10.0.0.11:80 -> 10.0.0.21:40000 protocol 6: to next hop 2
"
    );
    let verdict = |more: &[&str]| {
        let (code, out) = told(&[&ask[..], more].concat());
        assert_eq!(code, 0, "{out}");
        out.lines().next().expect("a line").to_owned()
    };
    for (more, expected) in [
        (
            &["--proto", "tcp", "--dport", "81"][..],
            "DENY  TCP 10.0.0.21 -> 10.0.0.11 port 81",
        ),
        (
            &["--proto", "udp", "--dport", "7", "-6"],
            "ALLOW  UDP fd00:10::21 -> fd00:10::11 port 7",
        ),
        (
            &["--proto", "icmp"],
            "ALLOW  ICMP 10.0.0.21 -> 10.0.0.11 type 8 code 0",
        ),
        (
            &["--proto", "ICMPv6"],
            "ALLOW  ICMPV6 fd00:10::21 -> fd00:10::11 type 128 code 0",
        ),
        (
            &["--proto", "icmp", "--icmp-type", "13"],
            "DENY  ICMP 10.0.0.21 -> 10.0.0.11 type 13 code 0",
        ),
    ] {
        assert_eq!(verdict(more), expected);
    }
}

#[test]
fn explain_says_why_a_packet_goes_nowhere() {
    for (to, expected) in [
        (
            "10.0.0.12",
            "is for tenants/blue/vpcs/main/securityGroups/web, which 10.0.0.21 is not in",
        ),
        (
            "10.0.0.99",
            "no port of tenants/blue/vpcs/main has the address 10.0.0.99",
        ),
        (
            "10.0.0.1",
            "10.0.0.1 is the gateway of tenants/blue/vpcs/main/subnets/main",
        ),
        (
            "red/main/db",
            "are in different VPCs, which never reach each other",
        ),
    ] {
        let (code, out) = told(&[
            "explain",
            "--offline",
            "-f",
            EXAMPLE,
            "--from",
            "blue/main/client",
            "--to",
            to,
            "--proto",
            "tcp",
            "--dport",
            "5432",
        ]);
        assert_eq!(code, 0);
        assert!(
            out.starts_with("DENY") && out.contains(expected),
            "{to}: {out}"
        );
    }
    let (_, json) = told(&[
        "explain",
        "-f",
        EXAMPLE,
        "--from",
        "red/main/web",
        "--to",
        "red/main/db",
        "--proto",
        "tcp",
        "--dport",
        "5432",
        "-o",
        "json",
    ]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["verdict"], "ALLOW");
    assert_eq!(
        json["steps"][1]["rule"],
        "tenants/red/vpcs/main/securityGroups/db/rules/from-web"
    );
}

#[test]
fn explain_knows_tiers_protocols_and_peerings() {
    for (from, to, packet, verdict, expected) in [
        (
            "trainer-1",
            "research/train/trainer-2",
            &["rocev2"][..],
            "ALLOW  ROCEV2 10.20.0.11 -> 10.20.0.12 port 4791",
            "securityGroups/trainers/rules/rdma-in",
        ),
        (
            "trainer-1",
            "research/train/login",
            &["udp", "--dport", "4791"],
            "DENY  UDP",
            "egress   DENY",
        ),
        (
            "login",
            "research/train/trainer-1",
            &["tcp", "--dport", "23"],
            "REJECT  TCP",
            "policies/platform/rules/no-telnet",
        ),
        (
            "suspect",
            "research/train/trainer-1",
            &["sctp", "--dport", "2905"],
            "DENY  SCTP",
            "policies/quarantine/rules/nothing-out",
        ),
        (
            "trainer-1",
            "storage/data/server-1",
            &["tcp", "--dport", "2049"],
            "DENY  TCP",
            "are in peered VPCs, between which nothing is forwarded yet",
        ),
    ] {
        let from = format!("research/train/{from}");
        let ask = [
            "explain",
            "-f",
            "examples/tiers",
            "--from",
            &from,
            "--to",
            to,
            "--proto",
        ];
        let (code, out) = told(&[&ask[..], packet].concat());
        assert_eq!(code, 0, "{out}");
        assert!(out.starts_with(verdict) && out.contains(expected), "{out}");
    }
    let ask = [
        "explain",
        "-f",
        "examples/tiers",
        "--from",
        "research/train/login",
    ];
    let to = ["--to", "10.20.0.11", "--proto", "rocev2", "--dport", "80"];
    let output = penstock(&[&ask[..], &to].concat());
    let error = text(&output.stderr);
    assert!(
        output.status.code() == Some(2) && error.contains("ROCEV2 is UDP to port 4791"),
        "{error}"
    );
}

/// Names as in the schema, everything there, and nothing that only text has.
#[test]
fn explain_as_json_has_the_shape_of_the_schema() {
    let ask = |to: &str, dport: &str| {
        let from = "research/train/login";
        let (code, out) = told(&[
            "explain",
            "--offline",
            "-f",
            "examples/tiers",
            "--from",
            from,
            "--to",
            to,
            "--proto",
            "tcp",
            "--dport",
            dport,
            "-o",
            "json",
        ]);
        assert_eq!(code, 0, "{out}");
        serde_json::from_str::<serde_json::Value>(&out).expect("JSON")
    };
    let rejected = ask("research/train/trainer-1", "22");
    let rule = "tenants/research/vpcs/train/policies/otherwise/rules/rest-out";
    let egress = &rejected["steps"][0];
    assert_eq!(rejected["verdict"], "REJECT");
    assert_eq!(egress["rule"], rule);
    assert_eq!(egress["first_packet"], "SOFTWARE");
    assert_eq!(egress["tiers"][1]["outcome"], "NOT_SELECTED");
    assert_eq!(
        egress["tiers"][2],
        serde_json::json!({
            "tier": "BASELINE", "outcome": "DECIDED", "matches_left_out": 0,
            "matches": [{"rule": rule, "action": "REJECT", "decides": true, "audit": false}],
        })
    );
    let ingress = &rejected["steps"][1];
    assert_eq!(ingress["tiers"][1]["outcome"], "CLOSED");
    assert!(ingress["near_misses"][0]["why"].is_string(), "{ingress}");
    assert_eq!(rejected["route"]["local"]["attachment"], "res-trainer-1");
    assert_eq!(rejected["entries"], serde_json::json!([]));
    let peered = ask("storage/data/server-1", "2049");
    assert!(peered["route"].is_null(), "{peered}");
    assert_eq!(peered["steps"][1]["first_packet"], "NIC_MAPPING");
}

/// What cannot be understood has exit code 2 and says what to write.
#[test]
fn wrong_usage_is_told() {
    let explain = [
        "explain",
        "-f",
        EXAMPLE,
        "--from",
        "blue/main/client",
        "--to",
    ];
    for (arguments, expected) in [
        (
            vec!["check", "no/such/file.yaml"],
            "cannot read no/such/file.yaml",
        ),
        (vec!["check", "src"], "no .yaml or .yml file in src"),
        (vec!["get", "prots"], "\"prots\" is no kind"),
        (
            vec!["get", "tenants/blue/prots"],
            "\"prots\" is no collection",
        ),
        (vec!["get", "nodes/a", "--in", "nodes"], "is a full name"),
        (
            vec!["get", "nodes", "--server", "localhost"],
            "write http://HOST:PORT",
        ),
        (
            vec![
                "get",
                "nodes",
                "--tls-ca",
                "no-such.pem",
                "--tls-cert",
                "no-such.crt",
                "--tls-key",
                "no-such.key",
                "--server",
                "https://h:1",
            ],
            "cannot read no-such.pem",
        ),
        (
            vec!["nodes", "--call-timeout", "0"],
            "use 0.001 to 86400 seconds",
        ),
        (vec!["delete"], "required arguments were not provided"),
        (
            [&explain[..], &["blue/main/web", "--proto", "tcp"]].concat(),
            "give --dport",
        ),
        (
            [
                &explain[..],
                &["blue/main/web", "--proto", "icmp", "--dport", "1"],
            ]
            .concat(),
            "ICMP has no ports",
        ),
        (
            [&explain[..], &["blue/main/wbe", "--proto", "icmp"]].concat(),
            "ports/wbe does not exist",
        ),
        (
            [&explain[..], &["fd00::1", "--proto", "icmp"]].concat(),
            "no address of a family",
        ),
    ] {
        let output = penstock(&arguments);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {told}");
        assert!(told.contains(expected), "{arguments:?}: {told}");
    }
}

#[test]
fn a_server_that_is_not_there_is_told_with_its_own_code() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let server = format!("http://{}", free.local_addr().expect("an address"));
    drop(free);
    let output = penstock(&["nodes", "--server", &server]);
    assert_eq!(output.status.code(), Some(3));
    assert!(
        text(&output.stderr).contains("Connection refused"),
        "{}",
        text(&output.stderr)
    );
}

/// `penstock ... | head -1` is no failure.
#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_penstock"))
        .current_dir(policies())
        .args(["check", "examples"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("penstock");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("an end");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
}

#[test]
fn verify_proves_what_documents_would_make() {
    let (code, out) = told(&["verify", "-f", "examples/two-tenants"]);
    assert!(code == 0 && out.starts_with("proved: "), "{out}");
    assert!(out.ends_with("none reaches another\n"), "{out}");
    let asked = [
        "verify",
        "-f",
        "examples/two-tenants",
        "--isolated",
        "blue/main",
        "tenants/red/vpcs/main",
    ];
    assert_eq!(
        told(&asked),
        (
            0,
            "isolated: no packet of tenants/blue/vpcs/main reaches tenants/red/vpcs/main, nor the other \
             way round\n"
                .to_owned()
        )
    );
    let (code, out) = told(&["verify", "-f", "examples/tiers", "-o", "json"]);
    let value: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(code, 0, "{out}");
    assert_eq!(value["proved"], true, "{out}");
    assert_eq!(value["violations"], serde_json::json!([]), "{out}");
    assert!(
        value["rows"].as_u64().is_some_and(|rows| rows > 20),
        "{out}"
    );
}

#[test]
fn verify_answers_with_a_packet_where_there_is_one() {
    let asked = [
        "verify",
        "-f",
        "examples/two-tenants",
        "--isolated",
        "blue/main",
        "blue/main",
    ];
    let (code, out) = told(&asked);
    assert!(
        code == 1 && out.starts_with("not isolated: tenants/blue/vpcs/main/ports/"),
        "{out}"
    );
    assert!(out.trim_end().ends_with(" gets it"), "{out}");
    let (code, _) = told(&[
        "verify",
        "-f",
        "examples/two-tenants",
        "--isolated",
        "blue/main",
        "no/vpc",
    ]);
    assert_eq!(code, 2);
}

/// The example with a part of tenant blue's text replaced.
fn altered(from: &str, to: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let files = std::fs::read_dir(policies().join(EXAMPLE)).expect("the example");
    let mut found = false;
    for file in files.map(|file| file.expect("a file").path()) {
        let text = std::fs::read_to_string(&file).expect("text");
        let name = file.file_name().expect("a name");
        let is_blue = name == "blue.yaml";
        found |= is_blue && text.contains(from);
        let text = if is_blue {
            text.replacen(from, to, 1)
        } else {
            text
        };
        std::fs::write(folder.path().join(name), text).expect("a copy");
    }
    assert!(found, "{from} is in the example");
    folder
}

#[test]
fn diff_tells_who_may_talk_to_whom_in_another_way() {
    let same = told(&["diff", "-f", EXAMPLE, "--against", EXAMPLE]);
    let none = "no port may talk to others than before, nor in another way\n";
    assert_eq!(same, (0, none.to_owned()));
    // The client's egress, and the web server's ingress, are for port 80.
    let wider = altered(
        "ports: [{first: 80}]\n      peers: [{securityGroup: client}]",
        "peers: [{securityGroup: client}]",
    );
    let wider = wider.path().to_str().expect("UTF-8");
    let unchanged = told(&["diff", "-f", wider, "--against", EXAMPLE]);
    assert_eq!(
        unchanged,
        (0, none.to_owned()),
        "the client's side still refuses"
    );
    let closed = altered(
        "      ports: [{first: 80}]\n      peers: [{securityGroup: web}]",
        "      ports: [{first: 81, last: 82}]\n      peers: [{securityGroup: web}]",
    );
    let closed = closed.path().to_str().expect("UTF-8");
    let (code, out) = told(&["diff", "-f", closed, "--against", EXAMPLE]);
    let client = "tenants/blue/vpcs/main/ports/client -> tenants/blue/vpcs/main/ports/web";
    assert_eq!(code, 1);
    assert_eq!(
        out,
        format!("{client}\n  closes   TCP port 80  (allow -> deny)\n")
    );
    let both = ["diff", "-f", closed, "--against", wider, "-o", "json"];
    let (code, out) = told(&both);
    let value: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(code, 1);
    assert_eq!(value["live_flows"], serde_json::Value::Null);
    let change = |effect: &str, first: u16, last: u16, before: &str, after: &str| {
        serde_json::json!({
            "effect": effect, "protocol": "TCP", "before": before, "after": after,
            "source_ports": {"first": 0, "last": 65535},
            "ports": [{"first": first, "last": last}],
        })
    };
    assert_eq!(
        value["changes"][0]["traffic"],
        serde_json::json!([change("CLOSES", 80, 80, "allow", "deny"),]),
        "the web server of the one is for port 80 only"
    );
    for (more, expected) in [
        (&["--limit", "1"][..], "raise --limit"),
        (&["--vpc", "blue/other"], "is on neither side"),
    ] {
        let output = penstock(&[&both[..], more].concat());
        let error = text(&output.stderr);
        assert!(
            output.status.code() == Some(2) && error.contains(expected),
            "{error}"
        );
    }
    let output = penstock(&["diff", "-f", "nowhere", "--against", EXAMPLE]);
    assert_eq!(output.status.code(), Some(2));
    // Without a server, exit code 2 says so as well.
    let output = penstock(&["diff", "-f", EXAMPLE, "--server", "http://127.0.0.1:1"]);
    assert_eq!(output.status.code(), Some(2));
}
