//! Namespaces, cables and processes of the demo.
//!
//! ```text
//!   ctl: penstockd, penstock          10.255.0.1 (bridge)
//!     |                \
//!   host-a (worker)     host-b (worker)     10.255.0.11, .12
//!     |  \---- underlay ----/ |             192.168.50.11, .12 (the workers' own),
//!                                           or 2001:db8:50::11, ::12
//!   TENANT-web, blue-cache   TENANT-db, TENANT-client
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::command::Penstock;
use super::pki::Pki;
use super::{Options, PREFIX, Underlay};
use crate::bed::{Bed, Interrupt, Netns, Process, Workload, cable, eventually, quiet};

pub(crate) const TENANTS: [&str; 2] = ["blue", "red"];
const SERVER: &str = "127.0.0.1:9500";
/// Where each worker serves its numbers, inside its host.
pub(crate) const METRICS: &str = "127.0.0.1:9601";
/// Room for a 1500-byte tenant packet and VXLAN over IPv4.
const UNDERLAY_MTU: u16 = 1600;
const TENANT_MTU: u16 = 1500;
/// The HTTP transfer of the demo.
pub(crate) const BLOB_BYTES: usize = 10_000_000;

/// One line per workload: tenant, name, host, last byte of MAC and addresses.
/// The policy in `policies/examples/two-tenants` says the same.
const WORKLOADS: [(&str, &str, &str, u8, &str); 7] = [
    ("blue", "web", "host-a", 0x11, "02:00:00:00:01:11"),
    ("blue", "db", "host-b", 0x12, "02:00:00:00:01:12"),
    ("blue", "client", "host-b", 0x21, "02:00:00:00:01:21"),
    ("blue", "cache", "host-a", 0x31, "02:00:00:00:01:31"),
    ("red", "web", "host-a", 0x11, "02:00:00:00:02:11"),
    ("red", "db", "host-b", 0x12, "02:00:00:00:02:12"),
    ("red", "client", "host-b", 0x21, "02:00:00:00:02:21"),
];

/// The demo's world.
#[derive(Debug)]
pub(crate) struct Stage {
    bed: Bed,
    ctl: Netns,
    hosts: [Netns; 2],
    workloads: Vec<(String, Workload)>,
    binaries: PathBuf,
    underlay: Underlay,
    pki: Pki,
    lcores: u16,
}

impl Stage {
    pub(crate) fn build(options: &Options, interrupt: &Interrupt) -> Result<Self> {
        let mut bed = Bed::new(PREFIX)?;
        let ctl = bed.netns("ctl")?;
        ctl.run(&["ip", "link", "add", "br0", "type", "bridge"])?;
        ctl.run(&["ip", "addr", "add", "10.255.0.1/24", "dev", "br0"])?;
        ctl.run(&["ip", "link", "set", "br0", "up"])?;
        let hosts = [
            host(&mut bed, &ctl, "host-a", 11)?,
            host(&mut bed, &ctl, "host-b", 12)?,
        ];
        let [a, b] = &hosts;
        cable(a, "u0", b, "u0", UNDERLAY_MTU)?;
        for host in &hosts {
            quiet(host, "u0")?;
            host.run(&["ip", "link", "set", "u0", "up"])?;
        }
        let folder = bed.scratch().join("pki");
        let pki = Pki::issue(&options.binaries, folder, &["host-a", "host-b"])?;
        let mut stage = Self {
            pki,
            bed,
            ctl,
            hosts: hosts.clone(),
            workloads: Vec::new(),
            binaries: options.binaries.clone(),
            lcores: options.lcores,
            underlay: options.underlay,
        };
        for (tenant, name, host, last, mac) in WORKLOADS {
            interrupt.check()?;
            stage.plug(
                &hosts[usize::from(host == "host-b")],
                tenant,
                name,
                last,
                mac,
            )?;
        }
        stage.start(&hosts, interrupt)?;
        Ok(stage)
    }

    fn plug(&mut self, host: &Netns, tenant: &str, name: &str, last: u8, mac: &str) -> Result<()> {
        let full = format!("{tenant}-{name}");
        let ns = self.bed.netns(&full)?;
        // The same addresses in both tenants, on purpose. The last byte is
        // written in hexadecimal digits in both families, so .11 and ::11.
        let v4 = format!("10.0.0.{last:x}/24");
        let v6 = format!("fd00:10::{last:x}/64");
        let workload = Workload::plug(ns, host, &full, mac, &[&v4, &v6], TENANT_MTU)?;
        self.workloads.push((full, workload));
        Ok(())
    }

    fn start(&mut self, hosts: &[Netns; 2], interrupt: &Interrupt) -> Result<()> {
        let bin = |name: &str| self.binaries.join(name).display().to_string();
        let data = |name: &str| self.bed.scratch().join(name).display().to_string();
        let (certificate, key) = self.pki.of("controller", "main");
        let daemon = [
            bin("penstockd"),
            "--tls-ca".into(),
            self.pki.ca(),
            "--tls-cert".into(),
            certificate,
            "--tls-key".into(),
            key,
            "--listen".into(),
            SERVER.into(),
            "--data-dir".into(),
            data("penstockd"),
        ];
        let worker = bin("penstock-worker");
        let workload = bin("workload");
        spawn(&mut self.bed, &self.ctl, "penstockd", &daemon)?;
        for (host, (name, last)) in hosts.iter().zip([("host-a", 11), ("host-b", 12)]) {
            let config = self.bed.scratch().join(format!("{name}.toml"));
            let folder = self.bed.scratch().join(name);
            let vtep = self.underlay.vtep(last);
            fs::write(
                &config,
                worker_config(
                    name,
                    last,
                    &vtep,
                    &folder.display().to_string(),
                    &self.pki,
                    self.lcores,
                ),
            )
            .with_context(|| format!("write {}", config.display()))?;
            let command = [
                worker.clone(),
                "--config".into(),
                config.display().to_string(),
            ];
            spawn(&mut self.bed, host, name, &command)?;
        }
        for (name, w) in self.workloads.clone() {
            let (tenant, role) = name.split_once('-').context("a workload's name")?;
            if role == "client" {
                continue;
            }
            let token = format!("{name}-token");
            let serve = [
                &*workload, "serve", "--token", &token, "--tcp", "5432", "--udp", "7",
            ]
            .map(str::to_owned);
            spawn(&mut self.bed, &w.ns, &name, &serve)?;
            if role == "web" {
                self.serve_http(&w.ns, tenant, &token)?;
            }
        }
        let penstock = self.penstock();
        eventually(
            interrupt,
            Duration::from_secs(20),
            "penstockd to answer",
            || {
                self.bed.check_alive()?;
                penstock.run(&["get", "nodes"])
            },
        )?;
        Ok(())
    }

    /// A stock HTTP server with a token and a large file.
    fn serve_http(&mut self, ns: &Netns, tenant: &str, token: &str) -> Result<()> {
        let root = self.bed.scratch().join(format!("{tenant}-www"));
        fs::create_dir_all(&root).context("create the web server's folder")?;
        fs::write(root.join("token"), token).context("write the token")?;
        fs::write(root.join("blob"), vec![0x5a; BLOB_BYTES]).context("write the large file")?;
        let root = root.display().to_string();
        let command = [
            "python3",
            "-u",
            "-m",
            "http.server",
            "--protocol",
            "HTTP/1.1",
            "--bind",
            "::",
            "--directory",
            &root,
            "80",
        ]
        .map(str::to_owned);
        spawn(&mut self.bed, ns, &format!("{tenant}-http"), &command)
    }

    pub(crate) fn penstock(&self) -> Penstock {
        Penstock::new(self.ctl.clone(), &self.binaries, SERVER, &self.pki)
    }

    /// Runs a command on a host, by the host's name.
    pub(crate) fn on_host(&self, name: &str, command: &[&str]) -> Result<String> {
        let [a, b] = &self.hosts;
        if name == "host-a" { a } else { b }.run(command)
    }

    /// The policy as files to apply: written for an IPv4 underlay.
    pub(super) fn policy(&self, from: &Path) -> Result<String> {
        let to = self.bed.scratch().join("policy");
        fs::create_dir_all(&to).with_context(|| format!("create {}", to.display()))?;
        let entries = fs::read_dir(from).with_context(|| format!("read {}", from.display()))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("read {}", from.display()))?;
            let text = fs::read_to_string(entry.path())
                .with_context(|| format!("read {}", entry.path().display()))?;
            let file = to.join(entry.file_name());
            fs::write(&file, self.underlay.readdress(&text))
                .with_context(|| format!("write {}", file.display()))?;
        }
        Ok(to.display().to_string())
    }

    pub(crate) fn workload(&self, name: &str) -> Result<&Netns> {
        let found = self.workloads.iter().find(|(n, _)| n == name);
        Ok(&found.with_context(|| format!("no workload {name:?}"))?.1.ns)
    }

    pub(crate) fn workload_binary(&self) -> String {
        self.binaries.join("workload").display().to_string()
    }

    pub(crate) fn spawn(&mut self, workload: &str, name: &str, command: &[String]) -> Result<()> {
        let ns = self.workload(workload)?.clone();
        spawn(&mut self.bed, &ns, name, command)
    }

    pub(crate) fn output(&mut self, name: &str) -> Result<String> {
        self.bed
            .process(name)
            .with_context(|| format!("no process {name:?}"))?
            .output()
    }

    /// A process, to be ended and started again.
    pub(crate) fn process(&mut self, name: &str) -> Result<&mut Process> {
        let process = self.bed.process(name);
        process.with_context(|| format!("no process {name:?}"))
    }

    pub(crate) fn scratch_file(&self, name: &str) -> PathBuf {
        self.bed.scratch().join(name)
    }

    /// Duplicate-address detection runs for a second on every IPv6 address.
    pub(crate) fn wait_for_addresses(&self, interrupt: &Interrupt) -> Result<()> {
        for (name, w) in &self.workloads {
            eventually(
                interrupt,
                Duration::from_secs(10),
                "IPv6 duplicate-address detection",
                || {
                    let out = w.ns.run(&["ip", "-6", "addr", "show", "dev", "eth0"])?;
                    if out.contains("dadfailed") {
                        bail!("{name}: another node claims its address: {out}");
                    }
                    if out.contains("tentative") {
                        bail!("{name}: still tentative");
                    }
                    Ok(())
                },
            )?;
        }
        Ok(())
    }

    pub(crate) fn check_alive(&mut self) -> Result<()> {
        self.bed.check_alive()
    }

    pub(crate) fn check_alive_but(&mut self, others: &[&str]) -> Result<()> {
        self.bed.check_alive_but(others)
    }

    pub(crate) fn print_logs(&mut self) {
        for name in ["penstockd", "host-a", "host-b"] {
            let Some(process) = self.bed.process(name) else {
                continue;
            };
            match process.output() {
                Ok(log) => {
                    eprintln!("--- end of {name}'s log");
                    let tail: Vec<&str> = log.lines().rev().take(25).collect();
                    tail.iter().rev().for_each(|line| eprintln!("{line}"));
                }
                Err(e) => eprintln!("--- {e:#}"),
            }
        }
    }

    pub(crate) fn print_what_to_try(&self) {
        let penstock = self.penstock();
        println!("\nIt is still running. Try, as root:");
        for variable in penstock.environment() {
            println!("  export {variable}");
        }
        for args in [
            &["get", "ports"][..],
            &["nodes"],
            &["flows"],
            &["drops"],
            &[
                "explain",
                "--from",
                "tenants/blue/vpcs/main/ports/client",
                "--to",
                "tenants/blue/vpcs/main/ports/db",
                "--proto",
                "tcp",
                "--dport",
                "5432",
            ],
        ] {
            println!("  {}", penstock.line(args));
        }
        if let Ok(ns) = self.workload("blue-client") {
            println!(
                "  ip netns exec {} curl -s http://10.0.0.11/token",
                ns.name()
            );
        }
        println!(
            "Logs and data are in {}. `make demo-stop` ends it.",
            self.bed.scratch().display()
        );
    }

    pub(crate) fn keep(&mut self) {
        self.bed.keep();
    }
}

fn host(bed: &mut Bed, ctl: &Netns, name: &str, last: u8) -> Result<Netns> {
    let ns = bed.netns(name)?;
    cable(ctl, &format!("to-{name}"), &ns, "mgmt", 1500)?;
    ctl.run(&[
        "ip",
        "link",
        "set",
        &format!("to-{name}"),
        "master",
        "br0",
        "up",
    ])?;
    ns.run(&[
        "ip",
        "addr",
        "add",
        &format!("10.255.0.{last}/24"),
        "dev",
        "mgmt",
    ])?;
    ns.run(&["ip", "link", "set", "mgmt", "up"])?;
    Ok(ns)
}

fn spawn(bed: &mut Bed, ns: &Netns, name: &str, command: &[String]) -> Result<()> {
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    bed.spawn(ns, name, &command).map(|_| ())
}

fn worker_config(name: &str, last: u8, vtep: &str, data: &str, pki: &Pki, lcores: u16) -> String {
    let (certificate, key) = pki.of("node", name);
    let ca = pki.ca();
    let prefix = format!("{PREFIX}{}-{name}", std::process::id());
    format!(
        r#"node = "{name}"
listen = "10.255.0.{last}:9600"
data_dir = "{data}"
lcores = {lcores}
metrics_listen = "{METRICS}"

[tls]
certificate = "{certificate}"
key = "{key}"
client_ca = "{ca}"

[eal]
file_prefix = "{prefix}"

[[nic]]
device_id = 1
uplink = {{ interface = "u0" }}
vtep = "{vtep}"
"#
    )
}
