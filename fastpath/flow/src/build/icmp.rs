//! ICMP (RFC 792, RFC 1812) and ICMPv6 (RFC 4443) errors.

use super::{BuildError, Writer, put_at, room};
use crate::checksum::Sum;
use crate::packet::{ETHERNET_LEN, Ip, L4, Packet};
use crate::tuple::proto;
use crate::{Addr, Mac};

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpErrorKind {
    /// TTL or hop limit exceeded in transit.
    TimeExceeded,
    /// "Fragmentation needed", or "packet too big".
    TooBig {
        /// What would have passed, in bytes of IP.
        mtu: u16,
    },
    /// "Administratively prohibited": policy rejects, rather than drops.
    Prohibited,
}

/// An IPv4 error is at most 576 bytes of IP (RFC 1812, section 4.3.2.3), an
/// ICMPv6 error 1280 (RFC 4443, section 2.4).
const MAX_V4: usize = 576;
const MAX_V6: usize = 1280;

/// Writes the error about `frame`, which `packet` describes, into `out`: from
/// `gateway` at `gateway_mac` to the packet's sender. The result is untagged;
/// its length is returned and never exceeds 1294.
///
/// # Errors
/// [`BuildError::WrongPacket`] for a packet that must not be answered: ICMP
/// errors, later fragments, neighbour discovery, multicast or broadcast, no
/// single sender. [`BuildError::NoRoom`] if `out` is too small;
/// [`BuildError::MixedFamilies`] if `gateway` is of the other family.
pub fn icmp_error(
    out: &mut [u8],
    frame: &[u8],
    packet: &Packet,
    kind: IcmpErrorKind,
    gateway: Addr,
    gateway_mac: Mac,
) -> Result<usize, BuildError> {
    let ip = packet.ip().ok_or(BuildError::WrongPacket)?;
    if gateway.is_v4() == ip.v6 {
        return Err(BuildError::MixedFamilies);
    }
    if !may_be_answered(packet, ip) {
        return Err(BuildError::WrongPacket);
    }
    let quoted = frame
        .get(usize::from(packet.l3)..usize::from(ip.end))
        .ok_or(BuildError::WrongPacket)?;
    let (ip_header, max) = if ip.v6 { (40, MAX_V6) } else { (20, MAX_V4) };
    let quoted = &quoted[..quoted.len().min(max - ip_header - 8)];
    let message_len = 8 + quoted.len();
    let total = ip_header + message_len;
    let out = room(out, ETHERNET_LEN + total)?;

    let sender = ip.tuple.src;
    let (icmp_type, code, mtu) = type_code_mtu(ip.v6, kind);
    let mut writer = Writer(out);
    if let (Some(from), Some(to)) = (gateway.v4_octets(), sender.v4_octets()) {
        let [l0, l1] = (total as u16).to_be_bytes();
        // Precedence 6, internetwork control (RFC 1812, section 4.3.2.5).
        let mut header = [0x45, 0xc0, l0, l1, 0, 0, 0x40, 0, 64, proto::ICMP, 0, 0];
        let sum = Sum::default().bytes(&header).bytes(&from).bytes(&to);
        header[10..].copy_from_slice(&sum.finish().to_be_bytes());
        writer
            .ethernet(packet.src_mac, gateway_mac, 0x0800)
            .put(&header)
            .put(&from)
            .put(&to);
    } else {
        let [l0, l1] = (message_len as u16).to_be_bytes();
        writer
            .ethernet(packet.src_mac, gateway_mac, 0x86dd)
            .put(&[0x60, 0, 0, 0, l0, l1, proto::ICMPV6, 64])
            .put(&gateway.octets())
            .put(&sender.octets());
    }
    writer
        .put(&[icmp_type, code, 0, 0])
        .put(&u32::from(mtu).to_be_bytes())
        .put(quoted);

    let message = &mut out[ETHERNET_LEN + ip_header..];
    let mut sum = Sum::default();
    if ip.v6 {
        sum = sum.pseudo(gateway, sender, proto::ICMPV6, message_len as u16);
    }
    let sum = sum.bytes(message).finish();
    put_at(message, 2, &sum.to_be_bytes());
    Ok(ETHERNET_LEN + total)
}

const fn type_code_mtu(v6: bool, kind: IcmpErrorKind) -> (u8, u8, u16) {
    match (v6, kind) {
        (false, IcmpErrorKind::TimeExceeded) => (11, 0, 0),
        (false, IcmpErrorKind::TooBig { mtu }) => (3, 4, mtu),
        (false, IcmpErrorKind::Prohibited) => (3, 13, 0),
        (true, IcmpErrorKind::TimeExceeded) => (3, 0, 0),
        (true, IcmpErrorKind::TooBig { mtu }) => (2, 0, mtu),
        (true, IcmpErrorKind::Prohibited) => (1, 1, 0),
    }
}

/// RFC 1122, section 3.2.2; RFC 4443, section 2.4(e).
fn may_be_answered(packet: &Packet, ip: &Ip) -> bool {
    let sender = ip.tuple.src;
    let no_single_sender = sender == Addr(0)
        || sender == Addr::from_v4([0; 4])
        || sender == Addr::from_v4([255; 4])
        || sender.is_multicast();
    let to_many = packet.dst_mac.is_multicast()
        || ip.tuple.dst.is_multicast()
        || ip.tuple.dst == Addr::from_v4([255; 4]);
    let never = match ip.l4_kind {
        L4::IcmpError(_) | L4::Neighbour(_) => true,
        L4::Fragment(fragment) => fragment.offset != 0,
        _ => false,
    };
    !(no_single_sender || to_many || never)
}
