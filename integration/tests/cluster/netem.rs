//! An underlay that loses, reorders, repeats and damages frames, both ways: connections slow
//! down, and nothing else happens to them.

use std::time::Duration;

use penstock_integration::bed::{Workload, run};
use penstock_integration::lab::{Lab, NodeSpec, can_run, socket};
use serde_json::Value;

use crate::binaries;

const NODES: [&str; 2] = ["n1", "n2"];
const MACS: [&str; 2] = ["02:00:00:00:01:01", "02:00:00:00:01:02"];
const PORT: u16 = 9000;
/// Connections of one round, over each family in turn.
const PARALLEL: usize = 4;

/// What the link does.
const TROUBLES: [&str; 6] = [
    "{}",
    r#"{"duplicate": 0.05}"#,
    r#"{"corrupt": 0.01}"#,
    r#"{"late": 0.25, "late_ms": 5}"#,
    r#"{"loss": 0.03}"#,
    r#"{"loss": 0.03, "late": 0.25, "late_ms": 5, "duplicate": 0.05, "corrupt": 0.003}"#,
];
/// Bytes of a datagram of a stream's on the underlay, IPv4 and IPv6.
const LENGTHS: [usize; 2] = [100 + 8 + 20 + 14 + 50, 100 + 8 + 40 + 14 + 50];
/// Datagrams of a stream: a socket's buffer holds all of them, however late its owner is.
const DATAGRAMS: u32 = 250;

fn address(node: usize, v6: bool) -> String {
    let last = 11 + node;
    if v6 {
        format!("fd00:10::{last}")
    } else {
        format!("10.0.0.{last}")
    }
}

fn documents() -> String {
    let mut all = "kind: Tenant\nname: tenants/blue\nspec: {}\n---\n\
         kind: Vpc\nname: tenants/blue/vpcs/main\nspec:\n  vni: 1001\n  cidrs: [10.0.0.0/16, \"fd00:10::/48\"]\n---\n\
         kind: Subnet\nname: tenants/blue/vpcs/main/subnets/main\nspec:\n  cidrs: [10.0.0.0/24, \"fd00:10::/64\"]\n  mtu: 1500\n---\n\
         kind: SecurityGroup\nname: tenants/blue/vpcs/main/securityGroups/all\nspec:\n  rules:\n"
        .to_owned();
    for protocol in ["TCP", "UDP"] {
        for way in ["INGRESS", "EGRESS"] {
            let name = format!("{protocol}-{way}").to_lowercase();
            all += &format!(
                "    - {{name: {name}, direction: {way}, protocol: {protocol}, ports: [{{first: {PORT}}}], peers: [{{securityGroup: all}}]}}\n"
            );
        }
    }
    for (i, (node, mac)) in NODES.iter().zip(MACS).enumerate() {
        all += &format!(
            "---\nkind: Port\nname: tenants/blue/vpcs/main/ports/w{i}\nspec:\n  subnet: main\n  node: {node}\n  \
             attachment: w{i}\n  mac: \"{mac}\"\n  ips: [{}, \"{}\"]\n  securityGroups: [all]\n",
            address(i, false),
            address(i, true)
        );
    }
    all
}

struct Bed {
    lab: Lab,
    workloads: Vec<Workload>,
}

#[test]
fn a_bad_underlay_slows_connections_and_harms_none() {
    if !can_run(binaries()) {
        return;
    }
    let mut bed = Bed::new();
    let long = std::env::var_os("PENSTOCK_LONG").is_some();
    let (bytes, streams) = if long { (10_000_000, 80) } else { (400_000, 4) };
    // Each trouble on its own takes its time; the last are the worst.
    let first = if long { 0 } else { TROUBLES.len() - 3 };
    for trouble in &TROUBLES[first..] {
        bed.round(trouble, bytes, streams);
    }
    bed.lab.check_alive().expect("all run");
}

impl Bed {
    fn new() -> Self {
        let specs = NODES.map(|name| NodeSpec { name, nics: 1 });
        let mut lab = Lab::build("pm", binaries(), &specs).expect("a lab");
        let mut workloads = Vec::new();
        for (i, mac) in MACS.into_iter().enumerate() {
            let addrs = [
                format!("{}/24", address(i, false)),
                format!("{}/64", address(i, true)),
            ];
            let addrs = addrs.each_ref().map(String::as_str);
            workloads.push(lab.plug(i, &format!("w{i}"), mac, &addrs).expect("plugs"));
        }
        let port = PORT.to_string();
        let command = [
            &*lab.binary("workload"),
            "tally",
            "--tcp",
            &port,
            "--udp",
            &port,
        ]
        .map(str::to_owned);
        lab.spawn(&workloads[1].ns, "echo", &command)
            .expect("starts");
        let settings = lab.scratch("link.json");
        std::fs::write(&settings, "{}").expect("writes");
        let ends = NODES.map(|node| socket(node, 1));
        for end in &ends {
            let command = ["ip", "link", "set", end, "nomaster"];
            lab.wire().run(&command).expect("out of the bridge");
        }
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cluster/bad_link.py");
        let report = lab.scratch("report.json");
        let command = [
            "python3", "-u", script, &ends[0], &ends[1], &settings, &report,
        ];
        let wire = lab.wire().clone();
        lab.spawn(&wire, "link", &command.map(str::to_owned))
            .expect("starts");
        lab.start(|_, _| "").expect("starts");
        let all = lab.node_documents() + &documents();
        lab.apply(&all).expect("programmed");
        let bed = Self { lab, workloads };
        // Neighbours are found.
        for v6 in [false, true] {
            let first = bed.start(bed.transfer(v6, 1000, 0)).join();
            let failure = first
                .expect("a thread")
                .err()
                .map(|error| format!("{error:#}"));
            let numbers = [0, 1].map(|node| bed.lab.metrics(node).unwrap_or_default());
            assert_eq!(failure, None, "{}", numbers.join("\n"));
        }
        bed
    }

    fn transfer(&self, v6: bool, bytes: usize, hold_ms: u64) -> Vec<String> {
        let mut command = vec![
            self.lab.binary("workload"),
            "transfer".into(),
            address(1, v6),
        ];
        command.extend([PORT.to_string(), bytes.to_string(), hold_ms.to_string()]);
        command
    }

    /// Runs a program in the first workload.
    fn start(&self, command: Vec<String>) -> std::thread::JoinHandle<Result<String, String>> {
        let ns = self.workloads[0].ns.name().to_owned();
        std::thread::spawn(move || {
            let head = ["ip", "netns", "exec", &ns];
            let command: Vec<&str> = head
                .into_iter()
                .chain(command.iter().map(String::as_str))
                .collect();
            let done = run(&command, Duration::from_secs(170)).map_err(|e| e.to_string())?;
            done.success(&command).map_err(|e| e.to_string())
        })
    }

    fn round(&mut self, trouble: &str, bytes: usize, streams: usize) {
        self.set(trouble);
        let corrupts = trouble.contains("corrupt");
        let before = self.invalid();
        for i in 0..streams {
            self.stream(trouble, i % 2 == 1);
        }
        let hold = 2000;
        let transfers: Vec<_> = (0..PARALLEL)
            .map(|i| self.start(self.transfer(i % 2 == 1, bytes, hold)))
            .collect();
        self.established(transfers.len(), trouble);
        for transfer in transfers {
            let said = transfer.join().expect("a thread");
            let said = said.unwrap_or_else(|why| format!("failed: {why}"));
            assert!(
                said.starts_with(&format!("{bytes} bytes")),
                "{trouble}: {said}"
            );
            eprintln!("{trouble:80} {}", said.trim());
        }
        // What was damaged may be out of its window; nothing else may.
        let invalid = self.invalid() - before;
        assert!(
            corrupts || invalid == 0,
            "{trouble}: {invalid} packets out of state"
        );
    }

    /// Datagrams: each that the link let through arrives, as often as it let it through.
    fn stream(&self, trouble: &str, v6: bool) {
        let length = LENGTHS[usize::from(v6)];
        let before = self.report(length);
        let mut command = vec![self.lab.binary("workload"), "series".into(), address(1, v6)];
        command.extend([PORT.to_string(), DATAGRAMS.to_string(), "300".into()]);
        let said = self
            .start(command)
            .join()
            .expect("a thread")
            .expect(trouble);
        let numbers: Vec<u64> = said
            .split_whitespace()
            .map(|it| it.parse().expect("a number"))
            .collect();
        let (distinct, total) = (numbers[0], numbers[1]);
        std::thread::sleep(Duration::from_millis(200));
        let after = self.report(length);
        let [came, lost, repeated, damaged] = std::array::from_fn(|i| after[i] - before[i]);
        assert_eq!(came, u64::from(DATAGRAMS), "{trouble}: all went out");
        eprintln!(
            "{trouble:80} {total} datagrams, {lost} lost, {repeated} repeated, {damaged} damaged"
        );
        // Damage in the outer headers may go unnoticed, and in the rest of a copy.
        let through = came - lost + repeated;
        assert!(
            (through - damaged..=through).contains(&total),
            "{trouble}: {total} of {through} came; {}",
            self.dropped()
        );
        assert!(
            total - distinct <= repeated && distinct + lost + damaged >= came,
            "{trouble}: {said}"
        );
    }

    /// What both workers and the receiver's kernel have dropped so far, for people.
    fn dropped(&self) -> String {
        let mut all = String::new();
        for (node, name) in NODES.iter().enumerate() {
            let drops = self.lab.metrics(node).expect("metrics");
            let drops = drops.lines().filter(|line| {
                line.contains("_drops_total{") || line.contains("driver_frames_total{")
            });
            for line in drops.filter(|line| !line.ends_with(" 0")) {
                all += &format!("{name}: {line}; ");
            }
        }
        let kernel = ["cat", "/proc/net/snmp", "/proc/net/snmp6"];
        let kernel = self.workloads[1].ns.run(&kernel).expect("readable");
        let udp = kernel.lines().filter(|line| line.starts_with("Udp"));
        all + &udp.collect::<Vec<_>>().join("; ")
    }

    /// Of the frames of this length towards the second node: how many came, were lost,
    /// repeated and damaged.
    fn report(&self, length: usize) -> [u64; 4] {
        let text = std::fs::read_to_string(self.lab.scratch("report.json")).expect("a report");
        let all: Value = serde_json::from_str(&text).expect("JSON");
        let way = format!("{}>{}", socket(NODES[0], 1), socket(NODES[1], 1));
        ["came", "lost", "repeated", "damaged"]
            .map(|what| all[format!("{way} {what} {length}")].as_u64().unwrap_or(0))
    }

    /// Both nodes have every connection as established, while it is held open.
    fn established(&self, count: usize, trouble: &str) {
        let deadline = std::time::Instant::now() + Duration::from_secs(150);
        let mut last = 0;
        while std::time::Instant::now() < deadline {
            let flows = self.lab.penstock().json(&["flows"]).expect("answers");
            let all = flows.as_array().expect("a list");
            let open = |flow: &&Value| {
                flow["state"] == "established" && flow.to_string().contains(&PORT.to_string())
            };
            last = all.iter().filter(open).count();
            if last == 2 * count {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        assert_eq!(
            last,
            2 * count,
            "{trouble}: established connections at both ends"
        );
    }

    /// Packets that the workers have dropped because they fit no connection's state.
    fn invalid(&self) -> u64 {
        let begin = "penstock_drops_total{reason=\"invalid_state\"}";
        (0..NODES.len())
            .map(|node| self.lab.metric(node, begin).expect("a metric"))
            .sum()
    }

    /// What frames suffer from here on.
    fn set(&self, trouble: &str) {
        std::fs::write(self.lab.scratch("link.new"), trouble).expect("writes");
        let (from, to) = (self.lab.scratch("link.new"), self.lab.scratch("link.json"));
        std::fs::rename(from, to).expect("replaces");
        // It looks every 50 ms.
        std::thread::sleep(Duration::from_millis(200));
    }
}
