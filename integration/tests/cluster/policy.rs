//! What policies do beside yes and no, as Linux' own TCP, UDP and ping meet it: on one
//! node and across.

use std::time::{Duration, Instant};

use penstock_integration::bed::{Interrupt, eventually, run};
use penstock_integration::lab::{Lab, NodeSpec, SOON, can_run};

use crate::binaries;
use crate::mesh::{Place, documents, plug};

const NODES: [NodeSpec; 2] = [
    NodeSpec {
        name: "n0",
        nics: 1,
    },
    NodeSpec {
        name: "n1",
        nics: 1,
    },
];

/// Ports with an echo behind them.
const PERSIST: u16 = 7101;
const REEVALUATE: u16 = 7102;
const DROP: u16 = 7103;
const REJECTED: u16 = 7200;
const STATELESS: u16 = 7300;
const ONE_WAY: u16 = 7301;
const AUDITED: u16 = 7400;
const LOGGED: u16 = 7401;

/// Everyone may do everything, but for what ADMIN policies say.
const OPEN: &str = "    - {name: in, direction: INGRESS}\n    - {name: out, direction: EGRESS}\n";

/// Prints how a first word to a server ends, and after how many milliseconds.
const ASK: &str = r#"
import errno, socket, sys, time
kind, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
family = socket.AF_INET6 if ":" in address else socket.AF_INET
begin = time.monotonic()
try:
    s = socket.socket(family, getattr(socket, "SOCK_" + kind))
    s.settimeout(3)
    s.connect((address, port))
    s.send(b"hello")
    said = "ok" if s.recv(100) == b"hello" else "closed"
except socket.timeout:
    said = "timeout"
except OSError as e:
    said = errno.errorcode.get(e.errno, str(e))
print(said, int((time.monotonic() - begin) * 1000))
"#;

struct Stage {
    lab: Lab,
    /// The client; a server beside it; a server on the other node.
    client: Place,
    servers: [Place; 2],
}

impl Stage {
    /// Everything runs, and everything is allowed.
    fn open() -> Self {
        let mut lab = Lab::build("pv", binaries(), &NODES).expect("a lab");
        lab.start(|_, _| "").expect("starts");
        let places = [
            plug(&mut lab, 0, 0, 1),
            plug(&mut lab, 1, 0, 1),
            plug(&mut lab, 2, 1, 1),
        ];
        let program = lab.binary("workload");
        for place in &places[1..] {
            let mut command = vec![program.clone(), "echo".into(), "--udp".into(), "9".into()];
            for port in [
                PERSIST, REEVALUATE, DROP, REJECTED, STATELESS, ONE_WAY, AUDITED, LOGGED,
            ] {
                command.extend(["--tcp".to_owned(), port.to_string()]);
            }
            let name = format!("{}-echo", place.name);
            lab.spawn(&place.ns, &name, &command).expect("starts");
        }
        let all = lab.node_documents() + &documents(&places, &["n0", "n1"], OPEN);
        lab.apply(&all).expect("programmed");
        let [client, near, far] = places;
        let stage = Self {
            lab,
            client,
            servers: [near, far],
        };
        for server in &stage.servers {
            for address in [server.v4(), server.v6()] {
                eventually(&Interrupt::none(), SOON, "an echo", || {
                    let (said, _) = stage.ask("STREAM", &address, REJECTED);
                    anyhow::ensure!(said == "ok", "{said}");
                    Ok(())
                })
                .expect("everything is allowed");
            }
        }
        stage
    }

    /// Puts an ADMIN policy in force.
    fn policy(&mut self, name: &str, spec: &str, rules: &[&str]) {
        let mut document = format!(
            "kind: Policy\nname: tenants/blue/vpcs/main/policies/{name}\nspec:\n  tier: ADMIN\n{spec}  rules:\n"
        );
        for rule in rules {
            document += &format!("    - {{{rule}}}\n");
        }
        self.lab.apply(&document).expect("in force");
    }

    fn ask(&self, kind: &str, address: &str, port: u16) -> (String, u64) {
        let port = port.to_string();
        let said = self.run(&["python3", "-c", ASK, kind, address, &port]);
        let (word, millis) = said.trim().split_once(' ').expect("two words");
        (word.to_owned(), millis.parse().expect("a number"))
    }

    /// What a command prints at the client, however it ends.
    fn run(&self, command: &[&str]) -> String {
        let ns = self.client.ns.name();
        let line: Vec<&str> = ["ip", "netns", "exec", ns]
            .iter()
            .chain(command)
            .copied()
            .collect();
        let done = run(&line, Duration::from_secs(60)).expect("ends");
        done.stdout + &done.stderr
    }

    /// A connection to each server that counts; their names.
    fn hold(&mut self, port: u16) -> Vec<String> {
        let program = self.lab.binary("workload");
        let mut names = Vec::new();
        for server in self.servers.clone() {
            let name = format!("hold-{}-{port}", server.name);
            let command =
                [&program, "hold", &server.v4(), &port.to_string()].map(ToOwned::to_owned);
            let ns = self.client.ns.clone();
            self.lab.spawn(&ns, &name, &command).expect("starts");
            names.push(name);
        }
        for name in &names {
            self.counts_on(name, 0);
        }
        names
    }

    fn count(&mut self, name: &str) -> u64 {
        let said = self.lab.tail(name);
        said.lines()
            .filter_map(|line| line.parse().ok())
            .next_back()
            .unwrap_or(0)
    }

    /// It gets on by a second's worth.
    #[track_caller]
    fn counts_on(&mut self, name: &str, from: u64) {
        let end = Instant::now() + SOON;
        while self.count(name) < from + 50 {
            assert!(
                Instant::now() < end,
                "{name} stands at {}",
                self.count(name)
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// It gets on no more.
    #[track_caller]
    fn stands(&mut self, name: &str) {
        let before = self.count(name);
        std::thread::sleep(Duration::from_millis(1500));
        assert_eq!(self.count(name), before, "{name}");
    }

    /// Reasons and rules of what `drops` or `log` shows.
    fn shown(&self, command: &str) -> Vec<(String, String)> {
        let shown = self.lab.penstock().json(&[command]).expect("answers");
        let drops = shown["drops"].as_array().cloned().unwrap_or_default();
        let word = |drop: &serde_json::Value, field: &str| {
            drop[field].as_str().unwrap_or_default().to_owned()
        };
        let pairs = drops.iter().map(|d| (word(d, "reason"), word(d, "rule")));
        pairs.collect()
    }
}

#[test]
fn streams_go_on_or_end_as_their_policies_say() {
    if !can_run(binaries()) {
        return;
    }
    let mut stage = Stage::open();
    let allow = format!(
        "name: web, direction: INGRESS, action: ALLOW, protocol: TCP, ports: [{{first: {DROP}}}]"
    );
    stage.policy("cutting", "  onChange: DROP\n", &[&allow]);
    let [persist, reevaluate, drop] =
        [PERSIST, REEVALUATE, DROP].map(|port| (port, stage.hold(port)));

    // What has nothing to do with them.
    let denied = |stage: &Stage| -> u64 {
        let begin = ["denied_ingress", "denied_egress", "invalid_state"];
        let sum = begin.iter().flat_map(|reason| {
            let begin = format!("penstock_drops_total{{reason=\"{reason}\"}}");
            (0..2).map(move |node| (node, begin.clone()))
        });
        sum.map(|(node, begin)| stage.lab.metric(node, &begin).expect("a number"))
            .sum()
    };
    let before = denied(&stage);
    for i in 0..3 {
        let rule = format!(
            "name: other, direction: INGRESS, action: DENY, protocol: UDP, ports: [{{first: {}}}]",
            100 + i
        );
        stage.policy("other", "", &[&rule]);
        for (_, names) in [&persist, &reevaluate, &drop] {
            for name in names {
                let from = stage.count(name);
                stage.counts_on(name, from);
            }
        }
    }
    assert_eq!(denied(&stage), before, "nothing is lost");

    for (on_change, (port, names), goes_on) in [
        ("PERSIST", &persist, true),
        ("REEVALUATE", &reevaluate, false),
    ] {
        let deny = format!(
            "name: no, direction: INGRESS, action: DENY, protocol: TCP, ports: [{{first: {port}}}]"
        );
        let name = on_change.to_lowercase();
        stage.policy(&name, &format!("  onChange: {on_change}\n"), &[&deny]);
        for name in names {
            if goes_on {
                let from = stage.count(name);
                stage.counts_on(name, from);
            } else {
                stage.stands(name);
            }
        }
        for server in &stage.servers {
            let (said, _) = stage.ask("STREAM", &server.v4(), *port);
            assert_eq!(said, "timeout", "{on_change}: nothing new gets in");
        }
    }
    // Still allowed, but by a list that has changed.
    let more = "name: more, direction: INGRESS, action: ALLOW, protocol: TCP, ports: [{first: 1}]";
    stage.policy("cutting", "  onChange: DROP\n", &[&allow, more]);
    for name in &drop.1 {
        stage.stands(name);
    }
    for server in &stage.servers {
        assert_eq!(stage.ask("STREAM", &server.v4(), DROP).0, "ok");
    }
    for name in &persist.1 {
        let from = stage.count(name);
        stage.counts_on(name, from);
    }
}

#[test]
fn what_is_rejected_hears_of_it_at_once() {
    if !can_run(binaries()) {
        return;
    }
    let mut stage = Stage::open();
    let tcp = format!(
        "name: tcp, direction: INGRESS, action: REJECT, protocol: TCP, ports: [{{first: {REJECTED}}}]"
    );
    let udp = "name: udp, direction: INGRESS, action: REJECT, protocol: UDP, ports: [{first: 9}]";
    let ping = "name: ping, direction: INGRESS, action: REJECT, protocol: ICMP, icmpType: 8";
    stage.policy("reject", "", &[&tcp, udp, ping]);
    for server in &stage.servers {
        for (address, udp) in [(server.v4(), "EHOSTUNREACH"), (server.v6(), "EACCES")] {
            for (kind, port, want) in [("STREAM", REJECTED, "ECONNREFUSED"), ("DGRAM", 9, udp)] {
                let (said, millis) = stage.ask(kind, &address, port);
                assert_eq!(said, want, "{kind} {address} after {millis} ms");
                assert!(millis < 1000, "{kind} {address} after {millis} ms");
            }
        }
        let said = stage.run(&["ping", "-n", "-c", "1", "-W", "3", &server.v4()]);
        let said = said.to_lowercase();
        assert!(
            said.contains("filtered") || said.contains("prohibited"),
            "{said}"
        );
        assert_eq!(stage.ask("STREAM", &server.v4(), STATELESS).0, "ok");
    }
}

#[test]
fn stateless_rules_audit_and_logs() {
    if !can_run(binaries()) {
        return;
    }
    let mut stage = Stage::open();
    let mut rules = Vec::new();
    for way in ["INGRESS", "EGRESS"] {
        let rule = |name: &str, ports: &str, port: u16| {
            let low = way.to_lowercase();
            format!(
                "name: {name}-{low}, direction: {way}, action: ALLOW, stateful: false, protocol: TCP, {ports}: [{{first: {port}}}]"
            )
        };
        rules.push(rule("to", "ports", STATELESS));
        rules.push(rule("from", "sourcePorts", STATELESS));
        rules.push(rule("one", "ports", ONE_WAY));
    }
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    stage.policy("stateless", "", &rules);
    let audited = format!(
        "name: no, direction: INGRESS, action: DENY, protocol: TCP, ports: [{{first: {AUDITED}}}]"
    );
    stage.policy("audit", "  mode: AUDIT\n", &[&audited]);
    let logged = format!(
        "name: told, direction: INGRESS, action: ALLOW, log: true, protocol: TCP, ports: [{{first: {LOGGED}}}]"
    );
    stage.policy("log", "", &[&logged]);
    for server in &stage.servers {
        for (port, want) in [
            (STATELESS, "ok"),
            (ONE_WAY, "timeout"),
            (AUDITED, "ok"),
            (LOGGED, "ok"),
        ] {
            assert_eq!(stage.ask("STREAM", &server.v4(), port).0, want, "{port}");
        }
    }
    for node in 0..2 {
        let passed = stage
            .lab
            .metric(node, "penstock_judged_packets_total{said=\"stateless\"}");
        assert!(passed.expect("a number") > 10);
    }
    let policies = "tenants/blue/vpcs/main/policies";
    let would = (
        "would_drop".to_owned(),
        format!("{policies}/audit/rules/no"),
    );
    let told = ("allowed".to_owned(), format!("{policies}/log/rules/told"));
    for (command, all) in [("drops", false), ("log", true)] {
        let shown = stage.shown(command);
        let times = |what| shown.iter().filter(|it| *it == what).count();
        assert_eq!(times(&would), 2, "{command}: {shown:?}");
        assert_eq!(
            times(&told),
            if all { 2 } else { 0 },
            "{command}: {shown:?}"
        );
    }
}
