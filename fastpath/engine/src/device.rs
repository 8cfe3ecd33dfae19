//! Device ports: which NIC each belongs to, and what it has carried.

use alloc::vec;
use alloc::vec::Vec;

use penstock_rules::model::PortId;

use crate::counters::PortCounters;
use crate::homes::Homes;

/// What a device port is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Role {
    /// Nothing yet: what arrives is dropped.
    #[default]
    None,
    /// A tenant's, with so many VLANs bound.
    Local { nic: usize, vports: u32 },
    /// A NIC's way to the underlay.
    Uplink { nic: usize },
}

#[derive(Clone, Copy, Debug)]
struct Device {
    role: Role,
    /// Bytes of an IP packet that it can send.
    mtu: u16,
    counters: PortCounters,
}

impl Default for Device {
    fn default() -> Self {
        Self {
            role: Role::None,
            mtu: u16::MAX,
            counters: PortCounters::default(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Devices {
    all: Vec<Device>,
    /// `None`: nobody has said, and the tables alone decide.
    homes: Option<Homes>,
}

impl Devices {
    pub(crate) fn new(limit: u32) -> Self {
        Self {
            all: vec![Device::default(); limit as usize],
            homes: None,
        }
    }

    pub(crate) fn limit(&self) -> u32 {
        self.all.len() as u32
    }

    #[inline]
    pub(crate) fn role(&self, port: u32) -> Role {
        self.all.get(port as usize).map_or(Role::None, |d| d.role)
    }

    pub(crate) fn counters(&self, port: u32) -> Option<&PortCounters> {
        self.all.get(port as usize).map(|d| &d.counters)
    }

    pub(crate) fn counters_mut(&mut self, port: u32) -> Option<&mut PortCounters> {
        self.all.get_mut(port as usize).map(|d| &mut d.counters)
    }

    pub(crate) fn set_mtu(&mut self, port: u32, mtu: u16) {
        if let Some(d) = self.all.get_mut(port as usize) {
            d.mtu = mtu;
        }
    }

    /// Bytes of an IP packet that a device can send.
    #[inline]
    pub(crate) fn mtu(&self, port: u32) -> u16 {
        self.all.get(port as usize).map_or(u16::MAX, |d| d.mtu)
    }

    /// Answers what was said before.
    pub(crate) fn set_homes(&mut self, homes: Homes) -> Option<Homes> {
        self.homes.replace(homes)
    }

    /// Whether `port` is behind this device port, with this tag, as far as is known.
    #[inline]
    pub(crate) fn is_home(&self, device_port: u32, vlan: u16, port: PortId) -> bool {
        self.homes
            .as_ref()
            .is_none_or(|homes| homes.has(device_port, vlan, port))
    }

    pub(crate) fn set_uplink(&mut self, port: u32, nic: usize) {
        if let Some(d) = self.all.get_mut(port as usize) {
            d.role = Role::Uplink { nic };
        }
    }

    /// One more VLAN of a local port.
    pub(crate) fn bind(&mut self, port: u32, nic: usize) {
        if let Some(d) = self.all.get_mut(port as usize) {
            let vports = match d.role {
                Role::Local { vports, .. } => vports,
                _ => 0,
            };
            d.role = Role::Local {
                nic,
                vports: vports + 1,
            };
        }
    }

    /// One VLAN less.
    pub(crate) fn unbind(&mut self, port: u32) {
        if let Some(d) = self.all.get_mut(port as usize)
            && let Role::Local { nic, vports } = d.role
        {
            d.role = match vports {
                0 | 1 => Role::None,
                n => Role::Local { nic, vports: n - 1 },
            };
        }
    }
}
