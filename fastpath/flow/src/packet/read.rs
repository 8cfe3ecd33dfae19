//! Checked reads: everything the parser takes from a frame goes through here.

use crate::DropReason;

/// `N` bytes at `at`.
#[inline]
pub(super) fn chunk<const N: usize>(data: &[u8], at: usize) -> Result<&[u8; N], DropReason> {
    data.get(at..)
        .and_then(<[u8]>::first_chunk)
        .ok_or(DropReason::Truncated)
}

/// A 16-bit big-endian number at `at`.
#[inline]
pub(super) fn be16(data: &[u8], at: usize) -> Result<u16, DropReason> {
    chunk(data, at).map(|bytes| u16::from_be_bytes(*bytes))
}

/// A 32-bit big-endian number at `at`.
#[inline]
pub(super) fn be32(data: &[u8], at: usize) -> Result<u32, DropReason> {
    chunk(data, at).map(|bytes| u32::from_be_bytes(*bytes))
}
