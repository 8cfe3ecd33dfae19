//! IPv6 neighbour discovery (RFC 4861), with the checks of sections 6.1, 7.1
//! and 8.1 that do not need to know the receiving node.

use super::IpHeader;
use super::read::chunk;
use crate::checksum::Sum;
use crate::tuple::proto;
use crate::{Addr, DropReason, Mac};

/// A valid neighbour discovery message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nd {
    /// Which of the five.
    pub kind: NdKind,
    /// Target of a solicitation, advertisement or redirect; `::` otherwise.
    pub target: Addr,
    /// R, S and O of a neighbour advertisement, as in the message's fifth byte
    /// (0x80, 0x40, 0x20); 0 otherwise.
    pub flags: u8,
    /// Source link-layer address option.
    pub source_mac: Option<Mac>,
    /// Target link-layer address option.
    pub target_mac: Option<Mac>,
}

/// The neighbour discovery message types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NdKind {
    /// Type 133.
    RouterSolicitation,
    /// Type 134.
    RouterAdvertisement,
    /// Type 135.
    NeighbourSolicitation,
    /// Type 136.
    NeighbourAdvertisement,
    /// Type 137.
    Redirect,
}

/// ff02::1:ff00:0/104
const SOLICITED_NODE: u128 = 0xff02_0000_0000_0000_0000_0001_ff00_0000;

/// The solicited-node multicast address of `target`.
pub(crate) const fn solicited_node(target: Addr) -> Addr {
    Addr(SOLICITED_NODE | target.0 & 0xff_ffff)
}

pub(super) fn parse(data: &[u8], ip: &IpHeader) -> Result<Nd, DropReason> {
    use NdKind::*;
    let [icmp_type, code, _, _, flags, ..]: [u8; 8] = *chunk(data, 0)?;
    let (kind, options_at) = match icmp_type {
        133 => (RouterSolicitation, 8),
        134 => (RouterAdvertisement, 16),
        135 => (NeighbourSolicitation, 24),
        136 => (NeighbourAdvertisement, 24),
        _ => (Redirect, 40),
    };
    // A hop limit of 255 shows that no router forwarded it.
    if code != 0 || ip.ttl != 255 {
        return Err(DropReason::Malformed);
    }
    let sum = Sum::default().pseudo(ip.src, ip.dst, proto::ICMPV6, data.len() as u16);
    if sum.bytes(data).finish() != 0 {
        return Err(DropReason::BadChecksum);
    }
    let target = match kind {
        NeighbourSolicitation | NeighbourAdvertisement | Redirect => {
            Addr::from_octets(*chunk(data, 8)?)
        }
        RouterSolicitation | RouterAdvertisement => Addr(0),
    };
    let options = data.get(options_at..).ok_or(DropReason::Truncated)?;
    let (source_mac, target_mac) = link_layer_options(options)?;
    let nd = Nd {
        kind,
        target,
        flags: match kind {
            NeighbourAdvertisement => flags & 0xe0,
            _ => 0,
        },
        source_mac,
        target_mac,
    };
    let unspecified = ip.src == Addr(0);
    let contradiction = match kind {
        RouterSolicitation => unspecified && source_mac.is_some(),
        NeighbourSolicitation => {
            target.is_multicast()
                || target.is_v4()
                || unspecified && (source_mac.is_some() || ip.dst != solicited_node(target))
        }
        NeighbourAdvertisement => {
            let solicited = nd.flags & 0x40 != 0;
            target.is_multicast() || target.is_v4() || ip.dst.is_multicast() && solicited
        }
        RouterAdvertisement | Redirect => !is_link_local(ip.src),
    };
    if contradiction {
        return Err(DropReason::Malformed);
    }
    Ok(nd)
}

const fn is_link_local(addr: Addr) -> bool {
    addr.0 >> 118 == 0xfe80 >> 6
}

/// Walks all options: each must have a length and fit. The last address wins.
fn link_layer_options(mut options: &[u8]) -> Result<(Option<Mac>, Option<Mac>), DropReason> {
    const SOURCE: u8 = 1;
    const TARGET: u8 = 2;
    let (mut source, mut target) = (None, None);
    while !options.is_empty() {
        let [kind, len] = *chunk(options, 0)?;
        if len == 0 {
            return Err(DropReason::Malformed);
        }
        let (option, rest) = options
            .split_at_checked(usize::from(len) * 8)
            .ok_or(DropReason::Truncated)?;
        match (kind, len) {
            (SOURCE, 1) => source = Some(Mac(*chunk(option, 2)?)),
            (TARGET, 1) => target = Some(Mac(*chunk(option, 2)?)),
            _ => {}
        }
        options = rest;
    }
    Ok((source, target))
}
