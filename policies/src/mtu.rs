//! Where a subnet's MTU and the overlay's headers do not fit the underlay.
//!
//! That is no fault of a document: it works, but not as declared. Packets that are
//! too large are answered by the worker as their sender's gateway, and whoever
//! learns from that sends smaller ones.

use std::collections::BTreeSet;
use std::fmt;

use crate::model::{Model, NodeName, SubnetName};

/// A subnet and a NIC that has a port of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Narrow {
    /// The subnet.
    pub subnet: SubnetName,
    /// The NIC's node.
    pub node: NodeName,
    /// Which of the node's.
    pub device_id: u32,
    /// The subnet's MTU.
    pub mtu: u16,
    /// Bytes of the overlay's headers.
    pub overhead: u16,
    /// The underlay's MTU at that NIC.
    pub underlay_mtu: u16,
}

impl fmt::Display for Narrow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = self.underlay_mtu.saturating_sub(self.overhead);
        write!(
            f,
            "{} has mtu {}: {} + {} > underlay MTU {} of NIC {} of {}; packets above {most} bytes are \
             answered with \"fragmentation needed\" or \"packet too big\"",
            self.subnet,
            self.mtu,
            self.mtu,
            self.overhead,
            self.underlay_mtu,
            self.device_id,
            self.node,
        )
    }
}

/// All of them, in order.
#[must_use]
pub fn narrow(model: &Model) -> BTreeSet<Narrow> {
    model
        .ports
        .values()
        .filter_map(|port| {
            let nic = model.nodes.get(&port.node)?.nics.get(&port.nic)?;
            let subnet = model.subnets.get(&port.subnet)?;
            (subnet.mtu > nic.tenant_mtu()).then(|| Narrow {
                subnet: port.subnet.clone(),
                node: port.node.clone(),
                device_id: port.nic,
                mtu: subnet.mtu,
                overhead: nic.overhead(),
                underlay_mtu: nic.underlay_mtu,
            })
        })
        .collect()
}
