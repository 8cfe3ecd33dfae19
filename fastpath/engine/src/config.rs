//! What an engine and its NICs are made with.

use penstock_flow::{Addr, Mac, Prefix};

use crate::nic::Capacities;

/// An engine's fixed sizes and its seed.
#[derive(Clone, Debug)]
pub struct Config {
    /// Seeds every hash of a packet's fields; secret, from the system's
    /// randomness, and the same on all lcores of a worker.
    pub seed: u64,
    /// Connections of this shard.
    pub max_connections: usize,
    /// Device ports are numbered below this.
    pub max_device_ports: u32,
    /// Recent denials and revocations kept for `ListDrops`.
    pub max_drop_records: usize,
    /// Connections that one [`tick`](crate::Engine::tick) looks at.
    pub sweep_slice: usize,
    /// ICMP errors answered per port and second.
    pub icmp_errors_per_second: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            seed: 0,
            max_connections: 1 << 16,
            max_device_ports: 1024,
            max_drop_records: 1024,
            sweep_slice: 512,
            icmp_errors_per_second: 100,
        }
    }
}

/// A NIC: the end of the underlay that it is.
#[derive(Clone, Debug)]
pub struct NicConfig {
    /// P4Runtime's name for it, 1 or more.
    pub device_id: u32,
    /// Its address on the underlay.
    pub vtep: Addr,
    /// The device port towards the underlay.
    pub uplink_port: u32,
    /// That port's MAC.
    pub uplink_mac: Mac,
    /// Neighbours inside are asked for themselves.
    pub underlay: Prefix,
    /// Everyone else is reached through this one; `None`: not at all.
    pub gateway: Option<Addr>,
    /// Bytes of an IP packet on the underlay.
    pub mtu: u16,
    /// Entries that each table takes.
    pub capacities: Capacities,
}
