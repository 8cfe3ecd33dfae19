//! Frames from the underlay: VXLAN (RFC 7348) and what keeps it alive.

use super::read::chunk;
use super::{Kind, L4, Packet, parse};
use crate::{Addr, DropReason, Mac};

/// The UDP port of VXLAN.
pub const VXLAN_PORT: u16 = 4789;
const UDP_LEN: usize = 8;
const VXLAN_LEN: usize = 8;

/// What a frame from the underlay is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outer {
    /// A tunnelled frame.
    Vxlan(Tunnel),
    /// ARP, or valid IPv6 neighbour discovery.
    Neighbour(Packet),
    /// Anything else, for example an ICMP error about our own tunnel.
    Other(Packet),
}

impl Outer {
    /// The outer VLAN; 0 for none.
    #[must_use]
    pub const fn vlan(&self) -> u16 {
        match self {
            Self::Vxlan(tunnel) => tunnel.vlan,
            Self::Neighbour(packet) | Self::Other(packet) => packet.vlan,
        }
    }
}

/// An outer header chain that ends in VXLAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// Outer Ethernet source.
    pub src_mac: Mac,
    /// Outer Ethernet destination.
    pub dst_mac: Mac,
    /// Outer VLAN; 0 for none.
    pub vlan: u16,
    /// Outer traffic class, whose ECN bits belong to the inner packet (RFC 6040).
    pub tos: u8,
    /// The sender's hash of the inner flow.
    pub sport: u16,
    /// VXLAN network identifier, 24 bits.
    pub vni: u32,
    /// Outer source address.
    pub src_vtep: Addr,
    /// Outer destination address.
    pub dst_vtep: Addr,
    /// Offset of the inner Ethernet header.
    pub inner: u16,
    /// Offset of the first byte after the inner frame: outer padding excluded.
    pub end: u16,
}

/// Parses a frame from the underlay. The inner frame is not looked at:
/// [`super::parse`] does.
///
/// # Errors
/// The reason to drop the frame; [`DropReason::Fragment`] for a fragment, as a
/// tunnel's packets are never fragmented outside.
#[inline]
pub fn parse_outer(frame: &[u8]) -> Result<Outer, DropReason> {
    let packet = parse(frame)?;
    let Kind::Ip(ip) = packet.kind else {
        return Ok(Outer::Neighbour(packet));
    };
    match ip.l4_kind {
        L4::Udp if ip.tuple.dport == VXLAN_PORT => {}
        L4::Neighbour(_) => return Ok(Outer::Neighbour(packet)),
        L4::Fragment(_) => return Err(DropReason::Fragment),
        _ => return Ok(Outer::Other(packet)),
    }
    // What UDP's own length leaves out is padding.
    let udp = usize::from(ip.l4);
    let [_, _, _, _, len0, len1]: [u8; 6] = *chunk(frame, udp)?;
    let end = udp + usize::from(u16::from_be_bytes([len0, len1]));
    let datagram = frame.get(..end).ok_or(DropReason::Truncated)?;
    let [flags, _, _, _, v0, v1, v2, _]: [u8; VXLAN_LEN] = *chunk(datagram, udp + UDP_LEN)?;
    // Only the I bit has a meaning; the others are ignored on receipt.
    if flags & 0x08 == 0 {
        return Err(DropReason::Malformed);
    }
    Ok(Outer::Vxlan(Tunnel {
        src_mac: packet.src_mac,
        dst_mac: packet.dst_mac,
        vlan: packet.vlan,
        tos: ip.tos,
        sport: ip.tuple.sport,
        vni: u32::from_be_bytes([0, v0, v1, v2]),
        src_vtep: ip.tuple.src,
        dst_vtep: ip.tuple.dst,
        inner: (udp + UDP_LEN + VXLAN_LEN) as u16,
        end: end as u16,
    }))
}
