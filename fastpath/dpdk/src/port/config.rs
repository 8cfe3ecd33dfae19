//! What a port is started with, and what it tells about itself.

use dpdk_sys as sys;

/// Settings of a port.
#[derive(Debug, Clone)]
pub struct PortConfig {
    pub rx_queues: u16,
    pub tx_queues: u16,
    /// Wanted length of each receive ring; adjusted to what the device can.
    pub rx_descriptors: u16,
    /// Wanted length of each transmit ring; adjusted to what the device can.
    pub tx_descriptors: u16,
    /// Largest payload of a frame; none leaves what the device has.
    pub mtu: Option<u16>,
    /// Receives what is addressed to others, too.
    pub promiscuous: bool,
}

impl Default for PortConfig {
    fn default() -> Self {
        Self {
            rx_queues: 1,
            tx_queues: 1,
            rx_descriptors: 1024,
            tx_descriptors: 1024,
            mtu: None,
            promiscuous: false,
        }
    }
}

/// The state of a port's link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    pub up: bool,
    /// Megabits per second; `u32::MAX` when the driver does not know.
    pub speed_mbps: u32,
    pub full_duplex: bool,
}

impl Link {
    pub(super) fn of(raw: &sys::rte_eth_link) -> Self {
        Self {
            up: raw.link_status() == 1,
            speed_mbps: raw.link_speed,
            full_duplex: raw.link_duplex() == 1,
        }
    }
}

/// A driver's counters, all queues together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    pub ipackets: u64,
    pub opackets: u64,
    pub ibytes: u64,
    pub obytes: u64,
    /// Dropped because a receive ring was full.
    pub imissed: u64,
    pub ierrors: u64,
    /// Frames that a transmit queue took and the driver then failed to send.
    pub oerrors: u64,
    /// Times a receive found the pool empty.
    pub rx_nombuf: u64,
}

impl Stats {
    pub(super) fn of(raw: &sys::rte_eth_stats) -> Self {
        Self {
            ipackets: raw.ipackets,
            opackets: raw.opackets,
            ibytes: raw.ibytes,
            obytes: raw.obytes,
            imissed: raw.imissed,
            ierrors: raw.ierrors,
            oerrors: raw.oerrors,
            rx_nombuf: raw.rx_nombuf,
        }
    }
}
