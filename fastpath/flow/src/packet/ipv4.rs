//! IPv4 (RFC 791).

use super::read::chunk;
use super::{Fragment, Ip, IpHeader, l4};
use crate::checksum::Sum;
use crate::{Addr, DropReason};

const MIN_LEN: usize = 20;

#[inline(always)]
pub(super) fn parse(frame: &[u8], at: usize) -> Result<Ip, DropReason> {
    let fixed: &[u8; MIN_LEN] = chunk(frame, at)?;
    check(fixed)?;
    let header = header(fixed, at);
    if header.end > frame.len() {
        return Err(DropReason::Truncated);
    }
    let mut sum = Sum::default().bytes(fixed);
    if header.options {
        let options = frame.get(at + MIN_LEN..header.l4);
        let options = options.ok_or(DropReason::Truncated)?;
        sum = sum.bytes(options);
        check_options(options)?;
    }
    if sum.finish() != 0 {
        return Err(DropReason::BadChecksum);
    }
    if header.fragmented && !header.fragment.is_sound(header.l4 - at) {
        return Err(DropReason::Malformed);
    }
    l4::parse(frame, header)
}

/// The header of a packet quoted by an ICMP error: it may be cut after the
/// first bytes of its transport, and routers on the way may have left its
/// checksum wrong.
pub(super) fn parse_quoted(data: &[u8]) -> Result<IpHeader, DropReason> {
    let fixed = chunk(data, 0)?;
    check(fixed)?;
    let mut header = header(fixed, 0);
    header.end = header.end.min(data.len());
    if header.l4 > header.end {
        return Err(DropReason::Truncated);
    }
    Ok(header)
}

#[inline(always)]
fn check(fixed: &[u8; MIN_LEN]) -> Result<(), DropReason> {
    let [ver_ihl, _, len0, len1, ..] = *fixed;
    let header_len = u16::from(ver_ihl & 0xf) * 4;
    let total = u16::from_be_bytes([len0, len1]);
    if ver_ihl >> 4 != 4 || usize::from(header_len) < MIN_LEN || total < header_len {
        return Err(DropReason::Malformed);
    }
    Ok(())
}

/// Of a checked header.
#[inline(always)]
fn header(fixed: &[u8; MIN_LEN], at: usize) -> IpHeader {
    let [
        ver_ihl,
        tos,
        len0,
        len1,
        id0,
        id1,
        f0,
        f1,
        ttl,
        proto,
        _,
        _,
        a @ ..,
    ] = *fixed;
    let header_len = usize::from(ver_ihl & 0xf) * 4;
    let total = usize::from(u16::from_be_bytes([len0, len1]));
    let flags = u16::from_be_bytes([f0, f1]);
    let fragment = Fragment {
        id: u32::from(u16::from_be_bytes([id0, id1])),
        offset: (flags & 0x1fff) << 3,
        len: (total - header_len) as u16,
        more: flags & 0x2000 != 0,
    };
    let [s0, s1, s2, s3, d0, d1, d2, d3] = a;
    IpHeader {
        v6: false,
        options: header_len > MIN_LEN,
        dont_fragment: flags & 0x4000 != 0,
        tos,
        ttl,
        proto,
        src: Addr::from_v4([s0, s1, s2, s3]),
        dst: Addr::from_v4([d0, d1, d2, d3]),
        l4: at + header_len,
        end: at + total,
        fragment,
        fragmented: fragment.more || fragment.offset != 0,
    }
}

/// Options must fit their header. Source routes are refused as RFC 7126
/// recommends: the destination in the header is not where the packet goes.
fn check_options(mut options: &[u8]) -> Result<(), DropReason> {
    const END: u8 = 0;
    const NOP: u8 = 1;
    const LOOSE_SOURCE_ROUTE: u8 = 131;
    const STRICT_SOURCE_ROUTE: u8 = 137;
    while let [kind, rest @ ..] = options {
        options = match *kind {
            END => return Ok(()),
            NOP => rest,
            LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE => return Err(DropReason::UnknownProtocol),
            _ => match rest.first() {
                Some(len) if *len >= 2 => options
                    .get(usize::from(*len)..)
                    .ok_or(DropReason::Malformed)?,
                _ => return Err(DropReason::Malformed),
            },
        };
    }
    Ok(())
}
