//! DHCP as a server hears and says it: messages of clients, and their answers.
//!
//! Pure form, no decision: who may have which address is the caller's. Parsing
//! borrows the message and is bounded by its length; an answer is written as a
//! whole frame into a buffer, and nothing of it is used where it does not fit.

pub mod v4;
pub mod v6;

use crate::DropReason;
use crate::packet::Ip;

/// Seconds that an address is given for. Whose it is says the policy, so a
/// lease only bounds how long a client that asks for nothing keeps an older one.
pub const LEASE: u32 = 3600;
/// After which a client renews it.
const RENEW: u32 = LEASE / 2;
/// After which it asks any server.
const REBIND: u32 = LEASE / 8 * 7;

/// The longest client identifier that is taken: a DUID of RFC 8415 with its type.
const MAX_CLIENT_ID: usize = 130;

/// What a UDP packet carries.
fn payload<'a>(frame: &'a [u8], ip: &Ip) -> Result<&'a [u8], DropReason> {
    let udp = frame
        .get(usize::from(ip.l4)..usize::from(ip.end))
        .ok_or(DropReason::Truncated)?;
    let [_, _, _, _, len0, len1, _, _, ..] = udp else {
        return Err(DropReason::Truncated);
    };
    let len = usize::from(u16::from_be_bytes([*len0, *len1]));
    udp.get(8..len).ok_or(DropReason::Truncated)
}

/// Writes one field after the other and remembers whether all had room.
struct Writer<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    fn new(out: &'a mut [u8], at: usize) -> Self {
        Self { out, at }
    }

    /// What does not fit is left out; [`Self::len`] then exceeds the buffer.
    fn put(&mut self, bytes: &[u8]) -> &mut Self {
        let end = self.at.saturating_add(bytes.len());
        if let Some(to) = self.out.get_mut(self.at..end) {
            to.copy_from_slice(bytes);
        }
        self.at = end;
        self
    }

    /// Zeros up to `at`.
    fn fill(&mut self, at: usize) -> &mut Self {
        if let Some(to) = self.out.get_mut(self.at..at) {
            to.fill(0);
        }
        self.at = self.at.max(at);
        self
    }

    fn len(&self) -> usize {
        self.at
    }
}
