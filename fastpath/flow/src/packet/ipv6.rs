//! IPv6 (RFC 8200) and its extension headers.

use super::read::chunk;
use super::{Fragment, Ip, IpHeader, l4};
use crate::{Addr, DropReason};

const FIXED_LEN: usize = 40;
/// Real stacks send at most four; the bound keeps the walk constant-time.
const MAX_EXTENSIONS: usize = 8;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;

#[inline(always)]
pub(super) fn parse(frame: &[u8], at: usize) -> Result<Ip, DropReason> {
    let fixed = chunk(frame, at)?;
    check(fixed)?;
    let mut header = header(fixed, at);
    if header.end > frame.len() {
        return Err(DropReason::Truncated);
    }
    if is_extension(header.proto) {
        header = extensions(frame, header)?;
        // Behind the fragment header, which is none of the whole packet's.
        let data = header.end - usize::from(header.fragment.len);
        if header.fragmented && !header.fragment.is_sound(data - 8 - (at + FIXED_LEN)) {
            return Err(DropReason::Malformed);
        }
    }
    l4::parse(frame, header)
}

/// The header of a packet quoted by an ICMPv6 error, which may be cut.
pub(super) fn parse_quoted(data: &[u8]) -> Result<IpHeader, DropReason> {
    let fixed = chunk(data, 0)?;
    check(fixed)?;
    let mut header = header(fixed, 0);
    header.end = header.end.min(data.len());
    extensions(data, header)
}

#[inline(always)]
fn check(fixed: &[u8; FIXED_LEN]) -> Result<(), DropReason> {
    let (src, dst) = addresses(fixed);
    if fixed[0] >> 4 != 6 || src.is_v4() || dst.is_v4() {
        return Err(DropReason::Malformed);
    }
    Ok(())
}

#[inline(always)]
fn addresses(fixed: &[u8; FIXED_LEN]) -> (Addr, Addr) {
    let (_, addresses) = fixed.split_at(8);
    let (src, dst) = addresses.split_at(16);
    let addr = |bytes: &[u8]| {
        bytes
            .first_chunk()
            .map_or(Addr(0), |b| Addr::from_octets(*b))
    };
    (addr(src), addr(dst))
}

/// Of a checked header.
#[inline(always)]
fn header(fixed: &[u8; FIXED_LEN], at: usize) -> IpHeader {
    let [b0, b1, _, _, len0, len1, next, hops, ..] = *fixed;
    let (src, dst) = addresses(fixed);
    let l4 = at + FIXED_LEN;
    IpHeader {
        v6: true,
        options: false,
        dont_fragment: true,
        tos: b0 << 4 | b1 >> 4,
        ttl: hops,
        proto: next,
        src,
        dst,
        l4,
        // A jumbogram says 0 here and has no room for its own option: refused.
        end: l4 + usize::from(u16::from_be_bytes([len0, len1])),
        fragment: Fragment::NONE,
        fragmented: false,
    }
}

const fn is_extension(next: u8) -> bool {
    matches!(next, HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION_OPTIONS)
}

/// Walks to the transport header. In a later fragment the walk ends where the
/// packet's own first part ends: what follows is not a header.
#[inline(never)]
fn extensions(frame: &[u8], mut header: IpHeader) -> Result<IpHeader, DropReason> {
    let packet = frame.get(..header.end).ok_or(DropReason::Truncated)?;
    for n in 0.. {
        let at = header.l4;
        match header.proto {
            HOP_BY_HOP if n > 0 => return Err(DropReason::Malformed),
            next if n == MAX_EXTENSIONS && is_extension(next) => {
                return Err(DropReason::Malformed);
            }
            HOP_BY_HOP | DESTINATION_OPTIONS => {
                let [next, len] = *chunk(packet, at)?;
                header.proto = next;
                header.l4 = at + 8 + usize::from(len) * 8;
            }
            ROUTING => {
                let [next, len, kind, segments_left] = *chunk(packet, at)?;
                // Type 0 is forbidden (RFC 5095). With segments left, the
                // header's destination is not the one policy should judge.
                if kind == 0 || segments_left != 0 {
                    return Err(DropReason::UnknownProtocol);
                }
                header.proto = next;
                header.l4 = at + 8 + usize::from(len) * 8;
            }
            FRAGMENT => {
                if header.fragmented {
                    return Err(DropReason::Malformed);
                }
                let [next, _, o0, o1, id @ ..]: [u8; 8] = *chunk(packet, at)?;
                let offset = u16::from_be_bytes([o0, o1]);
                let fragment = Fragment {
                    id: u32::from_be_bytes(id),
                    offset: offset & 0xfff8,
                    len: (header.end - at - 8) as u16,
                    more: offset & 1 != 0,
                };
                header.proto = next;
                header.l4 = at + 8;
                // Neither offset nor more: "atomic" (RFC 6946), a whole packet.
                header.fragment = fragment;
                header.fragmented = fragment.more || fragment.offset != 0;
                if fragment.offset != 0 {
                    header.options = true;
                    return Ok(header);
                }
            }
            _ => break,
        }
        header.options = true;
        if header.l4 > header.end {
            return Err(DropReason::Truncated);
        }
    }
    Ok(header)
}
