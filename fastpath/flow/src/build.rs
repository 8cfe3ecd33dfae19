//! Writers of packets, in place or into a caller's buffer, without allocation.
//!
//! All answer with the resulting frame's length and write nothing if they fail.

mod arp;
mod icmp;
mod nd;
mod reset;
mod vxlan;

use crate::checksum;
use crate::packet::{Ip, Packet};
use crate::{DropReason, Mac};

pub use arp::{arp_reply, arp_request};
pub use icmp::{IcmpErrorKind, icmp_error};
pub use nd::{NaFlags, neighbour_advertisement, neighbour_solicitation, unsolicited_advertisement};
pub use reset::tcp_reset;
pub use vxlan::{Encap, Template, VXLAN_V4_OVERHEAD, VXLAN_V6_OVERHEAD};

/// Why a packet was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// The caller's buffer is too small.
    #[error("the buffer has {have} bytes, the packet needs {need}")]
    NoRoom {
        /// Bytes needed.
        need: usize,
        /// Bytes given.
        have: usize,
    },
    /// The packet is not one that this writer answers, or does not describe the
    /// buffer.
    #[error("the packet is not one that can be answered like this")]
    WrongPacket,
    /// Addresses of both families were given for one packet.
    #[error("the addresses belong to different families")]
    MixedFamilies,
}

/// Overwrites both Ethernet addresses; false if the frame is too short.
#[inline]
pub fn set_macs(frame: &mut [u8], dst: Mac, src: Mac) -> bool {
    let Some(macs) = frame.first_chunk_mut::<12>() else {
        return false;
    };
    macs[..6].copy_from_slice(&dst.0);
    macs[6..].copy_from_slice(&src.0);
    true
}

/// Decrements TTL or hop limit, with IPv4's checksum (RFC 1624).
///
/// # Errors
/// [`DropReason::TtlExceeded`] if it would reach 0, with the frame untouched;
/// [`DropReason::Truncated`] if `packet` does not describe the frame.
#[inline]
pub fn decrement_ttl(frame: &mut [u8], packet: &Packet) -> Result<(), DropReason> {
    let header = frame
        .get_mut(usize::from(packet.l3)..)
        .ok_or(DropReason::Truncated)?;
    match packet.ip() {
        Some(Ip { v6: false, .. }) => {
            let header = header
                .first_chunk_mut::<20>()
                .ok_or(DropReason::Truncated)?;
            let old = u16::from_be_bytes([header[8], header[9]]);
            if header[8] <= 1 {
                return Err(DropReason::TtlExceeded);
            }
            header[8] -= 1;
            let sum = u16::from_be_bytes([header[10], header[11]]);
            let sum = checksum::update(sum, old, old - 0x100);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            Ok(())
        }
        Some(Ip { v6: true, .. }) => match header.get_mut(7) {
            Some(0 | 1) => Err(DropReason::TtlExceeded),
            Some(hops) => {
                *hops -= 1;
                Ok(())
            }
            None => Err(DropReason::Truncated),
        },
        None => Err(DropReason::Truncated),
    }
}

/// The first `need` bytes of a buffer.
fn room(buffer: &mut [u8], need: usize) -> Result<&mut [u8], BuildError> {
    let have = buffer.len();
    buffer
        .get_mut(..need)
        .ok_or(BuildError::NoRoom { need, have })
}

/// Writes fields one after the other into a buffer that was sized before.
struct Writer<'a>(&'a mut [u8]);

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) -> &mut Self {
        let n = bytes.len().min(self.0.len());
        let (head, tail) = core::mem::take(&mut self.0).split_at_mut(n);
        head.copy_from_slice(&bytes[..n]);
        self.0 = tail;
        self
    }

    fn ethernet(&mut self, dst: Mac, src: Mac, ethertype: u16) -> &mut Self {
        self.put(&dst.0).put(&src.0).put(&ethertype.to_be_bytes())
    }
}

/// Writes `value` at `at`, where the caller has made sure of room.
fn put_at(buffer: &mut [u8], at: usize, value: &[u8]) {
    if let Some(to) = buffer.get_mut(at..at + value.len()) {
        to.copy_from_slice(value);
    }
}
