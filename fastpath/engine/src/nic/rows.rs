//! Rows as the tables keep them: with what the engine adds.

use core::hash::{Hash, Hasher};

use penstock_flow::build::{Encap, Template};
use penstock_flow::{Addr, Mac};
use penstock_rules::model::PortId;

use super::exact::NONE;
use super::{Entry, Hop};

/// TTL of what the node itself puts on the underlay.
const OUTER_TTL: u8 = 64;

/// A next hop, with what the engine adds to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nexthop {
    pub(crate) hop: Hop,
    /// The neighbour whose MAC it uses; `NONE`: its own fields have it all.
    pub(crate) neighbour: u32,
    /// The outer headers, where it is a tunnel.
    pub(crate) outer: Option<Template>,
    /// What the way has said it carries, and until when that is believed.
    pub(crate) path: Option<PathMtu>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PathMtu {
    /// Bytes of the inner IP packet.
    pub(crate) mtu: u16,
    pub(crate) until: u64,
}

impl Nexthop {
    pub(super) fn new(hop: Hop) -> Self {
        let outer = match hop {
            Hop::ToVtep {
                src_vtep,
                dst_vtep,
                src_mac,
                dst_mac,
                vni,
                ..
            } => Template::new(&Encap {
                src_mac,
                dst_mac,
                src: src_vtep,
                dst: dst_vtep,
                vni,
                ttl: OUTER_TTL,
            })
            .ok(),
            Hop::ToPort { .. } | Hop::ToFrontEnd { .. } => None,
        };
        Self {
            hop,
            neighbour: NONE,
            outer,
            path: None,
        }
    }
}

/// What a `spoof_guard` entry matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    port_id: PortId,
    mac: Mac,
    ip: Addr,
}

impl Source {
    pub(crate) fn new(port_id: PortId, mac: Mac, ip: Addr) -> Self {
        Self { port_id, mac, ip }
    }

    pub(super) fn entry(&self) -> Entry {
        let Self { port_id, mac, ip } = *self;
        Entry::SpoofGuard { port_id, mac, ip }
    }
}

impl Hash for Source {
    /// Whole words: it is on every packet's way.
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [a, b, c, d, e, f] = self.mac.0;
        state.write_u64(u64::from_be_bytes([0, 0, a, b, c, d, e, f]));
        state.write_u64(u64::from(self.port_id));
        state.write_u128(self.ip.0);
    }
}
