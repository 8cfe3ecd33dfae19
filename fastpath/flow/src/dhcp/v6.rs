//! DHCPv6 (RFC 8415).

use super::{LEASE, MAX_CLIENT_ID, RENEW, Writer, payload};
use crate::build::BuildError;
use crate::checksum::Sum;
use crate::packet::{ETHERNET_LEN, Ip};
use crate::tuple::proto;
use crate::{Addr, DropReason, Mac};

const HEADERS_LEN: usize = ETHERNET_LEN + 40 + 8;

mod option {
    pub(super) const CLIENT: u16 = 1;
    pub(super) const SERVER: u16 = 2;
    pub(super) const IA_NA: u16 = 3;
    pub(super) const IA_TA: u16 = 4;
    pub(super) const ADDRESS: u16 = 5;
    pub(super) const STATUS: u16 = 13;
    pub(super) const RAPID_COMMIT: u16 = 14;
    pub(super) const IA_PD: u16 = 25;
}

/// What a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Who is there.
    Solicit,
    /// Addresses, please.
    Request,
    /// Am I still where I was.
    Confirm,
    /// Keep these, from this server.
    Renew,
    /// Keep these, from any server.
    Rebind,
    /// Needed no longer.
    Release,
    /// Somebody else has them.
    Decline,
    /// Everything but addresses.
    Information,
}

/// A client's message, its options verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// What it wants.
    pub kind: Kind,
    /// Chosen by the client; its answer has the same.
    pub transaction: [u8; 3],
    /// The client's DUID.
    pub client: Option<&'a [u8]>,
    /// The DUID of the server that it speaks to.
    pub server: Option<&'a [u8]>,
    /// It would take a reply at once.
    pub rapid_commit: bool,
    options: &'a [u8],
}

impl Message<'_> {
    /// The addresses that the client names, in whatever association.
    pub fn addresses(&self) -> impl Iterator<Item = Addr> {
        associations(self.options).flat_map(|ia| addresses(ia.options))
    }
}

/// Reads the message in a packet from a client's port to a server's.
///
/// # Errors
/// [`DropReason::Malformed`] or [`DropReason::Truncated`];
/// [`DropReason::SpoofedNeighbour`] for what only a server says;
/// [`DropReason::UnhandledControl`] for a relay's.
pub fn parse<'a>(frame: &'a [u8], ip: &Ip) -> Result<Message<'a>, DropReason> {
    let ([kind, t0, t1, t2], options) = payload(frame, ip)?
        .split_first_chunk()
        .ok_or(DropReason::Truncated)?;
    let kind = match *kind {
        1 => Kind::Solicit,
        3 => Kind::Request,
        4 => Kind::Confirm,
        5 => Kind::Renew,
        6 => Kind::Rebind,
        8 => Kind::Release,
        9 => Kind::Decline,
        11 => Kind::Information,
        // Advertise, reply, reconfigure, relay-reply.
        2 | 7 | 10 | 13 => return Err(DropReason::SpoofedNeighbour),
        // Relay-forward, and the exchanges among servers.
        12 | 14.. => return Err(DropReason::UnhandledControl),
        0 => return Err(DropReason::Malformed),
    };
    let mut message = Message {
        kind,
        transaction: [*t0, *t1, *t2],
        client: None,
        server: None,
        rapid_commit: false,
        options,
    };
    let mut walk = Options(options);
    while let Some((code, value)) = walk.next_option()? {
        let again = match code {
            option::CLIENT => message.client.replace(duid(value)?).is_some(),
            option::SERVER => message.server.replace(duid(value)?).is_some(),
            option::RAPID_COMMIT => core::mem::replace(&mut message.rapid_commit, true),
            option::IA_NA | option::IA_TA | option::IA_PD => {
                verify_association(code, value)?;
                kind == Kind::Information
            }
            _ => false,
        };
        if again {
            return Err(DropReason::Malformed);
        }
    }
    // RFC 8415, section 16: who must be named, and who must not.
    let (client, server) = (message.client.is_some(), message.server.is_some());
    let right = match kind {
        Kind::Solicit | Kind::Confirm | Kind::Rebind => client && !server,
        Kind::Request | Kind::Renew | Kind::Release | Kind::Decline => client && server,
        Kind::Information => true,
    };
    if right {
        Ok(message)
    } else {
        Err(DropReason::Malformed)
    }
}

fn duid(value: &[u8]) -> Result<&[u8], DropReason> {
    // A type and something.
    if (3..=MAX_CLIENT_ID).contains(&value.len()) {
        Ok(value)
    } else {
        Err(DropReason::Malformed)
    }
}

/// Bytes before the options of an association: its id, and times where it has
/// them.
const fn association_head(code: u16) -> usize {
    if code == option::IA_TA { 4 } else { 12 }
}

fn verify_association(code: u16, value: &[u8]) -> Result<(), DropReason> {
    let options = value
        .get(association_head(code)..)
        .ok_or(DropReason::Malformed)?;
    let mut walk = Options(options);
    while let Some((code, value)) = walk.next_option()? {
        // Address and two lifetimes.
        if code == option::ADDRESS && value.len() < 24 {
            return Err(DropReason::Malformed);
        }
    }
    Ok(())
}

struct Options<'a>(&'a [u8]);

impl<'a> Options<'a> {
    fn next_option(&mut self) -> Result<Option<(u16, &'a [u8])>, DropReason> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let ([c0, c1, l0, l1], rest) = self
            .0
            .split_first_chunk::<4>()
            .ok_or(DropReason::Malformed)?;
        let len = usize::from(u16::from_be_bytes([*l0, *l1]));
        let (value, rest) = rest.split_at_checked(len).ok_or(DropReason::Malformed)?;
        self.0 = rest;
        Ok(Some((u16::from_be_bytes([*c0, *c1]), value)))
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = (u16, &'a [u8]);

    /// Over options that have been verified.
    fn next(&mut self) -> Option<Self::Item> {
        self.next_option().ok().flatten()
    }
}

struct Association<'a> {
    code: u16,
    id: &'a [u8],
    options: &'a [u8],
}

fn associations(options: &[u8]) -> impl Iterator<Item = Association<'_>> {
    let is_one = |code: &u16| matches!(*code, option::IA_NA | option::IA_TA | option::IA_PD);
    Options(options)
        .filter(move |(code, _)| is_one(code))
        .filter_map(|(code, value)| {
            Some(Association {
                code,
                id: value.get(..4)?,
                options: value.get(association_head(code)..)?,
            })
        })
}

fn addresses(options: &[u8]) -> impl Iterator<Item = Addr> {
    Options(options)
        .filter(|(code, _)| *code == option::ADDRESS)
        .filter_map(|(_, value)| value.first_chunk().copied().map(Addr::from_octets))
}

/// What a server says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Say {
    /// You could have the addresses.
    Advertise,
    /// You have the addresses; at once, where the client asked for that.
    Reply,
    /// No more than this.
    Status(Status),
    /// Nothing to say but that the server is there.
    Nothing,
}

/// How it went (RFC 8415, section 21.13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Status {
    /// Well.
    Success = 0,
    /// There are no addresses for it.
    NoAddrsAvail = 2,
    /// The client has no such association.
    NoBinding = 3,
    /// An address is not of this link.
    NotOnLink = 4,
    /// Prefixes are not handed out.
    NoPrefixAvail = 6,
}

/// The server's DUID: its link-layer address (RFC 8415, section 11.4).
#[must_use]
pub const fn server_duid(mac: Mac) -> [u8; 10] {
    let [a, b, c, d, e, f] = mac.0;
    [0, 3, 0, 1, a, b, c, d, e, f]
}

/// Who answers whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The server's MAC, of which its DUID is made.
    pub server_mac: Mac,
    /// The server's link-local address.
    pub server: Addr,
    /// The client's MAC.
    pub client_mac: Mac,
    /// The address that the client asked from.
    pub client: Addr,
}

/// Writes the answer to `to` as a frame into `out` and returns its length.
/// `own` are the addresses that the client may have, all in its first
/// association; a second one gets none.
///
/// # Errors
/// [`BuildError::NoRoom`] where `out` is too small, with its content undefined.
pub fn answer(
    out: &mut [u8],
    to: &Message<'_>,
    say: Say,
    ends: &Ends,
    own: &[Addr],
) -> Result<usize, BuildError> {
    let have = out.len();
    let mut w = Writer::new(out, HEADERS_LEN);
    w.put(&[if say == Say::Advertise { 2 } else { 7 }])
        .put(&to.transaction);
    let duid = server_duid(ends.server_mac);
    for (code, value) in [
        (option::CLIENT, to.client),
        (option::SERVER, Some(&duid[..])),
    ] {
        if let Some(value) = value {
            head(&mut w, code, value.len());
            w.put(value);
        }
    }
    match say {
        Say::Advertise => bind(&mut w, to, own),
        Say::Reply => {
            if to.kind == Kind::Solicit {
                head(&mut w, option::RAPID_COMMIT, 0);
            }
            bind(&mut w, to, own);
        }
        Say::Status(status) => put_status(&mut w, status),
        Say::Nothing => {}
    }
    let need = w.len();
    let frame = out
        .get_mut(..need)
        .ok_or(BuildError::NoRoom { need, have })?;
    headers(frame, ends);
    Ok(need)
}

/// What becomes of each association that the client names.
fn bind(w: &mut Writer<'_>, to: &Message<'_>, own: &[Addr]) {
    // What one association gets, none of them loses, whichever comes first.
    let gives = associations(to.options).any(|ia| ia.code == option::IA_NA);
    let mut given = false;
    for ia in associations(to.options) {
        let start = w.len();
        head(w, ia.code, 0);
        w.put(ia.id);
        let mut first = false;
        if ia.code == option::IA_NA {
            w.put(&RENEW.to_be_bytes())
                .put(&(LEASE / 5 * 4).to_be_bytes());
            first = !core::mem::replace(&mut given, true);
        } else if ia.code == option::IA_PD {
            w.put(&[0; 8]);
        }
        let mut any = false;
        if first {
            for addr in own.iter().filter(|addr| !addr.is_v4()) {
                put_address(w, *addr, LEASE);
                any = true;
            }
        }
        let keeping = matches!(to.kind, Kind::Renew | Kind::Rebind);
        if keeping {
            // What the client has and must let go.
            let stays = |addr: &Addr| gives && own.contains(addr);
            for addr in addresses(ia.options).filter(|addr| !stays(addr)) {
                put_address(w, addr, 0);
                any = true;
            }
        }
        if !any {
            put_status(
                w,
                match ia.code {
                    option::IA_PD => Status::NoPrefixAvail,
                    _ if keeping => Status::NoBinding,
                    _ => Status::NoAddrsAvail,
                },
            );
        }
        let len = (w.len() - start - 4) as u16;
        if let Some(to) = w.out.get_mut(start + 2..start + 4) {
            to.copy_from_slice(&len.to_be_bytes());
        }
    }
}

fn head(w: &mut Writer<'_>, code: u16, len: usize) {
    w.put(&code.to_be_bytes()).put(&(len as u16).to_be_bytes());
}

fn put_address(w: &mut Writer<'_>, addr: Addr, seconds: u32) {
    head(w, option::ADDRESS, 24);
    // Preferred as long as valid.
    w.put(&addr.octets())
        .put(&seconds.to_be_bytes())
        .put(&seconds.to_be_bytes());
}

fn put_status(w: &mut Writer<'_>, status: Status) {
    head(w, option::STATUS, 2);
    w.put(&(status as u16).to_be_bytes());
}

/// Ethernet, IPv6 and UDP before a message that is there.
fn headers(frame: &mut [u8], ends: &Ends) {
    let udp_len = (frame.len() - ETHERNET_LEN - 40) as u16;
    let [u0, u1] = udp_len.to_be_bytes();
    Writer::new(frame, 0)
        .put(&ends.client_mac.0)
        .put(&ends.server_mac.0)
        .put(&[0x86, 0xdd])
        .put(&[0x60, 0, 0, 0, u0, u1, proto::UDP, 64])
        .put(&ends.server.octets())
        .put(&ends.client.octets())
        // From 547 to 546.
        .put(&[0x02, 0x23, 0x02, 0x22, u0, u1, 0, 0]);
    let sum = Sum::default()
        .pseudo(ends.server, ends.client, proto::UDP, udp_len)
        .bytes(frame.get(ETHERNET_LEN + 40..).unwrap_or_default())
        .finish();
    let sum = if sum == 0 { 0xffff } else { sum };
    Writer::new(frame, ETHERNET_LEN + 46).put(&sum.to_be_bytes());
}
