//! TCP, UDP and the choice among transports.

use super::read::chunk;
use super::{Ip, IpHeader, L4, icmp};
use crate::tuple::proto;
use crate::{DropReason, Tuple};

const TCP_LEN: usize = 20;
pub(super) const SCTP_LEN: usize = 12;

/// TCP header flags.
pub mod tcp_flags {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Synchronise sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Reset the connection.
    pub const RST: u8 = 0x04;
    /// Push.
    pub const PSH: u8 = 0x08;
    /// The acknowledgement number counts.
    pub const ACK: u8 = 0x10;
}

/// What connection tracking needs of a TCP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// The low eight flag bits; see [`tcp_flags`].
    pub flags: u8,
    /// Window scale option of a SYN (RFC 7323), at most 14; `None` otherwise.
    pub wscale: Option<u8>,
    /// Sequence number of the first payload byte, or of the SYN.
    pub seq: u32,
    /// Acknowledgement number; meaningless without ACK.
    pub ack: u32,
    /// Advertised window, unscaled.
    pub window: u16,
    /// Bytes after the header.
    pub payload_len: u16,
}

/// Who says it, by its ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dhcp {
    /// From port 68 to port 67.
    V4,
    /// From port 546 to port 547.
    V6,
    /// To a client's port, 68 or 546: only a server speaks to it.
    Server,
}

// Fields stay scalars until the result is put together once: a struct that is
// written in pieces and copied as a whole costs a stalled store per copy.
#[inline(always)]
pub(super) fn parse(frame: &[u8], header: IpHeader) -> Result<Ip, DropReason> {
    let data = frame
        .get(header.l4..header.end)
        .ok_or(DropReason::Truncated)?;
    let (sport, dport, l4_kind) = if header.fragmented {
        let first = header.fragment.offset == 0;
        let ports = ports(header.proto, data).filter(|_| first);
        let (sport, dport) = ports.unwrap_or_default();
        (sport, dport, L4::Fragment(header.fragment))
    } else {
        match header.proto {
            proto::TCP => {
                let (sport, dport, tcp) = tcp(data)?;
                (sport, dport, L4::Tcp(tcp))
            }
            proto::UDP => {
                let [s0, s1, d0, d1, len0, len1, _, _]: [u8; 8] = *chunk(data, 0)?;
                let len = usize::from(be(len0, len1));
                if len < 8 {
                    return Err(DropReason::Malformed);
                }
                if len > data.len() {
                    return Err(DropReason::Truncated);
                }
                let (sport, dport) = (be(s0, s1), be(d0, d1));
                let kind = match (header.v6, sport, dport) {
                    (false, 68, 67) => L4::Dhcp(Dhcp::V4),
                    (true, 546, 547) => L4::Dhcp(Dhcp::V6),
                    (false, _, 68) | (true, _, 546) => L4::Dhcp(Dhcp::Server),
                    _ => L4::Udp,
                };
                (sport, dport, kind)
            }
            proto::SCTP => {
                let [s0, s1, d0, d1, ..]: [u8; SCTP_LEN] = *chunk(data, 0)?;
                (be(s0, s1), be(d0, d1), L4::Other)
            }
            // Each of the two lives in its own family only.
            proto::ICMP if header.v6 => return Err(DropReason::UnknownProtocol),
            proto::ICMPV6 if !header.v6 => return Err(DropReason::UnknownProtocol),
            proto::ICMP | proto::ICMPV6 => {
                let _type_code_checksum: &[u8; 4] = chunk(data, 0)?;
                let ports = ports(header.proto, data);
                let (id, type_code) = ports.ok_or(DropReason::Truncated)?;
                (id, type_code, icmp::parse(data, &header, type_code)?)
            }
            _ => (0, 0, L4::Other),
        }
    };
    Ok(Ip {
        v6: header.v6,
        options: header.options,
        dont_fragment: header.dont_fragment,
        tos: header.tos,
        ttl: header.ttl,
        l4: header.l4 as u16,
        end: header.end as u16,
        tuple: Tuple {
            src: header.src,
            dst: header.dst,
            proto: header.proto,
            sport,
            dport,
        },
        l4_kind,
    })
}

const fn be(high: u8, low: u8) -> u16 {
    u16::from_be_bytes([high, low])
}

/// A flow's ports as [`Tuple`] defines them, from the transport's first bytes.
/// Among ICMP messages only echo keeps its identifier: no other is a flow.
pub(super) fn ports(protocol: u8, data: &[u8]) -> Option<(u16, u16)> {
    match protocol {
        proto::TCP | proto::UDP | proto::SCTP => {
            let [s0, s1, d0, d1] = *data.first_chunk()?;
            Some((u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1])))
        }
        proto::ICMP | proto::ICMPV6 => {
            let [kind, code] = *data.first_chunk()?;
            let dport = u16::from_be_bytes([kind, code]);
            let id = if icmp::is_echo(protocol, dport) {
                let [_, _, _, _, i0, i1] = *data.first_chunk()?;
                u16::from_be_bytes([i0, i1])
            } else {
                0
            };
            Some((id, dport))
        }
        _ => Some((0, 0)),
    }
}

/// Source port, destination port, and the rest of a TCP header.
#[inline(always)]
pub(super) fn tcp(data: &[u8]) -> Result<(u16, u16, Tcp), DropReason> {
    let fixed: &[u8; TCP_LEN] = chunk(data, 0)?;
    let header_len = usize::from(fixed[12] >> 4) * 4;
    if header_len < TCP_LEN {
        return Err(DropReason::Malformed);
    }
    let options = data.get(TCP_LEN..header_len);
    let options = options.ok_or(DropReason::Truncated)?;
    let [s0, s1, d0, d1, ..] = *fixed;
    let tcp = segment(fixed, options, (data.len() - header_len) as u16);
    Ok((be(s0, s1), be(d0, d1), tcp))
}

#[inline(always)]
fn segment(fixed: &[u8; TCP_LEN], options: &[u8], payload_len: u16) -> Tcp {
    let [
        _,
        _,
        _,
        _,
        s0,
        s1,
        s2,
        s3,
        a0,
        a1,
        a2,
        a3,
        _,
        flags,
        w0,
        w1,
        ..,
    ] = *fixed;
    Tcp {
        flags,
        wscale: if flags & tcp_flags::SYN != 0 {
            wscale(options)
        } else {
            None
        },
        seq: u32::from_be_bytes([s0, s1, s2, s3]),
        ack: u32::from_be_bytes([a0, a1, a2, a3]),
        window: be(w0, w1),
        payload_len,
    }
}

/// The window scale option. Nonsense among options is the receiver's business:
/// the walk stops there.
fn wscale(mut options: &[u8]) -> Option<u8> {
    loop {
        match options {
            [1, rest @ ..] => options = rest,
            [3, 3, shift, ..] => return Some((*shift).min(14)),
            [kind, len, ..] if *kind >= 2 && *len >= 2 => {
                options = options.get(usize::from(*len)..)?
            }
            _ => return None,
        }
    }
}
