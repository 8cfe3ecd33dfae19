//! IPv6 neighbour discovery (RFC 4861).

use super::{BuildError, Writer, put_at, room, set_macs};
use crate::checksum::Sum;
use crate::packet::{ETHERNET_LEN, Kind, L4, Nd, NdKind, Packet, solicited_node};
use crate::tuple::proto;
use crate::{Addr, Mac};

/// IPv6 header, message with target, one link-layer address option.
const IP_LEN: usize = 40;
const MESSAGE_LEN: usize = 24 + 8;
const ALL_NODES: Addr = Addr(0xff02_0000_0000_0000_0000_0000_0000_0001);
const SOURCE_LINK_LAYER: u8 = 1;
const TARGET_LINK_LAYER: u8 = 2;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;

/// What an advertisement says about itself besides "solicited".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NaFlags {
    /// The sender is a router.
    pub router: bool,
    /// Overrides a cached address.
    pub override_cached: bool,
}

impl NaFlags {
    const fn bits(self, solicited: bool) -> u8 {
        (self.router as u8) << 7 | (solicited as u8) << 6 | (self.override_cached as u8) << 5
    }
}

/// Turns the neighbour solicitation in `buffer`, which `request` describes,
/// into the advertisement that its target is at `owner`. Returns the frame's
/// length. A VLAN tag stays.
///
/// To `::` (duplicate address detection) the answer is not "solicited" and goes
/// to all nodes (RFC 4861, section 7.2.4).
///
/// # Errors
/// [`BuildError::WrongPacket`] if it is not a solicitation;
/// [`BuildError::NoRoom`] if `buffer` (which may be longer than the frame) has
/// not room for 86 bytes, or 90 with a VLAN tag.
pub fn neighbour_advertisement(
    buffer: &mut [u8],
    request: &Packet,
    owner: Mac,
    flags: NaFlags,
) -> Result<usize, BuildError> {
    let Kind::Ip(ip) = request.kind else {
        return Err(BuildError::WrongPacket);
    };
    let L4::Neighbour(Nd {
        kind: NdKind::NeighbourSolicitation,
        target,
        source_mac,
        ..
    }) = ip.l4_kind
    else {
        return Err(BuildError::WrongPacket);
    };
    let at = usize::from(request.l3);
    let frame = room(buffer, at + IP_LEN + MESSAGE_LEN)?;
    let asker = ip.tuple.src;
    let solicited = asker != Addr(0);
    let (dst, dst_mac) = if solicited {
        (asker, source_mac.unwrap_or(request.src_mac))
    } else {
        (ALL_NODES, multicast_mac(ALL_NODES))
    };
    set_macs(frame, dst_mac, owner);
    message(
        &mut frame[at..],
        (target, dst),
        (ADVERTISEMENT, flags.bits(solicited)),
        target,
        (TARGET_LINK_LAYER, owner),
    );
    Ok(at + IP_LEN + MESSAGE_LEN)
}

/// Writes a neighbour solicitation for `target` into `out`: to its
/// solicited-node address or, to refresh a known neighbour, to it at `to`.
/// Returns the length, 86.
///
/// # Errors
/// [`BuildError`] if `out` is too small or an address is not IPv6.
pub fn neighbour_solicitation(
    out: &mut [u8],
    from: Mac,
    sender: Addr,
    target: Addr,
    to: Option<Mac>,
) -> Result<usize, BuildError> {
    if sender.is_v4() || target.is_v4() {
        return Err(BuildError::MixedFamilies);
    }
    let (dst, dst_mac) = match to {
        Some(mac) => (target, mac),
        None => {
            let group = solicited_node(target);
            (group, multicast_mac(group))
        }
    };
    let frame = room(out, ETHERNET_LEN + IP_LEN + MESSAGE_LEN)?;
    Writer(frame).ethernet(dst_mac, from, 0x86dd);
    message(
        &mut frame[ETHERNET_LEN..],
        (sender, dst),
        (SOLICITATION, 0),
        target,
        (SOURCE_LINK_LAYER, from),
    );
    Ok(ETHERNET_LEN + IP_LEN + MESSAGE_LEN)
}

/// Writes an advertisement that nobody asked for: `addr` is at `owner` now.
/// Returns the length, 86.
///
/// # Errors
/// [`BuildError`] if `out` is too small or `addr` is not IPv6.
pub fn unsolicited_advertisement(
    out: &mut [u8],
    owner: Mac,
    addr: Addr,
    flags: NaFlags,
) -> Result<usize, BuildError> {
    if addr.is_v4() {
        return Err(BuildError::MixedFamilies);
    }
    let frame = room(out, ETHERNET_LEN + IP_LEN + MESSAGE_LEN)?;
    Writer(frame).ethernet(multicast_mac(ALL_NODES), owner, 0x86dd);
    message(
        &mut frame[ETHERNET_LEN..],
        (addr, ALL_NODES),
        (ADVERTISEMENT, flags.bits(false)),
        addr,
        (TARGET_LINK_LAYER, owner),
    );
    Ok(ETHERNET_LEN + IP_LEN + MESSAGE_LEN)
}

/// The Ethernet address of an IPv6 multicast group (RFC 2464, section 7).
const fn multicast_mac(group: Addr) -> Mac {
    let [.., a, b, c, d] = group.octets();
    Mac([0x33, 0x33, a, b, c, d])
}

/// IPv6 header and message; `packet` holds exactly both.
fn message(
    packet: &mut [u8],
    (src, dst): (Addr, Addr),
    (icmp_type, flags): (u8, u8),
    target: Addr,
    (option, mac): (u8, Mac),
) {
    Writer(packet)
        .put(&[0x60, 0, 0, 0, 0, MESSAGE_LEN as u8, proto::ICMPV6, 255])
        .put(&src.octets())
        .put(&dst.octets())
        .put(&[icmp_type, 0, 0, 0, flags, 0, 0, 0])
        .put(&target.octets())
        .put(&[option, 1])
        .put(&mac.0);
    let sum = Sum::default()
        .pseudo(src, dst, proto::ICMPV6, MESSAGE_LEN as u16)
        .bytes(packet.get(IP_LEN..).unwrap_or_default())
        .finish();
    put_at(packet, IP_LEN + 2, &sum.to_be_bytes());
}
