//! Regions as fence entries.
//!
//! A region names the port whose judgement has changed, and the other end. Both
//! directions of its connections have to be asked about, since the NIC answers
//! for both: what the port sends is known by the port, and what it is sent by
//! its addresses.

use penstock_flow::{Addr, Prefix};
use penstock_rules::Region;
use penstock_rules::model::Vni;

use crate::nic::{FenceKey, Ternary};

/// Addresses of one port that get fences of their own; with more, the VPC is
/// fenced.
const ADDRESSES: usize = 8;

/// A port's addresses.
#[derive(Debug)]
pub(super) struct Addresses {
    known: [Addr; ADDRESSES],
    len: usize,
}

/// A region's fences; none where it takes a wider one.
#[derive(Debug)]
pub(super) struct Keys {
    keys: [FenceKey; ADDRESSES + 1],
    len: usize,
}

impl Addresses {
    pub(super) fn new() -> Self {
        Self {
            known: [Addr(0); ADDRESSES],
            len: 0,
        }
    }

    pub(super) fn push(&mut self, ip: Addr) {
        if self.get().contains(&ip) {
            return;
        }
        if let Some(place) = self.known.get_mut(self.len) {
            *place = ip;
        }
        self.len += 1;
    }

    fn get(&self) -> &[Addr] {
        self.known.get(..self.len).unwrap_or_default()
    }
}

impl Keys {
    fn none() -> Self {
        Self {
            keys: [FenceKey::default(); ADDRESSES + 1],
            len: 0,
        }
    }

    fn push(&mut self, key: FenceKey) {
        if let Some(place) = self.keys.get_mut(self.len) {
            *place = key;
            self.len += 1;
        }
    }

    pub(super) fn as_slice(&self) -> &[FenceKey] {
        self.keys.get(..self.len).unwrap_or_default()
    }
}

/// All of a VPC; `None`: everything.
pub(super) fn of_vpc(vni: Option<Vni>) -> FenceKey {
    FenceKey {
        vni: exactly(vni, 0xff_ffff),
        ..FenceKey::default()
    }
}

pub(super) fn of_region(region: &Region, addresses: &Addresses) -> Keys {
    let base = FenceKey {
        proto: exactly(region.protocol, 0xff),
        ..of_vpc(region.vni)
    };
    let peer = region.peer.map_or_else(Ternary::default, inside);
    let mut keys = Keys::none();
    let Some(port) = region.port else {
        keys.push(FenceKey { dst: peer, ..base });
        if region.peer.is_some() {
            keys.push(FenceKey { src: peer, ..base });
        }
        return keys;
    };
    if addresses.get().is_empty() {
        return keys;
    }
    keys.push(FenceKey {
        port_id: exactly(Some(port), u32::MAX),
        dst: peer,
        ..base
    });
    for ip in addresses.get() {
        keys.push(FenceKey {
            src: peer,
            dst: Ternary {
                value: ip.0,
                mask: u128::MAX,
            },
            ..base
        });
    }
    keys
}

fn exactly<T: Default>(value: Option<T>, mask: T) -> Ternary<T> {
    match value {
        Some(value) => Ternary { value, mask },
        None => Ternary::default(),
    }
}

fn inside(prefix: Prefix) -> Ternary<u128> {
    let host = u128::MAX.checked_shr(prefix.len().into()).unwrap_or(0);
    Ternary {
        value: prefix.addr().0,
        mask: !host,
    }
}
