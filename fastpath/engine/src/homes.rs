//! Which port is behind which interface, as policy and the host say.
//!
//! A NIC's `vport` table says it, too, but only by number, and its writer may have
//! another numbering in mind: one of before a restart, or of before a change whose
//! table entries are still to come. A device port's traffic is its port's only where both agree.

use alloc::vec;
use alloc::vec::Vec;

use penstock_rules::model::PortId;

/// The ports that are where they should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Homes(Vec<Vec<(u16, PortId)>>);

impl Homes {
    /// From (device port, VLAN, port); device ports are below `limit`, others are left out.
    pub fn new(limit: u32, ports: impl IntoIterator<Item = (u32, u16, PortId)>) -> Self {
        let mut homes = vec![Vec::new(); limit as usize];
        for (device_port, vlan, port) in ports {
            if let Some(home) = homes.get_mut(device_port as usize) {
                home.push((vlan, port));
            }
        }
        Self(homes)
    }

    /// Whether `port` is behind this device port, with this tag.
    #[inline]
    pub(crate) fn has(&self, device_port: u32, vlan: u16, port: PortId) -> bool {
        self.0
            .get(device_port as usize)
            .is_some_and(|home| home.contains(&(vlan, port)))
    }
}
