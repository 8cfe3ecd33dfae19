//! ICMP (RFC 792) and ICMPv6 (RFC 4443).

use super::read::{be16, be32};
use super::{IpHeader, L4, ipv4, ipv6, l4, nd};
use crate::tuple::proto;
use crate::{DropReason, Tuple};

/// An error about a packet that was sent earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpError {
    /// The tuple of the packet inside, literally: its source is, as a rule,
    /// the destination of the error. Ports 0 if a later fragment is quoted.
    pub inner: Tuple,
    /// The MTU of "fragmentation needed" or "packet too big"; 0 otherwise, and
    /// from routers older than RFC 1191.
    pub mtu: u32,
}

/// Whether `dport` (type and code) is an echo request or reply.
pub(super) const fn is_echo(protocol: u8, dport: u16) -> bool {
    match protocol {
        proto::ICMP => matches!(dport, 0x0800 | 0x0000),
        proto::ICMPV6 => matches!(dport, 0x8000 | 0x8100),
        _ => false,
    }
}

pub(super) fn parse(data: &[u8], header: &IpHeader, type_code: u16) -> Result<L4, DropReason> {
    if is_echo(header.proto, type_code) {
        // Identifier and sequence number are part of the message.
        return be32(data, 4).map(|_| L4::Echo);
    }
    let kind = (type_code >> 8) as u8;
    match (header.v6, kind) {
        // Unreachable, source quench, time exceeded, parameter problem. A
        // redirect would change routes: it is never related to a connection.
        (false, 3 | 4 | 11 | 12) => {
            let inner = quoted(data, ipv4::parse_quoted)?;
            let mtu = match type_code {
                0x0304 => u32::from(be16(data, 6)?),
                _ => 0,
            };
            Ok(L4::IcmpError(IcmpError { inner, mtu }))
        }
        // Unreachable, too big, time exceeded, parameter problem.
        (true, 1..=4) => {
            let inner = quoted(data, ipv6::parse_quoted)?;
            let mtu = if kind == 2 { be32(data, 4)? } else { 0 };
            Ok(L4::IcmpError(IcmpError { inner, mtu }))
        }
        (true, 133..=137) => nd::parse(data, header).map(L4::Neighbour),
        _ => Ok(L4::Other),
    }
}

/// The tuple of the packet that an error quotes. RFC 792 guarantees eight bytes
/// of its transport: enough for the ports.
fn quoted(
    message: &[u8],
    parse: impl Fn(&[u8]) -> Result<IpHeader, DropReason>,
) -> Result<Tuple, DropReason> {
    let data = message.get(8..).ok_or(DropReason::Truncated)?;
    let header = parse(data)?;
    let transport = data.get(header.l4..header.end).unwrap_or_default();
    let ports = l4::ports(header.proto, transport);
    let (sport, dport) = match (header.fragmented, header.fragment.offset) {
        (false, _) => ports.ok_or(DropReason::Truncated)?,
        // As for a fragment itself: a short first one has no ports either.
        (true, 0) => ports.unwrap_or_default(),
        (true, _) => (0, 0),
    };
    Ok(Tuple {
        src: header.src,
        dst: header.dst,
        proto: header.proto,
        sport,
        dport,
    })
}
