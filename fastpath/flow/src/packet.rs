//! The parser of untrusted frames: total, without allocation, without panic.
//!
//! [`parse`] reads a frame that a port sent or that came out of a tunnel,
//! [`parse_outer`] one from the underlay. Each either describes the whole header
//! chain or says why the frame is dropped. The result borrows
//! nothing: it holds values and offsets from the frame's first byte.
//!
//! Verified here: every length against the frame, the IPv4 header checksum,
//! and, for neighbour discovery, hop limit and checksum (RFC 4861). Not
//! verified: TCP, UDP and ICMP checksums, which virtual interfaces leave to
//! hardware that is not there; see [`verify_l4_checksum`].
//!
//! Fragments are described, not put together: [`first_piece`] reads the transport
//! header that the first one carries.
//!
//! Refused although well-formed: more than one VLAN tag, source routing (the
//! address in the header is not the one that policy should judge), and
//! IPv4-mapped addresses in an IPv6 header (the two families would meet).

mod arp;
mod fragment;
mod icmp;
mod ipv4;
mod ipv6;
mod l4;
mod nd;
mod outer;
mod read;

use crate::checksum::Sum;
use crate::{Addr, DropReason, Mac, Tuple};

pub use arp::{Arp, ArpOp};
pub use fragment::{Fragment, first_piece};
pub use icmp::IcmpError;
pub use l4::{Dhcp, Tcp, tcp_flags};
pub(crate) use nd::solicited_node;
pub use nd::{Nd, NdKind};
pub use outer::{Outer, Tunnel, VXLAN_PORT, parse_outer};

use read::{be16, chunk};

/// Bytes of an Ethernet header without VLAN tag.
pub const ETHERNET_LEN: usize = 14;
/// Bytes that an 802.1Q tag adds to it.
pub const VLAN_TAG_LEN: usize = 4;
/// EtherType of an 802.1Q tag.
pub const ETHERTYPE_VLAN: u16 = 0x8100;
const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_ARP: u16 = 0x0806;
const ETHERTYPE_IPV6: u16 = 0x86dd;

/// One parsed Ethernet frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Ethernet source.
    pub src_mac: Mac,
    /// Ethernet destination.
    pub dst_mac: Mac,
    /// VLAN identifier; 0 for none and for a priority tag.
    pub vlan: u16,
    /// Offset of the ARP or IP header.
    pub l3: u16,
    /// What follows the Ethernet header.
    pub kind: Kind,
}

impl Packet {
    /// The IP part, if it is IP.
    #[must_use]
    pub const fn ip(&self) -> Option<&Ip> {
        match &self.kind {
            Kind::Ip(ip) => Some(ip),
            Kind::Arp(_) => None,
        }
    }
}

/// What an Ethernet frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// ARP for IPv4 over Ethernet.
    Arp(Arp),
    /// IPv4 or IPv6.
    Ip(Ip),
}

/// An IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip {
    /// IPv6, not IPv4.
    pub v6: bool,
    /// IPv4 options or IPv6 extension headers are present.
    pub options: bool,
    /// IPv4 "don't fragment"; always set for IPv6.
    pub dont_fragment: bool,
    /// Traffic class: DSCP and ECN.
    pub tos: u8,
    /// TTL or hop limit.
    pub ttl: u8,
    /// Offset of the transport header (for a later fragment: of its data).
    pub l4: u16,
    /// Offset of the first byte after the IP packet: Ethernet padding excluded.
    pub end: u16,
    /// The flow's key; ports 0 where the protocol or the fragment has none.
    pub tuple: Tuple,
    /// The transport.
    pub l4_kind: L4,
}

/// What an IP packet carries, as far as a decision depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum L4 {
    /// TCP.
    Tcp(Tcp),
    /// UDP other than below.
    Udp,
    /// DHCP, by its ports; [`crate::dhcp`] reads what a client says.
    Dhcp(Dhcp),
    /// ICMP or ICMPv6 echo request or reply with code 0.
    Echo,
    /// An ICMP or ICMPv6 error message with the packet it is about.
    IcmpError(IcmpError),
    /// IPv6 neighbour discovery, valid by RFC 4861.
    Neighbour(Nd),
    /// A fragment of anything. An IPv6 "atomic" fragment is not one.
    Fragment(Fragment),
    /// Any other protocol, or ICMP message.
    Other,
}

/// Parses a frame that a local port sent.
///
/// # Errors
/// The reason to drop the frame.
#[inline]
pub fn parse(frame: &[u8]) -> Result<Packet, DropReason> {
    let ether = ethernet(frame)?;
    let kind = match ether.ethertype {
        ETHERTYPE_IPV4 => Kind::Ip(ipv4::parse(frame, ether.l3)?),
        ETHERTYPE_IPV6 => Kind::Ip(ipv6::parse(frame, ether.l3)?),
        ETHERTYPE_ARP => Kind::Arp(arp::parse(frame, ether.l3)?),
        _ => return Err(DropReason::UnknownEthertype),
    };
    Ok(Packet {
        src_mac: ether.src,
        dst_mac: ether.dst,
        vlan: ether.vlan,
        l3: ether.l3 as u16,
        kind,
    })
}

/// Whether the TCP, UDP, ICMP or ICMPv6 checksum of a whole packet is right.
///
/// True for protocols without one and for UDP over IPv4 without checksum; false
/// for fragments, whose checksum cannot be known, and if `ip` does not describe
/// `frame`.
#[must_use]
pub fn verify_l4_checksum(frame: &[u8], ip: &Ip) -> bool {
    use crate::tuple::proto;
    if matches!(ip.l4_kind, L4::Fragment(_)) {
        return false;
    }
    let Some(mut data) = frame.get(usize::from(ip.l4)..usize::from(ip.end)) else {
        return false;
    };
    let proto = ip.tuple.proto;
    match proto {
        proto::TCP | proto::ICMPV6 => {}
        proto::ICMP => return Sum::default().bytes(data).finish() == 0,
        proto::UDP => {
            let (Ok(len), Ok(sum)) = (be16(data, 4), be16(data, 6)) else {
                return false;
            };
            if sum == 0 {
                return !ip.v6;
            }
            match data.get(..usize::from(len)) {
                Some(datagram) => data = datagram,
                None => return false,
            }
        }
        _ => return true,
    }
    let (src, dst) = (ip.tuple.src, ip.tuple.dst);
    let sum = Sum::default().pseudo(src, dst, proto, data.len() as u16);
    sum.bytes(data).finish() == 0
}

/// The Ethernet header and its VLAN tag.
struct Ethernet {
    src: Mac,
    dst: Mac,
    vlan: u16,
    ethertype: u16,
    l3: usize,
}

#[inline]
fn ethernet(frame: &[u8]) -> Result<Ethernet, DropReason> {
    // Offsets are 16 bits wide; no link here carries more.
    if frame.len() > usize::from(u16::MAX) {
        return Err(DropReason::Oversized);
    }
    let header: &[u8; ETHERNET_LEN] = chunk(frame, 0)?;
    let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1] = *header;
    let src = Mac([s0, s1, s2, s3, s4, s5]);
    let dst = Mac([d0, d1, d2, d3, d4, d5]);
    if src.is_multicast() {
        return Err(DropReason::Malformed);
    }
    let (mut vlan, mut ethertype, mut l3) = (0, u16::from_be_bytes([t0, t1]), ETHERNET_LEN);
    if ethertype == ETHERTYPE_VLAN {
        let [c0, c1, t0, t1] = *chunk(frame, ETHERNET_LEN)?;
        vlan = u16::from_be_bytes([c0, c1]) & 0xfff;
        if vlan == 0xfff {
            return Err(DropReason::Malformed);
        }
        // A second tag is an EtherType that nobody below takes.
        ethertype = u16::from_be_bytes([t0, t1]);
        l3 += 4;
    }
    Ok(Ethernet {
        src,
        dst,
        vlan,
        ethertype,
        l3,
    })
}

/// What the IP parsers hand to the transport parser. `l4 <= end <= frame.len()`.
struct IpHeader {
    v6: bool,
    options: bool,
    dont_fragment: bool,
    tos: u8,
    ttl: u8,
    proto: u8,
    src: Addr,
    dst: Addr,
    l4: usize,
    end: usize,
    /// Counts only if `fragmented`. Not an `Option`: written in pieces and read
    /// as a whole, it would stall the hot path on a store.
    fragment: Fragment,
    fragmented: bool,
}
