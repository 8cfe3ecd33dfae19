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
    let answer = match &packet.kind {
        Kind::Arp(arp) => ask_arp(rules, port, arp)?,
        Kind::Ip(ip) => ask_nd(rules, port, ip)?,
    };
    let Some(Owner { mac, router }) = answer else {
        return Ok(Outcome::Consumed);
    };
    let len = match packet.kind {
        Kind::Arp(_) => build::arp_reply(frame.data_mut(), packet, mac),
        Kind::Ip(_) => {
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

struct Owner {
    mac: Mac,
    router: bool,
}

/// Who is asked for; `None`: nothing to answer.
fn ask_arp(rules: &Ruleset, port: &Port, arp: &Arp) -> Result<Option<Owner>, DropReason> {
    let probe = arp.sender_ip == Addr::from_v4([0; 4]);
    let own = arp.sender_mac == port.mac
        && (port.ips.contains(&arp.sender_ip) || probe && arp.op == ArpOp::Request);
    if !own {
        return Err(DropReason::SpoofedNeighbour);
    }
    match arp.op {
        ArpOp::Reply => Ok(None),
        ArpOp::Request => owner(rules, port, arp.target_ip),
    }
}

fn ask_nd(rules: &Ruleset, port: &Port, ip: &Ip) -> Result<Option<Owner>, DropReason> {
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
                Ok(None)
            } else {
                Err(DropReason::SpoofedNeighbour)
            }
        }
        // Ports have addresses before they have links: nothing to configure.
        NdKind::RouterSolicitation => Err(DropReason::UnhandledControl),
        // No port is a router.
        NdKind::RouterAdvertisement | NdKind::Redirect => Err(DropReason::SpoofedNeighbour),
    }
}

/// Whose MAC is to be named for `target`; `None`: it is the asker's own.
fn owner(rules: &Ruleset, port: &Port, target: Addr) -> Result<Option<Owner>, DropReason> {
    if rules.gateway(port.vni, target).is_some() {
        return Ok(Some(Owner {
            mac: Mac::GATEWAY,
            router: true,
        }));
    }
    if port.ips.contains(&target) {
        return Ok(None);
    }
    let endpoint = rules
        .endpoint(port.vni, target)
        .ok_or(DropReason::UnknownNeighbour)?;
    let near = rules
        .policy()
        .subnets
        .get(&port.subnet)
        .is_some_and(|s| s.prefixes.iter().any(|p| p.contains(target)));
    Ok(Some(Owner {
        mac: if near { endpoint.mac } else { Mac::GATEWAY },
        router: false,
    }))
}

/// Link-local addresses are free to choose; they are never forwarded.
fn is_link_local(addr: Addr) -> bool {
    addr.0 >> 118 == 0xfe80 >> 6
}
