//! What an engine and its NICs are made with.

use penstock_flow::conntrack::Timeouts;
use penstock_flow::{Addr, Mac, Prefix};

use crate::nic::Capacities;

/// Which of a worker's engines one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Below `count`.
    pub index: u16,
    /// Engines of the worker, 1 or more.
    pub count: u16,
}

impl Shard {
    /// The only one.
    pub const ALONE: Self = Self { index: 0, count: 1 };
}

/// An engine's fixed sizes and its seed.
#[derive(Clone, Debug)]
pub struct Config {
    /// Seeds every hash of a packet's fields; secret, from the system's
    /// randomness, and the same on all lcores of a worker.
    pub seed: u64,
    /// Which shard of the worker's this is.
    pub shard: Shard,
    /// Connections of this shard.
    pub max_connections: u32,
    /// Device ports are numbered below this.
    pub max_device_ports: u32,
    /// Tenants' ports bound to this worker's NICs.
    pub max_ports: u32,
    /// Connections that one port may have; bounds what a single sender can take
    /// of the table.
    pub max_connections_per_port: u32,
    /// Of [`max_connections`](Self::max_connections), so many are kept back for
    /// all bound ports in equal shares: what one always may have.
    pub reserved_connections: u32,
    /// Connections that one port may open, or have opened to it, per second;
    /// 0: no limit.
    pub opens_per_second: u32,
    /// Silence after which a connection is forgotten.
    pub timeouts: Timeouts,
    /// Recent denials and revocations kept for `ListDrops`.
    pub max_drop_records: usize,
    /// Denials recorded per port and second: one sender's do not push out all
    /// others'. Counters count every one.
    pub drop_records_per_second: u32,
    /// Connections that one [`tick`](crate::Engine::tick) judges again.
    pub sweep_slice: u32,
    /// ICMP errors answered per port and second.
    pub icmp_errors_per_second: u32,
    /// ARP, ND and DHCP messages looked at per port and second.
    pub questions_per_second: u32,
    /// Packets in fragments that are known at once. One port, or one sender from the
    /// wire, may have a quarter, and less where others want some; VPCs give way to
    /// one another likewise, with all their senders.
    pub max_fragmented: u32,
    /// Fragments that wait at once for the first one of their packet; shared alike.
    pub max_waiting_fragments: u32,
    /// How long they wait at most, in nanoseconds.
    pub fragment_wait: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            seed: 0,
            shard: Shard::ALONE,
            max_connections: 1 << 16,
            max_device_ports: 1024,
            max_ports: 1024,
            max_connections_per_port: 1 << 15,
            reserved_connections: 0,
            opens_per_second: 0,
            timeouts: Timeouts::default(),
            max_drop_records: 1024,
            drop_records_per_second: 100,
            sweep_slice: 1024,
            icmp_errors_per_second: 100,
            questions_per_second: 1000,
            max_fragmented: 1024,
            max_waiting_fragments: 512,
            fragment_wait: 1_000_000_000,
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
    /// A slow NIC, in simulation: nanoseconds that it takes to carry out the write
    /// of one entry of `fence` or `flow`; 0: none.
    pub entry_write_ns: u64,
}

/// Why a NIC could not be attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttachError {
    /// The id has a NIC.
    #[error("device_id {0} is attached already; use another")]
    DeviceTaken(u32),
    /// Ids begin at 1.
    #[error("device_id is 0; use 1 or more")]
    NoDevice,
    /// The uplink belongs to another NIC, or is a tenant's port.
    #[error("uplink_port {0} is in use; use another")]
    UplinkTaken(u32),
    /// The uplink's number is 0 or too large.
    #[error("uplink_port is {port}; use 1 to {max}")]
    UplinkOutOfRange {
        /// The number.
        port: u32,
        /// The largest there is.
        max: u32,
    },
    /// Every change needs a fence of its own, and one more may come.
    #[error("fence has {0} entries; a NIC needs 2 or more")]
    NoFences(u32),
    /// VTEP, prefix and gateway do not belong together.
    #[error("vtep {vtep} and underlay {underlay}: use a prefix and a gateway of the VTEP's family")]
    MixedFamilies {
        /// The VTEP.
        vtep: Addr,
        /// The prefix.
        underlay: Prefix,
    },
}

impl NicConfig {
    pub(crate) fn check(&self, device_ports: u32) -> Result<(), AttachError> {
        if self.device_id == 0 {
            return Err(AttachError::NoDevice);
        }
        if self.uplink_port == 0 || self.uplink_port >= device_ports {
            return Err(AttachError::UplinkOutOfRange {
                port: self.uplink_port,
                max: device_ports.saturating_sub(1),
            });
        }
        if self.capacities.fence < 2 {
            return Err(AttachError::NoFences(self.capacities.fence));
        }
        let v4 = self.vtep.is_v4();
        if self.underlay.addr().is_v4() != v4 || self.gateway.is_some_and(|g| g.is_v4() != v4) {
            return Err(AttachError::MixedFamilies {
                vtep: self.vtep,
                underlay: self.underlay,
            });
        }
        Ok(())
    }
}
