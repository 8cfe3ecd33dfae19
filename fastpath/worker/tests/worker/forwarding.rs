//! Workloads on one node, through a worker process.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use p4runtime::pipeline::Table;
use penstock_slowpath_api::v1;
use v1::policy_status::Result as Verdict;

use crate::controller::{Controller, SOON, port_entries};
use crate::fixture::{self, INTERFACE, IP, MAC, VNI, allow};
use crate::netns::{self, Netns};

const ICMP: u32 = 1;
const TCP: u32 = 6;
/// A packet that is let through is there by then.
const SHORT: Duration = Duration::from_millis(700);

/// A node's namespace with an uplink, and two workloads.
struct Bed {
    // Dropped first: it holds interfaces of `node`.
    worker: Option<Worker>,
    workloads: [Netns; 2],
    node: Netns,
    dir: tempfile::TempDir,
}

struct Worker {
    child: Child,
    address: SocketAddr,
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Bed {
    fn new() -> Self {
        let node = Netns::new("node");
        node.ip(&["link", "add", "u0", "type", "veth", "peer", "name", "u1"]);
        node.ip(&["link", "set", "u1", "up"]);
        let workloads = [Netns::new("a"), Netns::new("b")];
        let bed = Self {
            worker: None,
            workloads,
            node,
            dir: tempfile::tempdir().expect("a directory"),
        };
        bed.plug(0);
        bed.plug(1);
        bed
    }

    /// Gives a workload its interface.
    fn plug(&self, i: usize) {
        let workload = &self.workloads[i];
        let [a, b, c, d, e, f] = MAC[i];
        let mac = format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}");
        let (host, ns) = (INTERFACE[i], workload.name.as_str());
        let peer = ["peer", "name", "eth0", "netns", ns];
        let mut link = vec!["link", "add", host, "type", "veth"];
        link.extend(peer);
        self.node.ip(&link);
        workload.ip(&["link", "set", "eth0", "address", &mac, "mtu", "1450"]);
        // A packet socket sees frames before the kernel fills their checksums in.
        workload.exec("ethtool", &["-K", "eth0", "tx", "off"]);
        workload.ip(&["link", "set", "eth0", "up"]);
        workload.ip(&["addr", "add", &format!("{}/24", IP[i]), "dev", "eth0"]);
    }

    fn start(&mut self) {
        let config = self.dir.path().join("worker.toml");
        let data = self.dir.path().join("data");
        let ready = self.dir.path().join("ready");
        let text = format!(
            "node = \"host-1\"\nlisten = \"127.0.0.1:0\"\ndata_dir = {data:?}\n\
             [eal]\nmemory_mb = 128\nfile_prefix = \"{}\"\n\
             [attachments]\nallow = [\"v*\"]\n\
             [[nic]]\ndevice_id = 1\nuplink = {{ interface = \"u0\" }}\nvtep = \"192.0.2.1/24\"\n",
            self.node.name
        );
        std::fs::write(&config, text).expect("a configuration");
        let _ = std::fs::remove_file(&ready);
        let child = self
            .node
            .command(env!("CARGO_BIN_EXE_penstock-worker"))
            .arg("--config")
            .arg(&config)
            .arg("--ready-file")
            .arg(&ready)
            .stdin(Stdio::null())
            .spawn()
            .expect("starts");
        let address = wait_for(&ready);
        self.worker = Some(Worker { child, address });
    }

    fn stop(&mut self) {
        let mut worker = self.worker.take().expect("runs");
        let pid = worker.child.id().to_string();
        let kill = std::process::Command::new("kill").arg(&pid).status();
        assert!(kill.expect("kill").success());
        let end = Instant::now() + SOON;
        while Instant::now() < end {
            if let Some(status) = worker.child.try_wait().expect("a child") {
                assert!(status.success(), "{status}");
                return;
            }
            sleep(Duration::from_millis(20));
        }
        panic!("the worker does not stop");
    }

    fn address(&self) -> SocketAddr {
        self.worker.as_ref().expect("runs").address
    }

    /// Runs a controller next to the worker.
    fn control<T: Send + 'static, F: Future<Output = T>>(
        &self,
        work: impl FnOnce(Controller) -> F + Send + 'static,
    ) -> T {
        let address = self.address();
        let thread = self.node.thread(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async move { work(Controller::connect(address).await).await })
        });
        thread.join().expect("the controller's part")
    }

    fn ping(&self) -> bool {
        let to = IP[1].to_string();
        let args = ["-c", "3", "-i", "0.2", "-W", "1", &to];
        self.workloads[0].output("ping", &args).status.success()
    }

    /// A connection from workload 0 to a listener of workload 1.
    fn connect(&self, port: u16) -> Option<(TcpStream, TcpStream)> {
        let listener = self.workloads[1]
            .thread(move || TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).expect("listens"));
        let listener = listener.join().expect("listens");
        let to = SocketAddr::from((IP[1], port));
        let opened = self.workloads[0].thread(move || TcpStream::connect_timeout(&to, SHORT));
        let near = opened.join().expect("tries").ok()?;
        let (far, _) = listener.accept().expect("accepts");
        for stream in [&near, &far] {
            stream.set_read_timeout(Some(SHORT)).expect("a timeout");
        }
        Some((near, far))
    }
}

fn wait_for(ready: &Path) -> SocketAddr {
    let end = Instant::now() + SOON;
    while Instant::now() < end {
        let text = std::fs::read_to_string(ready).unwrap_or_default();
        if let Ok(address) = text.trim().parse() {
            return address;
        }
        sleep(Duration::from_millis(20));
    }
    panic!("the worker does not get ready");
}

fn passes(stream: &mut (TcpStream, TcpStream)) -> bool {
    let mut echo = [0; 4];
    stream.0.write_all(b"ping").expect("writes");
    match stream.1.read_exact(&mut echo) {
        Ok(()) => {}
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            return false;
        }
        Err(error) => panic!("{error}"),
    }
    stream.1.write_all(&echo).expect("writes");
    stream.0.read_exact(&mut echo).is_ok()
}

/// What a controller does on one node: policy first, then the tables for the device
/// ports it is told.
fn program(bed: &Bed, generation: u64, rules: Vec<v1::Rule>) {
    bed.control(move |mut controller| async move {
        let mut sync = controller.sync().await;
        let status = sync.send(fixture::snapshot(generation, rules)).await;
        assert_eq!(status.result(), Verdict::InForce, "{}", status.message);
        let _primary = controller.take(1, generation).await;
        let mut entries = Vec::new();
        for (i, attachment) in status.attachments.iter().enumerate() {
            assert_eq!(attachment.error, "");
            let (port, id) = (attachment.device_port, attachment.port_id);
            let ip = fixture::bits(IP[i]);
            entries.extend(port_entries(port, id, VNI as u16, MAC[i], ip));
        }
        controller.insert(1, generation, &entries).await;
    });
}

fn change(bed: &Bed, generation: u64, base: u64, rules: Vec<v1::Rule>) {
    bed.control(move |mut controller| async move {
        let mut sync = controller.sync().await;
        let status = sync.send(fixture::delta(generation, base, rules)).await;
        assert_eq!(status.result(), Verdict::InForce, "{}", status.message);
    });
}

fn runtime_folder(bed: &Bed) -> PathBuf {
    Path::new("/var/run/dpdk").join(&bed.node.name)
}

#[test]
fn policy_decides_between_two_workloads_of_a_node() {
    if !netns::available("policy_decides_between_two_workloads_of_a_node") {
        return;
    }
    let mut bed = Bed::new();
    bed.start();
    assert!(!bed.ping(), "closed before the first policy");

    let rules = || vec![allow("ping", ICMP, &[]), allow("web", TCP, &[8080])];
    program(&bed, 1, rules());
    assert!(bed.ping(), "rule `ping`");
    let mut web = bed.connect(8080).expect("rule `web`");
    assert!(passes(&mut web));
    assert!(bed.connect(9090).is_none(), "no rule");

    let drops = bed.control(|mut c| async move { c.drops().await });
    let denied = drops.drops.iter().find(|d| d.reason == "denied_ingress");
    let denied = denied.expect("the attempt on 9090");
    let key = denied.key.as_ref().expect("a key");
    assert_eq!((denied.port_id, key.destination_port), (2, 9090));
    assert!(
        denied.explanation.contains("closed"),
        "{}",
        denied.explanation
    );

    // The NIC's tables answer what has been decided.
    for _ in 0..20 {
        assert!(passes(&mut web));
    }
    let flows = bed.control(|mut c| async move { c.flows(2).await });
    let of_web = |f: &&v1::Flow| f.key.as_ref().is_some_and(|k| k.destination_port == 8080);
    let flow = flows.iter().find(of_web).expect("the connection");
    assert!(flow.offloaded && flow.nic_packets >= 20, "{flow:?}");
    assert_eq!((flow.rule.as_str(), flow.ingress), ("g/rules/web", true));
    let rows = bed.control(|mut c| async move { c.read(1, Table::Flow.read_all()).await });
    let counted = |row: &p4runtime::v1::TableEntry| {
        row.time_since_last_hit.is_some() && row.counter_data.is_some_and(|c| c.packet_count >= 20)
    };
    assert!(
        rows.iter().filter(|row| counted(row)).count() >= 2,
        "{rows:?}"
    );

    // A change that closes it cuts what is open.
    change(&bed, 2, 1, vec![allow("ping", ICMP, &[])]);
    assert!(!passes(&mut web), "revoked");
    assert!(bed.ping(), "not concerned");
    let drops = bed.control(|mut c| async move { c.drops().await });
    let revoked = drops.drops.iter().find(|d| d.reason == "revoked");
    assert_eq!(revoked.expect("the cut").rule, "g/rules/web");

    assert!(!runtime_folder(&bed).exists(), "EAL leaves nothing behind");
    bed.stop();
    assert!(!bed.ping(), "nobody forwards");
}

#[test]
fn a_restarted_worker_forwards_without_a_controller() {
    if !netns::available("a_restarted_worker_forwards_without_a_controller") {
        return;
    }
    let mut bed = Bed::new();
    bed.start();
    program(&bed, 1, vec![allow("ping", ICMP, &[])]);
    assert!(bed.ping());
    // Tables are kept soon after they are written; a stop would keep them at once.
    sleep(Duration::from_secs(1));
    drop(bed.worker.take());
    assert!(!bed.ping(), "killed");
    bed.start();
    assert!(bed.ping(), "resumed from disk");
    let generation = bed.control(|mut c| async move {
        let info = c.slow.get_node(v1::GetNodeRequest {}).await;
        info.expect("answers").into_inner().generation
    });
    assert_eq!(generation, 1);
    assert!(bed.connect(8080).is_none(), "still closed");
}

#[test]
fn an_interface_that_comes_back_is_attached_again() {
    if !netns::available("an_interface_that_comes_back_is_attached_again") {
        return;
    }
    let mut bed = Bed::new();
    bed.start();
    program(&bed, 1, vec![allow("ping", ICMP, &[])]);
    assert!(bed.ping());
    bed.node.ip(&["link", "del", INTERFACE[1]]);
    wait_until("its absence is reported", || {
        let errors = attachment_errors(&bed);
        errors.iter().any(|error| error.contains("no interface vb"))
    });
    bed.plug(1);
    wait_until("it forwards again", || bed.ping());
    assert_eq!(attachment_errors(&bed), ["", ""]);
}

fn attachment_errors(bed: &Bed) -> Vec<String> {
    bed.control(|mut controller| async move {
        let mut sync = controller.sync().await;
        // The policy in force once more: no change, but an answer.
        let rules = vec![allow("ping", ICMP, &[])];
        let status = sync.send(fixture::snapshot(1, rules)).await;
        assert_eq!(status.result(), Verdict::InForce, "{}", status.message);
        status.attachments.into_iter().map(|a| a.error).collect()
    })
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + SOON;
    while Instant::now() < end {
        if done() {
            return;
        }
        sleep(Duration::from_millis(100));
    }
    panic!("waited in vain until {what}");
}
