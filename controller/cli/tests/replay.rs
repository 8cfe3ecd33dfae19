//! `replay`, with the real program.
#![allow(clippy::panic, clippy::unwrap_used, reason = "tests may panic")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use etherparse::PacketBuilder;

const WEB: ([u8; 6], [u8; 4]) = ([2, 0, 0, 0, 1, 0x11], [10, 0, 0, 11]);
const CLIENT: ([u8; 6], [u8; 4]) = ([2, 0, 0, 0, 1, 0x21], [10, 0, 0, 21]);

type End = ([u8; 6], [u8; 4], u16);

fn tcp(from: End, to: End, (syn, ack): (bool, Option<u32>), seq: u32) -> Vec<u8> {
    let mut out = Vec::new();
    let mut tcp = PacketBuilder::ethernet2(from.0, to.0)
        .ipv4(from.1, to.1, 64)
        .tcp(from.2, to.2, seq, 60_000);
    if syn {
        tcp = tcp.syn();
    }
    if let Some(ack) = ack {
        tcp = tcp.ack(ack);
    }
    tcp.write(&mut out, &[]).unwrap();
    out
}

/// A handshake, one packet more, and one to a port that nobody opens.
fn frames() -> Vec<Vec<u8>> {
    let client = |port| (CLIENT.0, CLIENT.1, port);
    let web = |port| (WEB.0, WEB.1, port);
    vec![
        tcp(client(40_000), web(80), (true, None), 1000),
        tcp(web(80), client(40_000), (true, Some(1001)), 5000),
        tcp(client(40_000), web(80), (false, Some(5001)), 1001),
        tcp(client(40_000), web(80), (false, Some(5001)), 1001),
        tcp(client(40_001), web(5432), (true, None), 1000),
    ]
}

/// A frame each 250 microseconds, as tcpdump writes them.
fn pcap(frames: &[Vec<u8>], link: u32) -> Vec<u8> {
    let mut out = Vec::new();
    for field in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 262_144, link] {
        out.extend(u32::to_le_bytes(field));
    }
    for (i, frame) in frames.iter().enumerate() {
        let len = frame.len() as u32;
        for field in [1_700_000_000, 100 + i as u32 * 250, len, len] {
            out.extend(u32::to_le_bytes(field));
        }
        out.extend(frame);
    }
    out
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_penstock"));
    command
        .current_dir(root())
        .env_clear()
        .args(["replay", "-f", "policies/examples/two-tenants"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs over what is on standard input.
fn replay(capture: &[u8], arguments: &[&str]) -> Output {
    let mut child = command(&[&["--pcap", "-"], arguments].concat())
        .spawn()
        .unwrap();
    // It may have had enough before.
    let _ = child.stdin.take().unwrap().write_all(capture);
    child.wait_with_output().unwrap()
}

fn told(output: &Output) -> (i32, &str, &str) {
    (
        output.status.code().unwrap(),
        std::str::from_utf8(&output.stdout).unwrap(),
        std::str::from_utf8(&output.stderr).unwrap(),
    )
}

/// What stands between these fences of the guide.
fn guide(nth: usize) -> String {
    let guide = std::fs::read_to_string(root().join("docs/replay.md")).unwrap();
    let block = guide.split("```\n").nth(nth * 2 + 1);
    block.expect("a block").to_owned()
}

#[test]
fn the_guide_shows_what_is_printed() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), pcap(&frames(), 1)).unwrap();
    let output = command(&["--pcap", file.path().to_str().unwrap()])
        .output()
        .unwrap();
    let (code, out, err) = told(&output);
    assert_eq!((code, err), (0, ""));
    let (_, printed) = guide(0)
        .split_once('\n')
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    assert_eq!(out, printed);
    // And the same from standard input.
    assert_eq!(told(&replay(&pcap(&frames(), 1), &[])).1, printed);
}

#[test]
fn json_has_an_object_per_line_with_the_fields_that_the_guide_names() {
    let output = replay(&pcap(&frames(), 1), &["-o", "json"]);
    let (code, out, err) = told(&output);
    assert_eq!((code, err), (0, ""));
    let lines: Vec<serde_json::Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 6);
    let guide = std::fs::read_to_string(root().join("docs/replay.md")).unwrap();
    let mut fields = Vec::new();
    for line in &lines {
        names(line, &mut fields);
    }
    fields.sort();
    fields.dedup();
    // The summary's own keys are names of nodes and verdicts.
    fields.retain(|field| {
        !field.contains('/') && !["forwarded", "dropped", "denied_egress"].contains(&field.as_str())
    });
    assert!(fields.len() > 20, "{fields:?}");
    for field in fields {
        let quoted = format!("`{field}`");
        let mut rows = guide.lines().filter_map(|line| line.strip_prefix("| `"));
        let named = |row: &str| {
            format!("`{row}")
                .split(" | ")
                .next()
                .unwrap()
                .contains(&quoted)
        };
        assert!(rows.any(named), "{field}");
    }
    let third = &lines[2];
    assert_eq!(third["timeNs"], 500_000);
    assert_eq!(third["flow"]["destinationPort"], 80);
    assert_eq!(third["steps"][1]["ends"][0]["state"], "established");
    let refused = &lines[4];
    assert_eq!(refused["reason"], "denied_egress");
    let why = refused["steps"][0]["ends"][0]["explanation"]
        .as_str()
        .unwrap();
    assert!(
        why.contains("no rule of its groups allows TCP to port 5432"),
        "{why}"
    );
    assert_eq!(lines[5]["summary"]["packets"], 5);
    assert_eq!(lines[5]["summary"]["drops"]["denied_egress"], 1);
}

fn names(value: &serde_json::Value, into: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (name, value) in fields {
                into.push(name.clone());
                names(value, into);
            }
        }
        serde_json::Value::Array(all) => all.iter().for_each(|value| names(value, into)),
        _ => {}
    }
}

#[test]
fn what_cannot_be_replayed_is_told_after_what_could() {
    let good = pcap(&frames(), 1);
    let cases: [(&[u8], &[&str], usize, &str); 6] = [
        (
            &good[..good.len() - 1],
            &[],
            4,
            "penstock: -: the file ends at byte 373, inside a packet that begins at byte 304; was it cut off?",
        ),
        (
            &pcap(&frames(), 113),
            &[],
            0,
            "penstock: -: byte 20: link type 113 (Linux cooked): only Ethernet (1) is read",
        ),
        (
            b"not a capture",
            &[],
            0,
            "penstock: -: no capture: it begins with [6e, 6f, 74, 20]",
        ),
        (
            &good,
            &["--vpc", "blue/mains"],
            0,
            "penstock: -: VPC tenants/blue/vpcs/mains is not declared; name one that is",
        ),
        (&good, &["--vpc", "Blue/main"], 0, "penstock: --vpc: "),
        (
            &good,
            &["-o", "yaml"],
            0,
            "penstock: replay prints a table or",
        ),
    ];
    for (capture, arguments, packets, expected) in cases {
        let output = replay(capture, arguments);
        let (code, out, err) = told(&output);
        assert!(code == 2 && err.starts_with(expected), "{code} {err}");
        let lines = out.lines().filter(|line| line.contains(" tcp "));
        assert_eq!(lines.count(), packets, "{out}");
    }
    let missing = command(&["--pcap", "no-such-file"]).output().unwrap();
    let (code, _, err) = told(&missing);
    assert!(
        code == 2 && err.starts_with("penstock: cannot open no-such-file: "),
        "{err}"
    );
}

#[test]
fn a_limit_and_a_vpc_leave_the_rest_out() {
    let capture = pcap(&frames(), 1);
    let output = replay(&capture, &["--limit", "2"]);
    assert!(
        told(&output)
            .1
            .contains("\n2 packets\n       2  forwarded\n")
    );
    let output = replay(&capture, &["--vpc", "red/main"]);
    let (code, out, _) = told(&output);
    assert_eq!(code, 0);
    assert!(
        out.contains("\n5 packets\n       5  not from a port\n"),
        "{out}"
    );
}

#[test]
fn what_passes_in_audit_only_is_told() {
    let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    let policy = "kind: Policy
name: tenants/blue/vpcs/main/policies/trial
spec:
  tier: ADMIN
  mode: AUDIT
  rules: [{name: no-web, direction: INGRESS, action: DENY, priority: 1, protocol: TCP, ports: [{first: 80}]}]
";
    std::fs::write(file.path(), policy).unwrap();
    let path = file.path().to_str().unwrap();
    let output = replay(&pcap(&frames(), 1), &["-f", path, "--limit", "2"]);
    let (code, out, err) = told(&output);
    assert_eq!((code, err), (0, ""));
    let audit = "in audit: rule tenants/blue/vpcs/main/policies/trial/rules/no-web denies TCP";
    // The packet that opens the connection, and not its reply.
    assert_eq!(out.matches(audit).count(), 1, "{out}");
    assert!(out.contains("\n2 packets\n       2  forwarded\n"), "{out}");
}

#[test]
fn whoever_has_seen_enough_may_close_the_output() {
    let many: Vec<_> = frames().into_iter().cycle().take(5000).collect();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), pcap(&many, 1)).unwrap();
    let mut child = command(&["--pcap", file.path().to_str().unwrap()])
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(told(&output), (0, "", ""));
}
