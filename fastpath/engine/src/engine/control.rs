//! Neighbour discovery on a port: ARP and ND, answered here, never forwarded.
//!
//! Who has an address is in the policy, so an answer needs no question. An
//! address that nobody has is not answered, nor is a port that asks for its
//! own: duplicate address detection works.

use penstock_flow::build::{self, NaFlags};
use penstock_flow::packet::{Arp, ArpOp, Ip, Kind, L4, Nd, NdKind, Packet};
use penstock_flow::{Addr, DropReason, Mac};
use penstock_rules::Ruleset;
use penstock_rules::model::Port;

use super::arrival::Arrival;
use super::forward::tag;
use super::router::{self, Advertisement};
use crate::frame::{Frame, Outcome};

/// Bytes of a neighbour advertisement.
const ADVERTISEMENT_LEN: usize = 86;

/// An ARP or ND message that `port` has sent.
pub(super) fn neighbour(
    rules: &Ruleset,
    port: &Port,
    arrival: &Arrival,
    frame: &mut Frame<'_>,
    packet: &Packet,
) -> Result<Outcome, DropReason> {
    if packet.src_mac != port.mac {
        return Err(DropReason::SpoofedNeighbour);
    }
    let asked = match &packet.kind {
        Kind::Arp(arp) => ask_arp(rules, port, arp)?,
        Kind::Ip(ip) => ask_nd(rules, port, ip)?,
    };
    let len = match (asked, &packet.kind) {
        (Asked::Nothing, _) => return Ok(Outcome::Consumed),
        (Asked::Routers { asker, say }, _) => {
            let mut answer = [0; router::MOST_LEN];
            let len = say.write(&mut answer, asker, packet.src_mac);
            frame.set_len(len).map_err(|_| DropReason::NoHeadroom)?;
            for (to, from) in frame.data_mut().iter_mut().zip(answer) {
                *to = from;
            }
            Ok(len)
        }
        (Asked::Owner { mac, .. }, Kind::Arp(_)) => build::arp_reply(frame.data_mut(), packet, mac),
        (Asked::Owner { mac, router }, Kind::Ip(_)) => {
            // The answer may be longer than a question without options.
            let len = frame.len().max(ADVERTISEMENT_LEN);
            frame.set_len(len).map_err(|_| DropReason::NoHeadroom)?;
            let flags = NaFlags {
                router,
                override_cached: true,
            };
            build::neighbour_advertisement(frame.data_mut(), packet, mac, flags)
        }
    }
    .map_err(|_| DropReason::UnhandledControl)?;
    frame.set_len(len).map_err(|_| DropReason::NoHeadroom)?;
    tag(frame, arrival.vlan)?;
    Ok(Outcome::Send {
        device_port: arrival.device_port,
    })
}

/// What a message asks for.
enum Asked {
    /// Nothing, or what only the asker itself could answer.
    Nothing,
    /// Who has an address; this MAC has.
    Owner { mac: Mac, router: bool },
    /// Who routes.
    Routers { asker: Addr, say: Advertisement },
}

fn ask_arp(rules: &Ruleset, port: &Port, arp: &Arp) -> Result<Asked, DropReason> {
    let probe = arp.sender_ip == Addr::from_v4([0; 4]);
    let own = arp.sender_mac == port.mac
        && (port.ips.contains(&arp.sender_ip) || probe && arp.op == ArpOp::Request);
    if !own {
        return Err(DropReason::SpoofedNeighbour);
    }
    match arp.op {
        ArpOp::Reply => Ok(Asked::Nothing),
        ArpOp::Request => owner(rules, port, arp.target_ip),
    }
}

fn ask_nd(rules: &Ruleset, port: &Port, ip: &Ip) -> Result<Asked, DropReason> {
    let L4::Neighbour(nd) = ip.l4_kind else {
        return Err(DropReason::UnhandledControl);
    };
    let Nd {
        kind,
        target,
        source_mac,
        target_mac,
        ..
    } = nd;
    let own_ip = |addr: Addr| port.ips.contains(&addr) || is_link_local(addr);
    let own_mac = |mac: Option<Mac>| mac.is_none_or(|mac| mac == port.mac);
    let sender = ip.tuple.src;
    match kind {
        NdKind::NeighbourSolicitation => {
            if !own_mac(source_mac) || !own_ip(sender) && sender != Addr(0) {
                return Err(DropReason::SpoofedNeighbour);
            }
            owner(rules, port, target)
        }
        NdKind::NeighbourAdvertisement => {
            if own_ip(sender) && own_ip(target) && own_mac(target_mac) {
                Ok(Asked::Nothing)
            } else {
                Err(DropReason::SpoofedNeighbour)
            }
        }
        NdKind::RouterSolicitation => {
            if !own_mac(source_mac) || !own_ip(sender) && sender != Addr(0) {
                return Err(DropReason::SpoofedNeighbour);
            }
            let say = Advertisement::of(rules, port).ok_or(DropReason::UnhandledControl)?;
            Ok(Asked::Routers { asker: sender, say })
        }
        // No port is a router.
        NdKind::RouterAdvertisement | NdKind::Redirect => Err(DropReason::SpoofedNeighbour),
    }
}

/// Whose MAC is to be named for `target`.
fn owner(rules: &Ruleset, port: &Port, target: Addr) -> Result<Asked, DropReason> {
    if target == router::LINK_LOCAL || rules.gateway(port.vni, target).is_some() {
        return Ok(Asked::Owner {
            mac: Mac::GATEWAY,
            router: true,
        });
    }
    // Duplicate detection: whoever has it is the asker.
    if port.ips.contains(&target) {
        return Ok(Asked::Nothing);
    }
    let endpoint = rules
        .endpoint(port.vni, target)
        .ok_or(DropReason::UnknownNeighbour)?;
    let near = rules
        .subnet(port.subnet)
        .is_some_and(|s| s.prefixes.iter().any(|p| p.contains(target)));
    Ok(Asked::Owner {
        mac: if near { endpoint.mac } else { Mac::GATEWAY },
        router: false,
    })
}

/// Link-local addresses are free to choose; they are never forwarded.
pub(super) fn is_link_local(addr: Addr) -> bool {
    addr.0 >> 118 == 0xfe80 >> 6
}
