//! ARP (RFC 826).

use super::{BuildError, Writer, put_at, room, set_macs};
use crate::packet::{ArpOp, ETHERNET_LEN, Kind, Packet};
use crate::{Addr, Mac};

const ARP_LEN: usize = 28;

/// Turns the ARP request in `frame`, which `request` describes, into the reply
/// that its target is at `owner`. Returns the frame's length without padding; a
/// VLAN tag stays.
///
/// # Errors
/// [`BuildError::WrongPacket`] if it is not a request.
pub fn arp_reply(frame: &mut [u8], request: &Packet, owner: Mac) -> Result<usize, BuildError> {
    let Kind::Arp(arp) = request.kind else {
        return Err(BuildError::WrongPacket);
    };
    let (at, Some(target)) = (usize::from(request.l3), arp.target_ip.v4_octets()) else {
        return Err(BuildError::WrongPacket);
    };
    let frame = room(frame, at + ARP_LEN)?;
    if arp.op != ArpOp::Request {
        return Err(BuildError::WrongPacket);
    }
    set_macs(frame, request.src_mac, owner);
    put_at(frame, at + 6, &[0, 2]);
    put_at(frame, at + 8, &owner.0);
    put_at(frame, at + 14, &target);
    put_at(frame, at + 18, &arp.sender_mac.0);
    // A probe (sender 0.0.0.0) gets it back as it came (RFC 5227).
    put_at(
        frame,
        at + 24,
        &arp.sender_ip.v4_octets().unwrap_or_default(),
    );
    Ok(at + ARP_LEN)
}

/// Writes an ARP request for `target` into `out`, to everyone or, to refresh a
/// known neighbour, to `to`. With `sender` for target it is an announcement.
/// Returns the length, 42.
///
/// # Errors
/// [`BuildError`] if `out` is too small or an address is not IPv4.
pub fn arp_request(
    out: &mut [u8],
    from: Mac,
    sender: Addr,
    target: Addr,
    to: Option<Mac>,
) -> Result<usize, BuildError> {
    let (Some(sender), Some(target)) = (sender.v4_octets(), target.v4_octets()) else {
        return Err(BuildError::MixedFamilies);
    };
    let out = room(out, ETHERNET_LEN + ARP_LEN)?;
    Writer(out)
        .ethernet(to.unwrap_or(Mac::BROADCAST), from, 0x0806)
        .put(&[0, 1, 8, 0, 6, 4, 0, 1])
        .put(&from.0)
        .put(&sender)
        .put(&[0; 6])
        .put(&target);
    Ok(ETHERNET_LEN + ARP_LEN)
}
