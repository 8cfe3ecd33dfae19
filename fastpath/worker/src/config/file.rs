//! The configuration file as it is written. Unknown fields are refused.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::Deserialize;

/// The whole file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// This node's name.
    pub node: String,
    /// gRPC address.
    #[serde(default = "default_listen")]
    pub listen: SocketAddr,
    /// Address of `/metrics`.
    pub metrics_listen: Option<SocketAddr>,
    /// Where snapshots are kept.
    pub data_dir: PathBuf,
    /// Who the worker is and who may talk to it.
    pub tls: Option<Tls>,
    /// Forwarding threads.
    #[serde(default = "one")]
    pub lcores: u16,
    /// The processors that they are bound to.
    #[serde(default)]
    pub cpus: Vec<u16>,
    /// Microseconds between two looks for packets after a second without any; 0: never
    /// sleep.
    #[serde(default = "default_sleep")]
    pub longest_sleep_us: u32,
    /// Seconds after a start in which TCP may be taken up in its midst.
    #[serde(default = "default_recovery")]
    pub recovery_s: u32,
    /// Tracked connections.
    #[serde(default = "default_connections")]
    pub max_connections: u32,
    /// Connections that a port may open, or have opened to it, in a second; 0: no limit.
    #[serde(default)]
    pub opens_per_second: u32,
    /// Entries of each flow table.
    #[serde(default = "default_connections")]
    pub flow_capacity: u32,
    /// DPDK's environment.
    #[serde(default)]
    pub eal: Eal,
    /// How host interfaces become ports.
    #[serde(default)]
    pub attachments: Attachments,
    /// The NICs.
    #[serde(default)]
    pub nic: Vec<Nic>,
}

/// `[tls]`: PEM files.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The worker's certificate, and what leads from it to its issuer.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Issuers of clients' certificates.
    pub client_ca: PathBuf,
}

/// `[eal]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Eal {
    /// Run without hugepages.
    pub no_huge: bool,
    /// MiB for packet buffers.
    pub memory_mb: u32,
    /// Unique on the host.
    pub file_prefix: String,
}

impl Default for Eal {
    fn default() -> Self {
        Self {
            no_huge: true,
            memory_mb: 256,
            file_prefix: format!("penstock-{}", std::process::id()),
        }
    }
}

/// `[attachments]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Attachments {
    /// How an interface is taken over.
    pub driver: String,
    /// Patterns of names that policy may attach.
    pub allow: Vec<String>,
    /// Whether what a workload sends is kept from the host's own stack.
    pub shield: bool,
}

impl Default for Attachments {
    fn default() -> Self {
        Self {
            driver: "af_packet".to_owned(),
            allow: vec!["*".to_owned()],
            shield: true,
        }
    }
}

/// `[[nic]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nic {
    /// P4Runtime's device id.
    pub device_id: u32,
    /// The port towards the underlay.
    pub uplink: Uplink,
    /// Address and prefix length.
    pub vtep: String,
    /// Bytes of an IP packet on the underlay.
    pub mtu: Option<u16>,
    /// The underlay's gateway.
    pub gateway: Option<IpAddr>,
    /// Microseconds that the NIC takes to write an entry, in simulation.
    #[serde(default)]
    pub entry_write_us: u32,
    /// Entries that its tables take.
    #[serde(default)]
    pub capacity: Capacity,
}

/// `capacity = { mapping = 4096, .. }`
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Capacity {
    /// Where ports send from.
    pub vport: Option<u32>,
    /// Known tunnels.
    pub underlay: Option<u32>,
    /// Ports' own addresses.
    pub spoof_guard: Option<u32>,
    /// Connections.
    pub flow: Option<u32>,
    /// Static rules.
    pub acl: Option<u32>,
    /// Destinations.
    pub mapping: Option<u32>,
    /// Next hops.
    pub nexthop: Option<u32>,
}

/// `uplink = { devargs = ".." }` or `uplink = { interface = ".." }`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Uplink {
    /// A DPDK device.
    pub devargs: Option<String>,
    /// A kernel interface.
    pub interface: Option<String>,
}

fn default_listen() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 9559))
}

const fn one() -> u16 {
    1
}

const fn default_recovery() -> u32 {
    30
}

fn default_sleep() -> u32 {
    250
}

const fn default_connections() -> u32 {
    65_536
}
