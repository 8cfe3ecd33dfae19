//! DHCP on a port: the gateway answers from the policy snapshot, for nobody but
//! the port itself.
//!
//! An address is the port's because the policy says so, not because it was
//! leased: nothing is remembered here, every node says the same, and a client
//! that moves with its port keeps what it has.

use penstock_flow::dhcp::{v4, v6};
use penstock_flow::packet::{Dhcp, Ip, Packet};
use penstock_flow::{Addr, DropReason, Mac};
use penstock_rules::Ruleset;
use penstock_rules::model::{Port, Subnet};

use super::arrival::Arrival;
use super::control::is_link_local;
use super::forward::tag;
use super::gateway::Scratch;
use super::router;
use crate::frame::{Frame, Outcome};

const NOBODY: Addr = Addr::from_v4([0; 4]);
/// All_DHCP_Relay_Agents_and_Servers
const SERVERS: Addr = Addr(0xff02_0000_0000_0000_0000_0000_0001_0002);

/// A client's message that `port` has sent.
pub(super) fn ask(
    rules: &Ruleset,
    port: &Port,
    arrival: &Arrival,
    frame: &mut Frame<'_>,
    (packet, ip, family): (&Packet, &Ip, Dhcp),
    scratch: &mut Scratch,
) -> Result<Outcome, DropReason> {
    if packet.src_mac != port.mac {
        return Err(DropReason::SpoofedNeighbour);
    }
    let subnet = rules.subnet(port.subnet).ok_or(DropReason::PortNotReady)?;
    let out = scratch.buffer();
    let written = match family {
        Dhcp::V4 => {
            let to_us = ip.tuple.dst == Addr::from_v4([255; 4])
                || rules.gateway(port.vni, ip.tuple.dst).is_some();
            if !to_us {
                return Err(DropReason::UnhandledControl);
            }
            ask_v4(subnet, port, frame.data(), ip, out)?
        }
        Dhcp::V6 if ip.tuple.dst == SERVERS => ask_v6(port, frame.data(), packet, ip, out)?,
        Dhcp::V6 => return Err(DropReason::UnhandledControl),
        Dhcp::Server => return Err(DropReason::SpoofedNeighbour),
    };
    let Some(len) = written else {
        return Ok(Outcome::Consumed);
    };
    let answer = out.get(..len).ok_or(DropReason::NoHeadroom)?;
    frame.set_len(len).map_err(|_| DropReason::NoHeadroom)?;
    frame.data_mut().copy_from_slice(answer);
    tag(frame, arrival.vlan)?;
    Ok(Outcome::Send {
        device_port: arrival.device_port,
    })
}

/// Writes the answer; `None`: there is none to give.
fn ask_v4(
    subnet: &Subnet,
    port: &Port,
    frame: &[u8],
    ip: &Ip,
    out: &mut [u8],
) -> Result<Option<usize>, DropReason> {
    let message = v4::parse(frame, ip)?;
    let own = |addr: &Addr| port.ips.contains(addr);
    let sender = ip.tuple.src;
    if message.mac != port.mac || !own(&sender) && sender != NOBODY {
        return Err(DropReason::SpoofedNeighbour);
    }
    // A port is a workload's: nobody sends through it for others.
    let relayed = message.relayed;
    let gateway = subnet.gateways.iter().find(|gateway| gateway.is_v4());
    let first = port.ips.iter().find(|ip| ip.is_v4());
    let (Some(gateway), Some(first), false) = (gateway, first, relayed) else {
        return Err(DropReason::UnhandledControl);
    };
    if message.server.is_some_and(|server| server != *gateway) {
        return Err(DropReason::UnhandledControl);
    }
    let current = Some(message.current).filter(|addr| *addr != NOBODY);
    let (say, addr) = match message.kind {
        v4::Kind::Decline | v4::Kind::Release => return Ok(None),
        v4::Kind::Discover => {
            let addr = message.requested.filter(own).unwrap_or(*first);
            (v4::Say::Offer(addr), addr)
        }
        v4::Kind::Request => match message.requested.or(current) {
            Some(addr) if own(&addr) => (v4::Say::Ack(addr), addr),
            Some(_) => (v4::Say::Nak, *first),
            None => return Err(DropReason::Malformed),
        },
        v4::Kind::Inform => match current {
            Some(addr) if own(&addr) => (v4::Say::Informed, addr),
            _ => return Err(DropReason::SpoofedNeighbour),
        },
    };
    // The answer may go to it.
    if say != v4::Say::Nak && current.is_some_and(|addr| !own(&addr)) {
        return Err(DropReason::SpoofedNeighbour);
    }
    let prefix = subnet.prefixes.iter().find(|prefix| prefix.contains(addr));
    let network = v4::Network {
        gateway: *gateway,
        gateway_mac: Mac::GATEWAY,
        prefix_len: prefix.map_or(32, |prefix| prefix.len().saturating_sub(96)),
        mtu: subnet.mtu,
    };
    let len = v4::answer(out, &message, say, &network).map_err(|_| DropReason::NoHeadroom)?;
    Ok(Some(len))
}

fn ask_v6(
    port: &Port,
    frame: &[u8],
    packet: &Packet,
    ip: &Ip,
    out: &mut [u8],
) -> Result<Option<usize>, DropReason> {
    let message = v6::parse(frame, ip)?;
    let sender = ip.tuple.src;
    if !is_link_local(sender) && !port.ips.contains(&sender) {
        return Err(DropReason::SpoofedNeighbour);
    }
    let duid = v6::server_duid(Mac::GATEWAY);
    if message.server.is_some_and(|server| server != duid) {
        return Err(DropReason::UnhandledControl);
    }
    let say = match message.kind {
        v6::Kind::Solicit if message.rapid_commit => v6::Say::Reply,
        v6::Kind::Solicit => v6::Say::Advertise,
        v6::Kind::Request | v6::Kind::Renew | v6::Kind::Rebind => v6::Say::Reply,
        v6::Kind::Release | v6::Kind::Decline => v6::Say::Status(v6::Status::Success),
        v6::Kind::Information => v6::Say::Nothing,
        v6::Kind::Confirm => {
            let mut named = message.addresses().peekable();
            if named.peek().is_none() {
                // RFC 8415, section 18.3.3: no answer.
                return Err(DropReason::Malformed);
            }
            v6::Say::Status(if named.all(|addr| port.ips.contains(&addr)) {
                v6::Status::Success
            } else {
                v6::Status::NotOnLink
            })
        }
    };
    let ends = v6::Ends {
        server_mac: Mac::GATEWAY,
        server: router::LINK_LOCAL,
        client_mac: packet.src_mac,
        client: sender,
    };
    let len =
        v6::answer(out, &message, say, &ends, &port.ips).map_err(|_| DropReason::NoHeadroom)?;
    Ok(Some(len))
}
