//! A small cluster for tests: one controller, nodes with several NICs each, whose
//! uplinks all meet in one switch, and workloads.
//!
//! ```text
//!   ctl: penstockd, penstock            10.255.0.1 (bridge)
//!     |            \
//!   node 1         node 2 ..            10.255.0.11, .12
//!    u1 .. uN       u1 .. uN            192.168.50.33 .. (the workers' own)
//!      \  |  /       \  |  /
//!       wire: a bridge, its ports named NODE-uN
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::bed::{Bed, Interrupt, Netns, Workload, cable, eventually, quiet};
use crate::demo::{Penstock, Pki};

/// Waits end here, on a machine that is busy with other things too.
pub const SOON: Duration = Duration::from_secs(60);
/// Bytes of a workload's packet.
pub const TENANT_MTU: u16 = 1500;
/// Room for it and VXLAN.
pub const UNDERLAY_MTU: u16 = 1600;
/// Where penstockd serves, inside `ctl`.
const SERVER: &str = "127.0.0.1:9500";

/// A node's name and its NICs.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    /// Its name, at most nine letters.
    pub name: &'static str,
    /// NICs with the device ids 1 to this.
    pub nics: u8,
}

/// What is between the nodes' uplinks.
#[derive(Clone, Copy, Debug)]
pub struct Underlay {
    /// VTEPs are IPv6.
    pub v6: bool,
    /// Bytes of an IP packet.
    pub mtu: u16,
    /// A router in the switch's place, whose links to all nodes but the first carry
    /// this much.
    pub routed: Option<u16>,
}

impl Default for Underlay {
    fn default() -> Self {
        Self {
            v6: false,
            mtu: UNDERLAY_MTU,
            routed: None,
        }
    }
}

impl Underlay {
    /// A NIC's tunnel end.
    #[must_use]
    pub fn vtep(&self, node: usize, nic: u8) -> String {
        self.host(32 * (node + 1) + usize::from(nic))
    }

    fn host(&self, number: usize) -> String {
        if self.v6 {
            format!("2001:db8:50::{number:x}")
        } else {
            format!("192.168.50.{number}")
        }
    }

    /// The router, as a node sees it.
    fn gateway(&self, node: usize) -> String {
        self.host(32 * (node + 1) + 30)
    }

    /// All nodes on one link, or each on its own.
    fn prefix_len(&self) -> u8 {
        match (self.v6, self.routed) {
            (false, None) => 24,
            (false, Some(_)) => 27,
            (true, None) => 64,
            (true, Some(_)) => 123,
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Lab {
    bed: Bed,
    ctl: Netns,
    wire: Netns,
    underlay: Underlay,
    nodes: Vec<(NodeSpec, Netns)>,
    plugged: Vec<Netns>,
    binaries: PathBuf,
    pki: Pki,
}

impl Lab {
    /// Namespaces and cables; nothing runs yet. `prefix` is the bed's.
    ///
    /// # Errors
    /// What `ip` says.
    pub fn build(prefix: &str, binaries: &Path, nodes: &[NodeSpec]) -> Result<Self> {
        Self::over(prefix, binaries, nodes, Underlay::default())
    }

    /// The same over an underlay of one's choice.
    ///
    /// # Errors
    /// What `ip` says.
    pub fn over(
        prefix: &str,
        binaries: &Path,
        nodes: &[NodeSpec],
        underlay: Underlay,
    ) -> Result<Self> {
        let mut bed = Bed::new(prefix)?;
        let ctl = bed.netns("ctl")?;
        ctl.run(&["ip", "link", "add", "br0", "type", "bridge"])?;
        ctl.run(&["ip", "addr", "add", "10.255.0.1/24", "dev", "br0"])?;
        ctl.run(&["ip", "link", "set", "br0", "up"])?;
        let wire = bed.netns("wire")?;
        if underlay.routed.is_some() {
            let forward = ["net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"];
            wire.run(&[&["sysctl", "-qw"], &forward[..]].concat())?;
        } else {
            wire.run(&["ip", "link", "add", "br0", "type", "bridge"])?;
            quiet_bridge(&wire)?;
        }
        let names: Vec<&str> = nodes.iter().map(|node| node.name).collect();
        let pki = Pki::issue(binaries, bed.scratch().join("pki"), &names)?;
        let mut lab = Self {
            bed,
            ctl,
            wire,
            underlay,
            plugged: Vec::new(),
            nodes: Vec::new(),
            binaries: binaries.to_owned(),
            pki,
        };
        for (i, node) in nodes.iter().enumerate() {
            lab.add_node(i, node)?;
        }
        Ok(lab)
    }

    fn add_node(&mut self, i: usize, node: &NodeSpec) -> Result<()> {
        let (ctl, wire) = (&self.ctl, &self.wire);
        let ns = self.bed.netns(node.name)?;
        let to = format!("to-{}", node.name);
        cable(ctl, &to, &ns, "mgmt", 1500)?;
        ctl.run(&["ip", "link", "set", &to, "master", "br0", "up"])?;
        let address = format!("{}/24", mgmt(i));
        ns.run(&["ip", "addr", "add", &address, "dev", "mgmt"])?;
        ns.run(&["ip", "link", "set", "mgmt", "up"])?;
        for nic in 1..=node.nics {
            let (near, far) = (uplink(nic), socket(node.name, nic));
            cable(&ns, &near, wire, &far, self.underlay.mtu)?;
            quiet(&ns, &near)?;
            ns.run(&["ip", "link", "set", &near, "up"])?;
            let Some(mtu) = self.underlay.routed else {
                quiet(wire, &far)?;
                wire.run(&["ip", "link", "set", &far, "master", "br0", "up"])?;
                continue;
            };
            let own = format!(
                "{}/{}",
                self.underlay.gateway(i),
                self.underlay.prefix_len()
            );
            if self.underlay.v6 {
                wire.run(&["ip", "addr", "add", &own, "dev", &far, "nodad"])?;
            } else {
                wire.run(&["ip", "addr", "add", &own, "dev", &far])?;
            }
            if i > 0 {
                wire.run(&["ip", "link", "set", &far, "mtu", &mtu.to_string()])?;
            }
            wire.run(&["ip", "link", "set", &far, "up"])?;
        }
        self.nodes.push((node.clone(), ns));
        Ok(())
    }

    /// A workload in a namespace of its own, `eth0` plugged into a node as `name`.
    ///
    /// # Errors
    /// What `ip` says.
    pub fn plug(&mut self, node: usize, name: &str, mac: &str, addrs: &[&str]) -> Result<Workload> {
        let ns = self.bed.netns(name)?;
        let (_, host) = self.nodes.get(node).context("no such node")?;
        self.plugged.push(ns.clone());
        Workload::plug(ns, host, name, mac, addrs, TENANT_MTU)
    }

    /// Starts penstockd and all workers; `more` goes into a NIC's section.
    ///
    /// # Errors
    /// When one does not start, or penstockd does not answer.
    pub fn start(&mut self, more: impl Fn(usize, u8) -> &'static str) -> Result<()> {
        let (certificate, key) = self.pki.of("controller", "main");
        let data = self.bed.scratch().join("penstockd").display().to_string();
        let daemon = [
            &*self.binary("penstockd"),
            "--tls-ca",
            &self.pki.ca(),
            "--tls-cert",
            &certificate,
            "--tls-key",
            &key,
            "--listen",
            SERVER,
            "--data-dir",
            &data,
        ]
        .map(str::to_owned);
        let ctl = self.ctl.clone();
        self.spawn(&ctl, "penstockd", &daemon)?;
        for i in 0..self.nodes.len() {
            self.start_worker(i, &more)?;
        }
        let penstock = self.penstock();
        eventually(&Interrupt::none(), SOON, "penstockd to answer", || {
            self.bed.check_alive()?;
            penstock.run(&["get", "nodes"])
        })?;
        Ok(())
    }

    fn start_worker(&mut self, i: usize, more: &impl Fn(usize, u8) -> &'static str) -> Result<()> {
        let (node, ns) = self.nodes.get(i).cloned().context("no such node")?;
        let (certificate, key) = self.pki.of("node", node.name);
        let data = self.bed.scratch().join(node.name);
        let mut config = format!(
            "node = \"{}\"\nlisten = \"{}:9600\"\nmetrics_listen = \"{}:9601\"\ndata_dir = {data:?}\n\
             [tls]\ncertificate = {certificate:?}\nkey = {key:?}\nclient_ca = {:?}\n\
             [eal]\nfile_prefix = {:?}\n",
            node.name,
            mgmt(i),
            mgmt(i),
            self.pki.ca(),
            ns.name(),
        );
        let gateway = match self.underlay.routed {
            Some(_) => format!("gateway = \"{}\"\n", self.underlay.gateway(i)),
            None => String::new(),
        };
        for nic in 1..=node.nics {
            config += &format!(
                "[[nic]]\ndevice_id = {nic}\nuplink = {{ interface = \"{}\" }}\nvtep = \"{}/{}\"\n{gateway}{}\n",
                uplink(nic),
                self.underlay.vtep(i, nic),
                self.underlay.prefix_len(),
                more(i, nic),
            );
        }
        let path = self.bed.scratch().join(format!("{}.toml", node.name));
        fs::write(&path, config).with_context(|| format!("write {}", path.display()))?;
        let command = [
            self.binary("penstock-worker"),
            "--config".to_owned(),
            path.display().to_string(),
        ];
        self.spawn(&ns, node.name, &command)
    }

    /// Starts something in a namespace.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn spawn(&mut self, ns: &Netns, name: &str, command: &[String]) -> Result<()> {
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        self.bed.spawn(ns, name, &command).map(|_| ())
    }

    /// Applies documents and waits until every node has them.
    ///
    /// # Errors
    /// What `penstock` says.
    pub fn apply(&mut self, documents: &str) -> Result<()> {
        self.declare(documents)?;
        self.penstock().run(&["wait", "--timeout", "35"])?;
        self.settle()
    }

    /// Waits until every workload may use its addresses: what is sent before duplicates
    /// have been looked for has another source, and keeps it.
    ///
    /// # Errors
    /// When one may not in time.
    pub fn settle(&self) -> Result<()> {
        for ns in &self.plugged {
            eventually(
                &Interrupt::none(),
                Duration::from_secs(30),
                "usable addresses",
                || {
                    let tentative = ns.run(&["ip", "-6", "addr", "show", "tentative"])?;
                    if !tentative.trim().is_empty() {
                        bail!("{}: {tentative}", ns.name());
                    }
                    Ok(())
                },
            )?;
        }
        Ok(())
    }

    /// Applies documents, whatever becomes of them.
    ///
    /// # Errors
    /// What `penstock` says.
    pub fn declare(&mut self, documents: &str) -> Result<()> {
        let path = self.bed.scratch().join("policy.yaml");
        fs::write(&path, documents).context("write the policy")?;
        let path = path.display().to_string();
        self.penstock().run(&["apply", "-f", &path])?;
        Ok(())
    }

    /// The nodes as documents.
    #[must_use]
    pub fn node_documents(&self) -> String {
        let mut all = String::new();
        for (i, (node, _)) in self.nodes.iter().enumerate() {
            all += &format!(
                "kind: Node\nname: nodes/{}\nspec:\n  workerAddress: {}:9600\n  nics:\n",
                node.name,
                mgmt(i)
            );
            for nic in 1..=node.nics {
                all += &format!(
                    "    - {{deviceId: {nic}, vtep: {}, underlayMtu: {}}}\n",
                    self.underlay.vtep(i, nic),
                    self.underlay.mtu
                );
            }
            all += "---\n";
        }
        all
    }

    /// The command line, as an administrator.
    #[must_use]
    pub fn penstock(&self) -> Penstock {
        Penstock::new(self.ctl.clone(), &self.binaries, SERVER, &self.pki)
    }

    /// Namespace of the controller.
    #[must_use]
    pub fn ctl(&self) -> &Netns {
        &self.ctl
    }

    /// Namespace of the switch between all uplinks; its ports are [`socket`]s.
    #[must_use]
    pub fn wire(&self) -> &Netns {
        &self.wire
    }

    /// Namespace of a node.
    ///
    /// # Errors
    /// When there is none.
    pub fn node(&self, i: usize) -> Result<&Netns> {
        Ok(&self.nodes.get(i).context("no such node")?.1)
    }

    /// A file of the lab's own.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.bed.scratch().join(name)
    }

    /// Certificates.
    #[must_use]
    pub fn pki(&self) -> &Pki {
        &self.pki
    }

    /// A file that goes with the bed.
    #[must_use]
    pub fn scratch(&self, name: &str) -> String {
        self.bed.scratch().join(name).display().to_string()
    }

    /// A program of ours.
    #[must_use]
    pub fn binary(&self, name: &str) -> String {
        self.binaries.join(name).display().to_string()
    }

    /// A worker's `/metrics`.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn metrics(&self, node: usize) -> Result<String> {
        let url = format!("http://{}:9601/metrics", mgmt(node));
        self.ctl.run(&["curl", "-sS", "--max-time", "9", &url])
    }

    /// A number of a worker's metrics: the sum over all samples whose line begins so.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn metric(&self, node: usize, begin: &str) -> Result<u64> {
        let text = self.metrics(node)?;
        let lines: Vec<&str> = text.lines().filter(|l| l.starts_with(begin)).collect();
        if lines.is_empty() {
            bail!("no metric begins with {begin:?}");
        }
        let values = lines.iter().map(|line| {
            let value = line.rsplit_once(' ').map(|(_, value)| value.parse::<u64>());
            value
                .with_context(|| format!("a sample: {line}"))?
                .context("a number")
        });
        values.sum()
    }

    /// Fails if anything that was started has ended.
    ///
    /// # Errors
    /// Which, and the end of its log.
    pub fn check_alive(&mut self) -> Result<()> {
        self.bed.check_alive()
    }

    /// The end of a process's log, for whoever reads of a failure.
    pub fn tail(&mut self, name: &str) -> String {
        let log = self.bed.process(name).map(|process| process.output());
        match log {
            Some(Ok(log)) => {
                let tail: Vec<&str> = log.lines().rev().take(15).collect();
                tail.into_iter().rev().collect::<Vec<_>>().join("\n")
            }
            Some(Err(error)) => format!("{error:#}"),
            None => format!("no process {name}"),
        }
    }
}

/// Frames between the uplinks only: nothing of the bridge's own.
fn quiet_bridge(wire: &Netns) -> Result<()> {
    wire.run(&["sysctl", "-qw", "net.ipv6.conf.br0.disable_ipv6=1"])?;
    // Nothing may be snooped away.
    wire.run(&[
        "ip",
        "link",
        "set",
        "br0",
        "type",
        "bridge",
        "mcast_snooping",
        "0",
    ])?;
    wire.run(&["ip", "link", "set", "br0", "up"])?;
    Ok(())
}

/// A NIC's uplink inside its node.
#[must_use]
pub fn uplink(nic: u8) -> String {
    format!("u{nic}")
}

/// The other end of that, in the switch.
#[must_use]
pub fn socket(node: &str, nic: u8) -> String {
    format!("{node}-u{nic}")
}

/// Where a node's worker serves.
#[must_use]
pub fn mgmt(node: usize) -> String {
    format!("10.255.0.{}", 11 + node)
}

/// A NIC's tunnel end in the usual underlay.
#[must_use]
pub fn vtep(node: usize, nic: u8) -> String {
    Underlay::default().vtep(node, nic)
}

/// Whether beds can be made here; says loudly why not.
#[must_use]
pub fn can_run(binaries: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    if fs::metadata("/proc/self").map(|m| m.uid()).ok() != Some(0) {
        eprintln!("SKIPPED: network namespaces need root");
        return false;
    }
    for program in ["penstockd", "penstock-worker", "penstock", "workload"] {
        if !binaries.join(program).exists() {
            eprintln!("SKIPPED: {program} is not built; `cargo build --workspace --bins` first");
            return false;
        }
    }
    true
}
