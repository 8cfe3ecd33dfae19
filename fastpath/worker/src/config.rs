//! What an operator decides: a TOML file, with a few command-line overrides.
//!
//! [`file::File`] is what was written; [`Config`] is what has been checked. The
//! rest of the worker sees only the second. Every refusal names the field, the
//! value and what to do.

mod args;
mod file;
mod nics;
mod pattern;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use penstock_engine::nic::Capacities;
use penstock_flow::Prefix;

pub use args::Args;
pub use file::File;
pub use pattern::Pattern;

/// The most forwarding threads.
const MOST_LCORES: u32 = 16;

/// A checked configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// This node's name, as the controller knows it.
    pub node: String,
    /// Where P4Runtime and SlowPath are served.
    pub listen: SocketAddr,
    /// Where `/metrics` is served; `None`: nowhere.
    pub metrics_listen: Option<SocketAddr>,
    /// Snapshots live here.
    pub data_dir: PathBuf,
    /// Written once the worker serves: the address it listens on.
    pub ready_file: Option<PathBuf>,
    /// Who the worker is and whom it trusts; `None`: whoever reaches `listen`.
    pub tls: Option<Tls>,
    /// Forwarding threads.
    pub lcores: u16,
    /// The processors that they are bound to; see [`cpu`](Self::cpu).
    pub cpus: Vec<u16>,
    /// How long a forwarding thread sleeps between two looks after a second without
    /// packets.
    pub longest_sleep: Duration,
    /// After a start, TCP may be taken up in its midst for so long.
    pub recovery: Duration,
    /// Connections that the slow path tracks, on all lcores together.
    pub max_connections: u32,
    /// Connections that one port may open, or have opened to it, in a second, on all lcores
    /// together; 0: no limit.
    pub opens_per_second: u32,
    /// DPDK's environment.
    pub eal: Eal,
    /// Which host interfaces may become ports.
    pub attachments: Attachments,
    /// The NICs, ascending by device id.
    pub nics: Vec<Nic>,
}

/// PEM files, read when the worker starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The worker's certificate, and what leads from it to its issuer.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authority of controllers: whoever has a controller's certificate from it may
    /// program the node.
    pub client_ca: PathBuf,
}

/// DPDK's environment abstraction layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eal {
    /// Run without hugepages.
    pub no_huge: bool,
    /// MiB of memory for packet buffers.
    pub memory_mb: u32,
    /// Names this worker's run directory; unique on the host.
    pub file_prefix: String,
}

/// Which host interfaces may become device ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachments {
    /// An interface's name must match one of these.
    pub allow: Vec<Pattern>,
    /// Nothing that a workload sends reaches the host's own network stack.
    pub shield: bool,
}

impl Attachments {
    /// Whether policy may attach this interface.
    #[must_use]
    pub fn allows(&self, interface: &str) -> bool {
        self.allow.iter().any(|pattern| pattern.matches(interface))
    }
}

/// One NIC of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nic {
    /// P4Runtime's device id, at least 1.
    pub device_id: u32,
    /// How the underlay is reached.
    pub uplink: Uplink,
    /// This NIC's end of every tunnel.
    pub vtep: IpAddr,
    /// Length of the VTEP's on-link prefix.
    pub vtep_prefix_len: u8,
    /// Bytes of an IP packet on the underlay; `None`: what the uplink has.
    pub mtu: Option<u16>,
    /// Where everything off that prefix goes.
    pub gateway: Option<IpAddr>,
    /// Entries that its tables take.
    pub capacities: Capacities,
    /// A slow NIC, in simulation: how long it takes for an entry; zero: no time.
    pub entry_write: Duration,
}

impl Nic {
    /// Whom the VTEP has on its link.
    #[must_use]
    pub fn underlay(&self) -> Option<Prefix> {
        nics::prefix(self.vtep, self.vtep_prefix_len)
    }
}

/// The port towards the underlay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Uplink {
    /// A DPDK device: a PCI address, or a virtual device with its arguments.
    Devargs(String),
    /// A kernel interface, taken over through a packet socket.
    Interface(String),
}

/// Why a configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read configuration {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The file is not the TOML that is expected.
    #[error("configuration {path}: {source}")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// What and where.
        source: Box<toml::de::Error>,
    },
    /// A value cannot be used.
    #[error("{field} = {value}: {problem}")]
    Field {
        /// Its path, as `nic[0].vtep`.
        field: String,
        /// What was written.
        value: String,
        /// What is wrong and what to do.
        problem: String,
    },
}

impl Config {
    /// The processor that an lcore is bound to; `None`: to none. Fewer processors than
    /// lcores are given out in turn.
    #[must_use]
    pub fn cpu(&self, lcore: usize) -> Option<u16> {
        self.cpus.iter().cycle().nth(lcore).copied()
    }

    /// Reads the file that `args` name and applies the overrides.
    ///
    /// # Errors
    /// The file is unreadable, not TOML, or holds a value that cannot be used.
    pub fn load(args: &Args) -> Result<Self, ConfigError> {
        let mut file = read(&args.config)?;
        args.apply(&mut file);
        Self::check(file, args.insecure, args.ready_file.clone())
    }

    /// Checks what was written.
    ///
    /// # Errors
    /// The first value that cannot be used.
    pub fn check(
        file: File,
        insecure: bool,
        ready_file: Option<PathBuf>,
    ) -> Result<Self, ConfigError> {
        let File {
            node,
            listen,
            metrics_listen,
            data_dir,
            tls,
            lcores,
            cpus,
            longest_sleep_us,
            recovery_s,
            max_connections,
            opens_per_second,
            flow_capacity,
            eal,
            attachments,
            nic: nics,
        } = file;
        if node.is_empty() || node.len() > 253 || node.contains(char::is_whitespace) {
            return refuse(
                "node",
                &format!("{node:?}"),
                "a node's name has 1 to 253 characters and no spaces; use the host name",
            );
        }
        check_listen(listen, tls.is_some(), insecure)?;
        let tls = tls.map(|tls| {
            let file::Tls {
                certificate,
                key,
                client_ca,
            } = tls;
            Tls {
                certificate,
                key,
                client_ca,
            }
        });
        if data_dir.as_os_str().is_empty() {
            return refuse(
                "data_dir",
                "\"\"",
                "name a directory, e.g. /var/lib/penstock",
            );
        }
        check_range("lcores", lcores.into(), 1, MOST_LCORES)?;
        check_cpus(&cpus, lcores)?;
        check_range("longest_sleep_us", longest_sleep_us, 0, 10_000)?;
        check_range("recovery_s", recovery_s, 0, 3600)?;
        check_range("max_connections", max_connections, 2, 1 << 26)?;
        check_range("opens_per_second", opens_per_second, 0, 10_000_000)?;
        check_range("flow_capacity", flow_capacity, 2, 1 << 26)?;
        let eal = check_eal(eal)?;
        let attachments = check_attachments(attachments)?;
        let nics = nics::check(nics, flow_capacity)?;
        Ok(Self {
            node,
            listen,
            metrics_listen,
            data_dir,
            ready_file,
            tls,
            lcores,
            cpus,
            longest_sleep: Duration::from_micros(longest_sleep_us.into()),
            recovery: Duration::from_secs(recovery_s.into()),
            max_connections,
            opens_per_second,
            eal,
            attachments,
            nics,
        })
    }
}

fn read(path: &Path) -> Result<File, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
        path: path.to_owned(),
        source,
    })?;
    toml::from_str(&text).map_err(|source| ConfigError::Syntax {
        path: path.to_owned(),
        source: Box::new(source),
    })
}

fn refuse<T>(field: &str, value: &str, problem: &str) -> Result<T, ConfigError> {
    Err(ConfigError::Field {
        field: field.to_owned(),
        value: value.to_owned(),
        problem: problem.to_owned(),
    })
}

fn check_range(field: &str, value: u32, low: u32, high: u32) -> Result<(), ConfigError> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    refuse(
        field,
        &value.to_string(),
        &format!("choose a number from {low} to {high}"),
    )
}

fn check_listen(listen: SocketAddr, tls: bool, insecure: bool) -> Result<(), ConfigError> {
    match (tls, insecure) {
        (true, false) => Ok(()),
        (true, true) => refuse(
            "tls",
            "[tls] with --insecure",
            "leave one of them out: with the section, only controllers are heard",
        ),
        (false, false) => refuse(
            "tls",
            "nothing",
            "add a [tls] section with certificate, key and client_ca (`penstock admin certs` \
             issues them for development), or pass --insecure and listen on a loopback address",
        ),
        (false, true) if listen.ip().is_loopback() => Ok(()),
        (false, true) => refuse(
            "listen",
            &listen.to_string(),
            "without TLS whoever reaches this address programs the node; with --insecure it must \
             be a loopback address, e.g. 127.0.0.1:9559, or add a [tls] section",
        ),
    }
}

fn check_cpus(cpus: &[u16], lcores: u16) -> Result<(), ConfigError> {
    let mut once = std::collections::BTreeSet::new();
    let twice = cpus.iter().any(|cpu| !once.insert(cpu));
    if cpus.len() <= usize::from(lcores) && !twice {
        return Ok(());
    }
    refuse(
        "cpus",
        &format!("{cpus:?}"),
        "name each processor once, and no more of them than lcores; fewer are shared",
    )
}

fn check_eal(eal: file::Eal) -> Result<Eal, ConfigError> {
    let file::Eal {
        no_huge,
        memory_mb,
        file_prefix,
    } = eal;
    check_range("eal.memory_mb", memory_mb, 64, 1 << 20)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if file_prefix.is_empty() || file_prefix.len() > 64 || !file_prefix.chars().all(plain) {
        return refuse(
            "eal.file_prefix",
            &format!("{file_prefix:?}"),
            "it names a directory: 1 to 64 letters, digits, '-' or '_'",
        );
    }
    Ok(Eal {
        no_huge,
        memory_mb,
        file_prefix,
    })
}

fn check_attachments(attachments: file::Attachments) -> Result<Attachments, ConfigError> {
    let file::Attachments {
        driver,
        allow,
        shield,
    } = attachments;
    if driver != "af_packet" {
        return refuse(
            "attachments.driver",
            &format!("{driver:?}"),
            "only \"af_packet\" is there: host interfaces become ports through packet sockets",
        );
    }
    let mut patterns = Vec::with_capacity(allow.len());
    for (i, text) in allow.iter().enumerate() {
        let Some(pattern) = Pattern::parse(text) else {
            return refuse(
                &format!("attachments.allow[{i}]"),
                &format!("{text:?}"),
                "an interface name of 1 to 15 characters, in which * stands for any number of characters",
            );
        };
        patterns.push(pattern);
    }
    Ok(Attachments {
        allow: patterns,
        shield,
    })
}

#[cfg(test)]
mod tests;
