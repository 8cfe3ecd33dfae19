//! ARP (RFC 826), for IPv4 over Ethernet only.

use super::read::{be16, chunk};
use crate::{Addr, DropReason, Mac};

/// An ARP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arp {
    /// Request or reply.
    pub op: ArpOp,
    /// Sender hardware address.
    pub sender_mac: Mac,
    /// Sender protocol address; 0.0.0.0 in a probe (RFC 5227).
    pub sender_ip: Addr,
    /// Target hardware address; meaningless in a request.
    pub target_mac: Mac,
    /// Target protocol address.
    pub target_ip: Addr,
}

/// The ARP operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArpOp {
    /// Who has `target_ip`?
    Request,
    /// `sender_ip` is at `sender_mac`.
    Reply,
}

const ETHERNET_IPV4: [u8; 6] = [0, 1, 8, 0, 6, 4];

pub(super) fn parse(frame: &[u8], at: usize) -> Result<Arp, DropReason> {
    let kind: &[u8; 6] = chunk(frame, at)?;
    if *kind != ETHERNET_IPV4 {
        return Err(DropReason::UnhandledControl);
    }
    let op = match be16(frame, at + 6)? {
        1 => ArpOp::Request,
        2 => ArpOp::Reply,
        _ => return Err(DropReason::UnhandledControl),
    };
    Ok(Arp {
        op,
        sender_mac: Mac(*chunk(frame, at + 8)?),
        sender_ip: Addr::from_v4(*chunk(frame, at + 14)?),
        target_mac: Mac(*chunk(frame, at + 18)?),
        target_ip: Addr::from_v4(*chunk(frame, at + 24)?),
    })
}
