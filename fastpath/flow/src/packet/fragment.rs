//! Pieces of a packet that was too large for its way.

use super::{Ip, L4, l4};
use crate::tuple::proto;
use crate::{DropReason, Tuple};

/// Which part of a fragmented packet this is. Not empty, a multiple of eight bytes
/// unless it is the last, and within what an IP packet can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Fragment identification, the same in all parts.
    pub id: u32,
    /// Offset in bytes; 0 in the first, whose ports are in the tuple.
    pub offset: u16,
    /// Bytes of it.
    pub len: u16,
    /// More fragments follow.
    pub more: bool,
}

impl Fragment {
    /// A whole packet.
    pub(super) const NONE: Self = Self {
        id: 0,
        offset: 0,
        len: 0,
        more: false,
    };

    /// Whether it keeps what its type promises; `before`: bytes of the whole packet
    /// that its length field counts and that stand before its data.
    #[inline]
    pub(super) const fn is_sound(&self, before: usize) -> bool {
        let end = before + self.offset as usize + self.len as usize;
        let whole = !self.more || self.len.is_multiple_of(8);
        whole && self.len > 0 && end <= u16::MAX as usize
    }
}

/// The packet that begins with the first piece `ip`, as far as it is known: its
/// transport, its ports, and only the data that is in this piece.
///
/// # Errors
/// [`DropReason::Fragment`] where the piece ends before its transport header does
/// (RFC 1858), and for what nobody sends in pieces: ICMP errors, neighbour discovery
/// (RFC 6980), DHCP; also if `ip` is not the first piece that `frame` carries.
pub fn first_piece(frame: &[u8], ip: &Ip) -> Result<Ip, DropReason> {
    let data = match ip.l4_kind {
        L4::Fragment(Fragment { offset: 0, .. }) => {
            frame.get(usize::from(ip.l4)..usize::from(ip.end))
        }
        _ => None,
    };
    let (sport, dport, l4_kind) = data
        .and_then(|data| transport(ip.v6, ip.tuple.proto, data))
        .ok_or(DropReason::Fragment)?;
    Ok(Ip {
        tuple: Tuple {
            sport,
            dport,
            ..ip.tuple
        },
        l4_kind,
        ..*ip
    })
}

fn transport(v6: bool, protocol: u8, data: &[u8]) -> Option<(u16, u16, L4)> {
    let need = match protocol {
        // With its options, which `tcp` measures.
        proto::TCP => {
            let (sport, dport, tcp) = l4::tcp(data).ok()?;
            return Some((sport, dport, L4::Tcp(tcp)));
        }
        proto::UDP => 8,
        proto::SCTP => l4::SCTP_LEN,
        proto::ICMP | proto::ICMPV6 if v6 == (protocol == proto::ICMPV6) => 8,
        proto::ICMP | proto::ICMPV6 => return None,
        _ => return Some((0, 0, L4::Other)),
    };
    if data.len() < need {
        return None;
    }
    let (sport, dport) = l4::ports(protocol, data)?;
    let kind = match (protocol, dport >> 8) {
        (proto::UDP, _) => match (v6, sport, dport) {
            (false, 68, 67) | (true, 546, 547) | (false, _, 68) | (true, _, 546) => return None,
            _ => L4::Udp,
        },
        (proto::ICMP, 3 | 4 | 11 | 12) | (proto::ICMPV6, 1..=4 | 133..=137) => return None,
        (proto::ICMP | proto::ICMPV6, _) if super::icmp::is_echo(protocol, dport) => L4::Echo,
        _ => L4::Other,
    };
    Some((sport, dport, kind))
}
