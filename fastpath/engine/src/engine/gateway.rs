//! The subnet's gateway, which every node is: ping, ICMP errors, and resets.

use alloc::boxed::Box;
use alloc::vec;

use penstock_flow::build::{self, IcmpErrorKind};
use penstock_flow::checksum;
use penstock_flow::packet::{Ip, L4, Packet};
use penstock_flow::{DropReason, Mac};
use penstock_rules::Ruleset;
use penstock_rules::model::Port;

use super::arrival::Arrival;
use super::forward::tag;
use crate::frame::{Frame, Outcome};

/// The longest ICMP error: 1280 bytes of IPv6 and an Ethernet header.
const ERROR_LEN: usize = 1294;

/// Where an answer is written while it still reads the frame that it replaces.
#[derive(Debug)]
pub(super) struct Scratch(Box<[u8]>);

impl Scratch {
    pub(super) fn new() -> Self {
        Self(vec![0; ERROR_LEN].into_boxed_slice())
    }

    pub(super) fn buffer(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// Answers a packet for a gateway address: ping, and nothing else.
pub(super) fn for_gateway(
    arrival: &Arrival,
    frame: &mut Frame<'_>,
    packet: &Packet,
    ip: &Ip,
) -> Result<Outcome, DropReason> {
    echo_reply(frame.data_mut(), packet, ip, Mac::GATEWAY)?;
    tag(frame, arrival.vlan)?;
    Ok(Outcome::Send {
        device_port: arrival.device_port,
    })
}

/// Turns an echo request into its reply, in place.
pub(super) fn echo_reply(
    data: &mut [u8],
    packet: &Packet,
    ip: &Ip,
    from: Mac,
) -> Result<(), DropReason> {
    let request: u16 = if ip.v6 { 0x8000 } else { 0x0800 };
    let reply: u16 = if ip.v6 { 0x8100 } else { 0x0000 };
    if ip.l4_kind != L4::Echo || ip.tuple.dport != request {
        return Err(DropReason::UnhandledControl);
    }
    build::set_macs(data, packet.src_mac, from);
    // Exchanging the addresses leaves every sum over them as it is.
    let (src, len) = if ip.v6 { (8, 16) } else { (12, 4) };
    let at = usize::from(packet.l3) + src;
    let pair = data
        .get_mut(at..at + 2 * len)
        .ok_or(DropReason::Truncated)?;
    let (a, b) = pair.split_at_mut(len);
    a.swap_with_slice(b);
    let l4 = usize::from(ip.l4);
    let icmp = data.get_mut(l4..l4 + 4).ok_or(DropReason::Truncated)?;
    if let [kind, code, s0, s1] = icmp {
        let sum = checksum::update(u16::from_be_bytes([*s0, *s1]), request, reply);
        [*kind, *code] = reply.to_be_bytes();
        [*s0, *s1] = sum.to_be_bytes();
    }
    Ok(())
}

/// Replaces the frame by an error about it for its sender, untagged, from the gateway
/// of `port`'s subnet. `None`: this packet gets no error.
pub(super) fn icmp_error(
    rules: &Ruleset,
    port: &Port,
    frame: &mut Frame<'_>,
    packet: &Packet,
    kind: IcmpErrorKind,
    scratch: &mut Scratch,
) -> Option<()> {
    let v4 = !packet.ip()?.v6;
    let subnet = rules.subnet(port.subnet)?;
    let gateway = *subnet.gateways.iter().find(|g| g.is_v4() == v4)?;
    let written = build::icmp_error(
        &mut scratch.0,
        frame.data(),
        packet,
        kind,
        gateway,
        Mac::GATEWAY,
    );
    let error = scratch.0.get(..written.ok()?)?;
    frame.set_len(error.len()).ok()?;
    frame.data_mut().copy_from_slice(error);
    Some(())
}

/// Replaces the frame, a TCP segment, by the reset that its receiver would answer it
/// with, untagged. `None`: this one gets none.
pub(super) fn tcp_reset(
    frame: &mut Frame<'_>,
    packet: &Packet,
    scratch: &mut Scratch,
) -> Option<()> {
    let written = build::tcp_reset(&mut scratch.0, packet, packet.dst_mac);
    let reset = scratch.0.get(..written.ok()?)?;
    frame.set_len(reset.len()).ok()?;
    frame.data_mut().copy_from_slice(reset);
    Some(())
}
