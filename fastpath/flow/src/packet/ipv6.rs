//! IPv6 (RFC 8200) and its extension headers.

use super::read::chunk;
use super::{Fragment, IpHeader};
use crate::{Addr, DropReason};

const FIXED_LEN: usize = 40;
/// Real stacks send at most four; the bound keeps the walk constant-time.
const MAX_EXTENSIONS: usize = 8;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;

pub(super) fn parse(frame: &[u8], at: usize) -> Result<IpHeader, DropReason> {
    let mut header = fixed(frame, at)?;
    if header.end > frame.len() {
        return Err(DropReason::Truncated);
    }
    extensions(frame, &mut header)?;
    Ok(header)
}

/// The header of a packet quoted by an ICMPv6 error, which may be cut.
pub(super) fn parse_quoted(data: &[u8]) -> Result<IpHeader, DropReason> {
    let mut header = fixed(data, 0)?;
    header.end = header.end.min(data.len());
    extensions(data, &mut header)?;
    Ok(header)
}

fn fixed(frame: &[u8], at: usize) -> Result<IpHeader, DropReason> {
    let fixed: &[u8; FIXED_LEN] = chunk(frame, at)?;
    let [b0, b1, _, _, len0, len1, next, hops, ..] = *fixed;
    if b0 >> 4 != 6 {
        return Err(DropReason::Malformed);
    }
    let src = Addr::from_octets(*chunk(fixed, 8)?);
    let dst = Addr::from_octets(*chunk(fixed, 24)?);
    if src.is_v4() || dst.is_v4() {
        return Err(DropReason::Malformed);
    }
    let l4 = at + FIXED_LEN;
    Ok(IpHeader {
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
        fragment: None,
    })
}

/// Walks to the transport header. In a later fragment the walk ends where the
/// packet's own first part ends: what follows is not a header.
fn extensions(frame: &[u8], header: &mut IpHeader) -> Result<(), DropReason> {
    let packet = frame.get(..header.end).ok_or(DropReason::Truncated)?;
    for n in 0.. {
        let at = header.l4;
        match header.proto {
            HOP_BY_HOP if n > 0 => return Err(DropReason::Malformed),
            HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS | FRAGMENT if n == MAX_EXTENSIONS => {
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
                if header.fragment.is_some() {
                    return Err(DropReason::Malformed);
                }
                let [next, _, o0, o1, id @ ..]: [u8; 8] = *chunk(packet, at)?;
                let offset = u16::from_be_bytes([o0, o1]);
                let fragment = Fragment {
                    id: u32::from_be_bytes(id),
                    offset: offset & 0xfff8,
                    more: offset & 1 != 0,
                };
                header.proto = next;
                header.l4 = at + 8;
                // Neither offset nor more: "atomic" (RFC 6946), a whole packet.
                if fragment.offset != 0 {
                    header.fragment = Some(fragment);
                    header.options = true;
                    return Ok(());
                }
                header.fragment = fragment.more.then_some(fragment);
            }
            _ => break,
        }
        header.options = true;
        if header.l4 > header.end {
            return Err(DropReason::Truncated);
        }
    }
    Ok(())
}
