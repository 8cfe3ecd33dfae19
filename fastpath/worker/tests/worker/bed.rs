//! Nodes and workloads in namespaces: worker processes, and what runs behind them.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::controller::{Controller, SOON};
use crate::fixture::{INTERFACE, IP, MAC};
use crate::netns::Netns;

/// A packet that is let through is there by then.
const SHORT: Duration = Duration::from_millis(700);

/// A node's namespace; its uplink u0 is made by whoever connects it.
pub(crate) struct Node {
    // Dropped first: it holds interfaces of `ns`.
    pub(crate) worker: Option<Worker>,
    pub(crate) ns: Netns,
    vtep: &'static str,
    /// The underlay's, where it is not the usual.
    mtu: Option<u16>,
    /// More of its configuration.
    more: &'static str,
    dir: tempfile::TempDir,
}

pub(crate) struct Worker {
    child: Child,
    address: SocketAddr,
}

/// A workload's namespace; `eth0` leads to a node.
pub(crate) struct Workload {
    pub(crate) ns: Netns,
    i: usize,
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Node {
    pub(crate) fn new(name: &str, vtep: &'static str) -> Self {
        Self {
            worker: None,
            ns: Netns::new(name),
            vtep,
            mtu: None,
            more: "",
            dir: tempfile::tempdir().expect("a directory"),
        }
    }

    /// An uplink that leads nowhere.
    pub(crate) fn lone_uplink(&self) {
        self.ns
            .ip(&["link", "add", "u0", "type", "veth", "peer", "name", "u1"]);
        self.ns.ip(&["link", "set", "u1", "up"]);
    }

    /// With more in its configuration, before the sections.
    pub(crate) fn and(mut self, more: &'static str) -> Self {
        self.more = more;
        self
    }

    /// Large frames, on the underlay and for workloads made after this.
    pub(crate) fn jumbo(mut self) -> Self {
        self.mtu = Some(9000);
        self
    }

    /// Bytes of a workload's packet.
    pub(crate) fn inner_mtu(&self) -> u16 {
        self.mtu.unwrap_or(1500) - 50
    }

    /// One underlay for two nodes.
    pub(crate) fn connect(&self, other: &Self) {
        let mut link = vec!["link", "add", "u0", "type", "veth", "peer", "name", "u0"];
        link.extend(["netns", &other.ns.name]);
        self.ns.ip(&link);
        if let Some(mtu) = self.mtu {
            for ns in [&self.ns, &other.ns] {
                ns.ip(&["link", "set", "u0", "mtu", &mtu.to_string()]);
            }
        }
    }

    pub(crate) fn start(&mut self) {
        let config = self.dir.path().join("worker.toml");
        let data = self.data_dir();
        let ready = self.dir.path().join("ready");
        let (vtep, prefix, more) = (self.vtep, &self.ns.name, self.more);
        let text = format!(
            "node = \"host-1\"\nlisten = \"127.0.0.1:0\"\ndata_dir = {data:?}\nlcores = {}\n{more}\
             [eal]\nmemory_mb = 128\nfile_prefix = \"{prefix}\"\n\
             [attachments]\nallow = [\"v*\"]\n\
             [[nic]]\ndevice_id = 1\nuplink = {{ interface = \"u0\" }}\nvtep = \"{vtep}/24\"\n",
            lcores(),
        );
        let mtu = self
            .mtu
            .map_or(String::new(), |mtu| format!("mtu = {mtu}\n"));
        std::fs::write(&config, text + &mtu).expect("a configuration");
        let _ = std::fs::remove_file(&ready);
        let child = self
            .ns
            .command(&program())
            .arg("--config")
            .arg(&config)
            .arg("--insecure")
            .arg("--ready-file")
            .arg(&ready)
            .stdin(Stdio::null())
            .spawn()
            .expect("starts");
        let address = wait_for(&ready);
        self.worker = Some(Worker { child, address });
    }

    /// Where the worker keeps what outlives it.
    pub(crate) fn data_dir(&self) -> std::path::PathBuf {
        self.dir.path().join("data")
    }

    /// Stops the worker in good order.
    pub(crate) fn stop(&mut self) {
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

    /// Processor time that the worker has used.
    pub(crate) fn cpu_time(&self) -> Duration {
        let pid = self.worker.as_ref().expect("runs").child.id();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("runs");
        let (_, fields) = stat.rsplit_once(')').expect("a name");
        let ticks: u64 = fields
            .split_whitespace()
            .skip(11)
            .take(2)
            .map(|field| field.parse::<u64>().expect("a number"))
            .sum();
        // USER_HZ is 100 on every Linux that we run on.
        Duration::from_millis(ticks * 10)
    }

    /// Runs a controller next to the worker.
    pub(crate) fn control<T: Send + 'static, F: Future<Output = T>>(
        &self,
        work: impl FnOnce(Controller) -> F + Send + 'static,
    ) -> T {
        let address = self.worker.as_ref().expect("runs").address;
        let thread = self.ns.thread(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async move { work(Controller::connect(address).await).await })
        });
        thread.join().expect("the controller's part")
    }
}

impl Workload {
    /// Workload `i` of the fixture, on `node`.
    pub(crate) fn new(i: usize, node: &Node) -> Self {
        let ns = Netns::new(["a", "b"][i]);
        let this = Self { ns, i };
        this.plug(node);
        this
    }

    /// Gives it its interface.
    pub(crate) fn plug(&self, node: &Node) {
        let (i, ns) = (self.i, &self.ns);
        let [a, b, c, d, e, f] = MAC[i];
        let mac = format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}");
        let mut link = vec!["link", "add", INTERFACE[i], "type", "veth"];
        link.extend(["peer", "name", "eth0", "netns", &ns.name]);
        node.ns.ip(&link);
        let mtu = node.inner_mtu().to_string();
        node.ns.ip(&["link", "set", INTERFACE[i], "mtu", &mtu]);
        ns.ip(&["link", "set", "eth0", "address", &mac, "mtu", &mtu]);
        // A packet socket sees frames before the kernel fills their checksums in.
        ns.exec("ethtool", &["-K", "eth0", "tx", "off"]);
        ns.ip(&["link", "set", "eth0", "up"]);
        ns.ip(&["addr", "add", &format!("{}/24", IP[i]), "dev", "eth0"]);
    }

    /// Whether the other answers.
    pub(crate) fn pings(&self, size: u16) -> bool {
        let (to, size) = (IP[1 - self.i].to_string(), size.to_string());
        let args = [
            "-c", "3", "-i", "0.2", "-W", "1", "-M", "do", "-s", &size, &to,
        ];
        self.ns.output("ping", &args).status.success()
    }

    /// A connection to a listener of the other.
    pub(crate) fn connect(&self, other: &Self, port: u16) -> Option<Connection> {
        let listener = other
            .ns
            .thread(move || TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).expect("listens"));
        let listener = listener.join().expect("listens");
        let to = SocketAddr::from((IP[other.i], port));
        let opened = self
            .ns
            .thread(move || TcpStream::connect_timeout(&to, SHORT));
        let near = opened.join().expect("tries").ok()?;
        let (far, _) = listener.accept().expect("accepts");
        for stream in [&near, &far] {
            stream.set_read_timeout(Some(SHORT)).expect("a timeout");
            stream.set_nodelay(true).expect("an option");
        }
        Some(Connection { near, far })
    }
}

pub(crate) struct Connection {
    near: TcpStream,
    far: TcpStream,
}

impl Connection {
    /// Whether bytes get there and back.
    pub(crate) fn passes(&mut self, bytes: usize) -> bool {
        let mut echo = vec![7; bytes];
        self.near.write_all(&echo).expect("writes");
        match self.far.read_exact(&mut echo) {
            Ok(()) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return false;
            }
            Err(error) => panic!("{error}"),
        }
        self.far.write_all(&echo).expect("writes");
        self.near.read_exact(&mut echo).is_ok()
    }
}

impl Connection {
    /// Sends so many bytes one way; says how fast, for people.
    pub(crate) fn carries(&mut self, what: &str, bytes: usize) {
        let mut far = self.far.try_clone().expect("a second handle");
        let begin = Instant::now();
        let reader = std::thread::spawn(move || {
            let (mut left, mut buffer) = (bytes, vec![0; 1 << 16]);
            while left > 0 {
                let most = left.min(buffer.len());
                let n = far.read(&mut buffer[..most]).expect("no stall");
                assert!(n > 0, "closed with {left} bytes to come");
                left -= n;
            }
        });
        self.near.set_write_timeout(Some(SOON)).expect("a timeout");
        self.near.write_all(&vec![7; bytes]).expect("writes");
        reader.join().expect("reads all");
        let rate = bytes as f64 / begin.elapsed().as_secs_f64() / 1e6;
        eprintln!("{what}: {rate:.0} MB/s");
    }
}

pub(crate) fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + SOON;
    while Instant::now() < end {
        if done() {
            return;
        }
        sleep(Duration::from_millis(100));
    }
    panic!("waited in vain until {what}");
}

/// The worker under test: another build of it by PENSTOCK_WORKER.
fn program() -> String {
    let built = env!("CARGO_BIN_EXE_penstock-worker").to_owned();
    std::env::var("PENSTOCK_WORKER").unwrap_or(built)
}

/// Forwarding threads of each worker that a test starts.
pub(crate) fn lcores() -> u16 {
    let wanted = std::env::var("PENSTOCK_LCORES");
    wanted.map_or(1, |n| n.parse().expect("PENSTOCK_LCORES is a number"))
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
