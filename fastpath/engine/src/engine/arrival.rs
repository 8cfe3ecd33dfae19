//! Where a packet came from: what the stages know beside its headers.

use penstock_flow::packet::Packet;
use penstock_flow::{Addr, Mac};
use penstock_rules::model::{PortId, Vni};

#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) now: u64,
    /// Index of the NIC.
    pub(super) nic: usize,
    pub(super) device_port: u32,
    /// The sending port's tag, for an answer.
    pub(super) vlan: u16,
    /// Out of a tunnel, not from a local port.
    pub(super) wire: bool,
    /// The sending port; 0: the wire.
    pub(super) ingress: PortId,
    pub(super) vni: Vni,
    /// The tunnel's far end.
    pub(super) src_vtep: Addr,
    /// ECN bits of the outer header.
    pub(super) outer_ecn: u8,
    /// Bytes of the tenant's frame.
    pub(super) bytes: usize,
}

impl Arrival {
    /// Sent to the gateway by a local port: this node is its router.
    pub(super) fn routed(&self, packet: &Packet) -> bool {
        !self.wire && packet.dst_mac == Mac::GATEWAY
    }
}
