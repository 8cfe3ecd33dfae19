//! DHCPv4 (RFC 2131, RFC 2132).

use super::{LEASE, MAX_CLIENT_ID, REBIND, RENEW, Writer, payload};
use crate::build::BuildError;
use crate::checksum::Sum;
use crate::packet::{ETHERNET_LEN, Ip};
use crate::tuple::proto;
use crate::{Addr, DropReason, Mac};

/// Up to the options, the magic cookie included.
const FIXED_LEN: usize = 240;
const COOKIE: [u8; 4] = [99, 130, 83, 99];
/// BOOTP's message (RFC 951): some clients take none that is shorter.
const LEAST_LEN: usize = 300;
const HEADERS_LEN: usize = ETHERNET_LEN + 20 + 8;
const NOBODY: Addr = Addr::from_v4([0; 4]);

mod option {
    pub(super) const SUBNET_MASK: u8 = 1;
    pub(super) const ROUTER: u8 = 3;
    pub(super) const MTU: u8 = 26;
    pub(super) const REQUESTED: u8 = 50;
    pub(super) const LEASE: u8 = 51;
    pub(super) const OVERLOAD: u8 = 52;
    pub(super) const MESSAGE_TYPE: u8 = 53;
    pub(super) const SERVER: u8 = 54;
    pub(super) const RENEW: u8 = 58;
    pub(super) const REBIND: u8 = 59;
    pub(super) const CLIENT: u8 = 61;
    pub(super) const ROUTES: u8 = 121;
}

/// What a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Who is there.
    Discover,
    /// This address, please; also to keep it.
    Request,
    /// Somebody else has it.
    Decline,
    /// Needed no longer.
    Release,
    /// Everything but an address.
    Inform,
}

/// A client's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// What it wants.
    pub kind: Kind,
    /// Chosen by the client; its answer has the same.
    pub transaction: [u8; 4],
    /// The client cannot take unicast before it has an address.
    pub broadcast: bool,
    /// The address that the client uses already; 0.0.0.0: none.
    pub current: Addr,
    /// Through a relay (giaddr).
    pub relayed: bool,
    /// The client's hardware address.
    pub mac: Mac,
    /// The address that it asks for.
    pub requested: Option<Addr>,
    /// The server whose offer it takes.
    pub server: Option<Addr>,
    /// Its identifier.
    pub client: Option<&'a [u8]>,
}

/// Reads the message in a packet from a client's port to a server's.
///
/// # Errors
/// [`DropReason::Malformed`] or [`DropReason::Truncated`];
/// [`DropReason::SpoofedNeighbour`] for what only a server says.
pub fn parse<'a>(frame: &'a [u8], ip: &Ip) -> Result<Message<'a>, DropReason> {
    let data = payload(frame, ip)?;
    let fixed: &[u8; FIXED_LEN] = data.first_chunk().ok_or(DropReason::Truncated)?;
    // BOOTREQUEST, Ethernet, six bytes of address.
    if fixed[..3] != [1, 1, 6] || fixed[236..] != COOKIE {
        return Err(DropReason::Malformed);
    }
    let mut found = Found::default();
    found.walk(data.get(FIXED_LEN..).unwrap_or_default())?;
    // Options may go on where nobody puts a boot file any more.
    if found.overload & 1 != 0 {
        found.walk(&fixed[108..236])?;
    }
    if found.overload & 2 != 0 {
        found.walk(&fixed[44..108])?;
    }
    let kind = match found.kind {
        Some(1) => Kind::Discover,
        Some(3) => Kind::Request,
        Some(4) => Kind::Decline,
        Some(7) => Kind::Release,
        Some(8) => Kind::Inform,
        // OFFER, ACK, NAK.
        Some(2 | 5 | 6) => return Err(DropReason::SpoofedNeighbour),
        // Plain BOOTP has no type.
        _ => return Err(DropReason::Malformed),
    };
    Ok(Message {
        kind,
        transaction: bytes(fixed, 4)?,
        broadcast: fixed[10] & 0x80 != 0,
        current: Addr::from_v4(bytes(fixed, 12)?),
        relayed: fixed[24..28] != [0; 4],
        mac: Mac(bytes(fixed, 28)?),
        requested: found.requested,
        server: found.server,
        client: found.client,
    })
}

fn bytes<const N: usize>(from: &[u8], at: usize) -> Result<[u8; N], DropReason> {
    from.get(at..)
        .and_then(<[u8]>::first_chunk)
        .copied()
        .ok_or(DropReason::Truncated)
}

/// Options that matter here.
#[derive(Default)]
struct Found<'a> {
    kind: Option<u8>,
    overload: u8,
    requested: Option<Addr>,
    server: Option<Addr>,
    client: Option<&'a [u8]>,
}

impl<'a> Found<'a> {
    /// Each at most once: one in pieces (RFC 3396) is none of these.
    fn walk(&mut self, mut options: &'a [u8]) -> Result<(), DropReason> {
        const PAD: u8 = 0;
        const END: u8 = 255;
        loop {
            let (code, rest) = match options {
                [] | [END, ..] => return Ok(()),
                [PAD, rest @ ..] => {
                    options = rest;
                    continue;
                }
                [code, rest @ ..] => (*code, rest),
            };
            let (len, rest) = rest.split_first().ok_or(DropReason::Malformed)?;
            let (value, rest) = rest
                .split_at_checked(usize::from(*len))
                .ok_or(DropReason::Malformed)?;
            self.option(code, value)?;
            options = rest;
        }
    }

    fn option(&mut self, code: u8, value: &'a [u8]) -> Result<(), DropReason> {
        let again = match (code, value) {
            (option::MESSAGE_TYPE, [kind]) => self.kind.replace(*kind).is_some(),
            (option::OVERLOAD, [fields @ 1..=3]) => {
                core::mem::replace(&mut self.overload, *fields) != 0
            }
            (option::REQUESTED, [a, b, c, d]) => {
                let addr = Addr::from_v4([*a, *b, *c, *d]);
                self.requested.replace(addr).is_some()
            }
            (option::SERVER, [a, b, c, d]) => {
                let addr = Addr::from_v4([*a, *b, *c, *d]);
                self.server.replace(addr).is_some()
            }
            (option::CLIENT, id) if (2..=MAX_CLIENT_ID).contains(&id.len()) => {
                self.client.replace(id).is_some()
            }
            (
                option::MESSAGE_TYPE
                | option::OVERLOAD
                | option::REQUESTED
                | option::SERVER
                | option::CLIENT,
                _,
            ) => true,
            _ => false,
        };
        if again {
            return Err(DropReason::Malformed);
        }
        Ok(())
    }
}

/// What a server says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Say {
    /// You could have this address.
    Offer(Addr),
    /// You have this address.
    Ack(Addr),
    /// To [`Kind::Inform`]: what goes with the address that you have.
    Informed,
    /// You do not have this address.
    Nak,
}

/// What the client's network is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// The gateway, which is the server too.
    pub gateway: Addr,
    /// The gateway's MAC.
    pub gateway_mac: Mac,
    /// Bits of the prefix that the client's address is in; 32 where it is in
    /// none: then the gateway has a route of its own.
    pub prefix_len: u8,
    /// Bytes of an IP packet.
    pub mtu: u16,
}

/// Writes the answer to `to` as a frame into `out` and returns its length.
///
/// # Errors
/// [`BuildError::NoRoom`] where `out` is too small, with its content undefined;
/// [`BuildError::MixedFamilies`] for an address that is not IPv4.
pub fn answer(
    out: &mut [u8],
    to: &Message<'_>,
    say: Say,
    network: &Network,
) -> Result<usize, BuildError> {
    let octets = |addr: Addr| addr.v4_octets().ok_or(BuildError::MixedFamilies);
    let (kind, yours) = match say {
        Say::Offer(addr) => (2, addr),
        Say::Ack(addr) => (5, addr),
        Say::Informed => (5, NOBODY),
        Say::Nak => (6, NOBODY),
    };
    let gateway = octets(network.gateway)?;
    let have = out.len();
    let mut w = Writer::new(out, HEADERS_LEN);
    // BOOTREPLY; hops and seconds are 0.
    w.put(&[2, 1, 6, 0]).put(&to.transaction).put(&[0, 0]);
    w.put(&[if to.broadcast { 0x80 } else { 0 }, 0]);
    let current = if say == Say::Nak { NOBODY } else { to.current };
    w.put(&octets(current)?).put(&octets(yours)?);
    w.fill(HEADERS_LEN + 28).put(&to.mac.0);
    w.fill(HEADERS_LEN + FIXED_LEN - COOKIE.len()).put(&COOKIE);
    w.put(&[option::MESSAGE_TYPE, 1, kind]);
    w.put(&[option::SERVER, 4]).put(&gateway);
    if let Say::Offer(_) | Say::Ack(_) = say {
        for (code, seconds) in [
            (option::LEASE, LEASE),
            (option::RENEW, RENEW),
            (option::REBIND, REBIND),
        ] {
            w.put(&[code, 4]).put(&seconds.to_be_bytes());
        }
    }
    if say != Say::Nak {
        let len = u32::from(network.prefix_len.min(32));
        let mask = u32::MAX.checked_shl(32 - len).unwrap_or(0);
        w.put(&[option::SUBNET_MASK, 4]).put(&mask.to_be_bytes());
        if len == 32 {
            // The gateway itself on the link, everything else through it (RFC
            // 3442; a client that knows it ignores the router option).
            w.put(&[option::ROUTES, 14, 32]).put(&gateway).put(&[0; 4]);
            w.put(&[0]).put(&gateway);
        }
        w.put(&[option::ROUTER, 4]).put(&gateway);
        w.put(&[option::MTU, 2]).put(&network.mtu.to_be_bytes());
    }
    if let Some(id) = to.client {
        // RFC 6842: as it came.
        w.put(&[option::CLIENT, id.len() as u8]).put(id);
    }
    w.put(&[255]).fill(HEADERS_LEN + LEAST_LEN);
    let need = w.len();
    let frame = out
        .get_mut(..need)
        .ok_or(BuildError::NoRoom { need, have })?;

    // RFC 2131, section 4.1.
    let (dst, dst_mac) = match say {
        Say::Nak => ([255; 4], Mac::BROADCAST),
        _ if to.current != NOBODY => (octets(to.current)?, to.mac),
        _ if to.broadcast => ([255; 4], Mac::BROADCAST),
        _ => (octets(yours)?, to.mac),
    };
    headers(frame, (network.gateway_mac, gateway), (dst_mac, dst));
    Ok(need)
}

/// Ethernet, IPv4 and UDP before a message that is there.
fn headers(frame: &mut [u8], (src_mac, src): (Mac, [u8; 4]), (dst_mac, dst): (Mac, [u8; 4])) {
    let ip_len = (frame.len() - ETHERNET_LEN) as u16;
    let udp_len = ip_len - 20;
    let [i0, i1] = ip_len.to_be_bytes();
    let mut ip = [
        0x45,
        0,
        i0,
        i1,
        0,
        0,
        0x40,
        0,
        64,
        proto::UDP,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
    ];
    ip[12..16].copy_from_slice(&src);
    ip[16..].copy_from_slice(&dst);
    let sum = Sum::default().bytes(&ip).finish();
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    Writer::new(frame, 0)
        .put(&dst_mac.0)
        .put(&src_mac.0)
        .put(&[0x08, 0x00])
        .put(&ip)
        .put(&[0, 67, 0, 68])
        .put(&udp_len.to_be_bytes())
        .put(&[0, 0]);
    let (src, dst) = (Addr::from_v4(src), Addr::from_v4(dst));
    let sum = Sum::default()
        .pseudo(src, dst, proto::UDP, udp_len)
        .bytes(frame.get(ETHERNET_LEN + 20..).unwrap_or_default())
        .finish();
    // 0 would say that there is none.
    let sum = if sum == 0 { 0xffff } else { sum };
    Writer::new(frame, ETHERNET_LEN + 26).put(&sum.to_be_bytes());
}
