//! The soft NIC: the stages of the P4 program, in its order.
//!
//! What they cannot answer is asked about: the slow path takes the frame as it
//! is here, untagged or decapsulated and otherwise as it came.

use penstock_flow::hash::source_port;
use penstock_flow::packet::{self, Ip, Kind, L4, Packet, Tunnel, tcp_flags};
use penstock_flow::tuple::proto;
use penstock_flow::{Addr, DropReason, Tuple};
use penstock_rules::Decision;

use super::arrival::Arrival;
use super::first::End;
use super::{Engine, control, dhcp, forward};
use crate::frame::{Frame, Outcome};
use crate::nic::flow::FlowKey;
use crate::nic::ranked::Fields;
use crate::nic::rows::Source;
use crate::nic::{AclAction, FlowAction};

/// The direction field of `acl`.
const LEAVING_A_PORT: u8 = 0;
const FROM_THE_WIRE: u8 = 1;

pub(super) const ROCEV2_PORT: u16 = 4791;
/// The queue pair of RoCE's connection manager.
const CONNECTION_MANAGER: u32 = 1;

/// What the match-action stages say.
enum Answer {
    /// To this next hop, by this flow entry or by a static rule.
    Forward {
        nexthop: u32,
        flow: Option<u32>,
    },
    Drop(DropReason),
    Ask,
}

impl Engine {
    /// vport, neighbour, spoof_guard.
    pub(super) fn port_frame(
        &mut self,
        now: u64,
        nic: usize,
        device_port: u32,
        frame: &mut Frame<'_>,
    ) -> Result<Outcome, DropReason> {
        let mut packet = packet::parse(frame.data())?;
        let this = self.nics.get(nic).ok_or(DropReason::UnknownPort)?;
        let (ingress, vni) = *this
            .tables
            .vport
            .get(&(device_port, packet.vlan))
            .ok_or(DropReason::UnknownPort)?;
        if !self.devices.is_home(device_port, packet.vlan, ingress) {
            return Err(DropReason::PortNotReady);
        }
        let arrival = Arrival {
            now,
            nic,
            device_port,
            vlan: packet.vlan,
            wire: false,
            ingress,
            vni,
            src_vtep: Addr(0),
            outer_ecn: 0,
            bytes: frame.len(),
        };
        forward::untag(frame, &mut packet)?;
        let ip = match packet.kind {
            Kind::Ip(ip) if !matches!(ip.l4_kind, L4::Neighbour(_) | L4::Dhcp(_)) => ip,
            Kind::Arp(_) | Kind::Ip(_) => {
                let outcome = self.question(&arrival, frame, &packet);
                self.counters.answered += u64::from(matches!(outcome, Ok(Outcome::Send { .. })));
                return outcome;
            }
        };
        let source = Source::new(ingress, packet.src_mac, ip.tuple.src);
        if this.tables.spoof_guard.find(&source).is_none() {
            return Err(self.unguarded(&arrival, &packet, &ip));
        }
        self.connection_stages(&arrival, frame, &packet, &ip)
    }

    /// What a port asks its gateway, whatever policy says about its traffic.
    fn question(
        &mut self,
        arrival: &Arrival,
        frame: &mut Frame<'_>,
        packet: &Packet,
    ) -> Result<Outcome, DropReason> {
        let rules = self.policies.rules().ok_or(DropReason::PortNotReady)?;
        let port = rules
            .port(arrival.ingress)
            .ok_or(DropReason::PortNotReady)?;
        let state = self.ports.get_mut(&arrival.ingress);
        let rate = self.config.questions_per_second;
        if !state.is_some_and(|state| state.questions.take(arrival.now, rate)) {
            return Err(DropReason::RateLimited);
        }
        let ip = packet.ip();
        match ip.map(|ip| (ip, ip.l4_kind)) {
            Some((ip, L4::Dhcp(dhcp))) => {
                let what = (packet, ip, dhcp);
                dhcp::ask(rules, port, arrival, frame, what, &mut self.scratch)
            }
            _ => control::neighbour(rules, port, arrival, frame, packet),
        }
    }

    /// Why a source that the guard does not know ends here. What every IPv6 host
    /// says to its link, joining groups for example, is no lie.
    fn unguarded(&mut self, arrival: &Arrival, packet: &Packet, ip: &Ip) -> DropReason {
        let (src, dst) = (ip.tuple.src, ip.tuple.dst);
        let of_the_link = src == Addr(0) || control::is_link_local(src);
        let mac = self.policies.port(arrival.ingress).map(|port| port.mac);
        if ip.v6 && of_the_link && dst.is_multicast() && mac == Some(packet.src_mac) {
            return DropReason::Multicast;
        }
        let end = End {
            port: arrival.ingress,
            ingress: false,
        };
        let reason = DropReason::Spoofed;
        self.record_denial(arrival, &end, &ip.tuple, reason, Decision::NoPort);
        reason
    }

    /// underlay, neighbour.
    pub(super) fn tunnel_frame(
        &mut self,
        now: u64,
        nic: usize,
        device_port: u32,
        frame: &mut Frame<'_>,
        tunnel: &Tunnel,
    ) -> Result<Outcome, DropReason> {
        let this = self.nics.get(nic).ok_or(DropReason::UnknownPort)?;
        let vni = *this
            .tables
            .underlay
            .get(&(tunnel.src_vtep, tunnel.dst_vtep, tunnel.vni))
            .ok_or(DropReason::UnknownTunnel)?;
        frame
            .set_len(usize::from(tunnel.end))
            .and_then(|()| frame.strip(usize::from(tunnel.inner)))
            .map_err(|_| DropReason::Truncated)?;
        // One level only: a tenant's own VXLAN is payload.
        let packet = packet::parse(frame.data())?;
        if usize::from(packet.l3) != packet::ETHERNET_LEN {
            // A tag of the far side's: a tunnel carries none.
            return Err(DropReason::Malformed);
        }
        let arrival = Arrival {
            now,
            nic,
            device_port,
            vlan: 0,
            wire: true,
            ingress: 0,
            vni,
            src_vtep: tunnel.src_vtep,
            outer_ecn: tunnel.tos & 3,
            bytes: frame.len(),
        };
        let Kind::Ip(ip) = packet.kind else {
            // Each node answers its own ports.
            return Err(DropReason::UnhandledControl);
        };
        if matches!(ip.l4_kind, L4::Neighbour(_) | L4::Dhcp(_)) {
            return Err(DropReason::UnhandledControl);
        }
        self.connection_stages(&arrival, frame, &packet, &ip)
    }

    /// state, fence, flow, acl, mapping, nexthop.
    fn connection_stages(
        &mut self,
        arrival: &Arrival,
        frame: &mut Frame<'_>,
        packet: &Packet,
        ip: &Ip,
    ) -> Result<Outcome, DropReason> {
        let queue_pair = roce(frame.data(), ip)?;
        if must_ask(arrival, packet, ip) || queue_pair == Some(CONNECTION_MANAGER) {
            return self.ask(arrival, frame, packet, ip);
        }
        match self.answer(arrival, &ip.tuple) {
            Answer::Drop(reason) => Err(reason),
            Answer::Ask => self.ask(arrival, frame, packet, ip),
            Answer::Forward { nexthop, flow } => {
                let this = self
                    .nics
                    .get_mut(arrival.nic)
                    .ok_or(DropReason::UnknownPort)?;
                let Ok(plan) =
                    forward::plan(this, &self.devices, arrival, frame, packet, ip, nexthop)
                else {
                    // The slow path knows what to say about it.
                    return self.ask(arrival, frame, packet, ip);
                };
                if let Some(flow) = flow.and_then(|slot| this.driver.row_mut(slot)) {
                    flow.hits.add(arrival.bytes);
                    flow.last_hit = arrival.now;
                }
                self.counters.nic.add(arrival.bytes);
                let sport = source_port(self.hash.flow(arrival.vni, &ip.tuple));
                plan.execute(this, frame, packet, ip, sport)
            }
        }
    }

    fn answer(&mut self, arrival: &Arrival, tuple: &Tuple) -> Answer {
        let Some(nic) = self.nics.get_mut(arrival.nic) else {
            return Answer::Ask;
        };
        let fields = Fields {
            direction: if arrival.wire {
                FROM_THE_WIRE
            } else {
                LEAVING_A_PORT
            },
            vni: arrival.vni,
            ingress: arrival.ingress,
            tuple,
        };
        if nic.driver.is_fenced(&fields, arrival.bytes) {
            return Answer::Ask;
        }
        let key = FlowKey {
            ingress: arrival.ingress,
            vni: arrival.vni,
            tuple: *tuple,
        };
        if let Some((slot, flow)) = nic.driver.meet(&key) {
            return match flow.action {
                FlowAction::Forward(nexthop) => Answer::Forward {
                    nexthop,
                    flow: Some(slot),
                },
                FlowAction::Deny => {
                    flow.hits.add(arrival.bytes);
                    flow.last_hit = arrival.now;
                    Answer::Drop(DropReason::DeniedAcl)
                }
            };
        }
        match nic.tables.acl.hit(&fields, arrival.bytes) {
            Some(AclAction::Drop) => Answer::Drop(DropReason::DeniedAcl),
            Some(AclAction::Allow) => {
                let nexthop = nic.tables.mapping.lookup(arrival.vni, tuple.dst);
                match nexthop {
                    // A port is closed before its first policy, whatever static
                    // rules say: `ends` knows.
                    Some(nexthop)
                        if self.policies.generation() != 0
                            && (arrival.wire || self.is_senders(arrival, tuple.src).is_ok())
                            && self.ends(arrival, tuple.dst, nexthop).is_ok() =>
                    {
                        Answer::Forward {
                            nexthop,
                            flow: None,
                        }
                    }
                    Some(_) | None => Answer::Ask,
                }
            }
            Some(AclAction::Ask) | None => Answer::Ask,
        }
    }
}

/// The destination queue pair of a RoCEv2 packet. UDP to its port is nothing
/// else: without a valid base transport header it is dropped.
fn roce(data: &[u8], ip: &Ip) -> Result<Option<u32>, DropReason> {
    if ip.l4_kind != L4::Udp || ip.tuple.dport != ROCEV2_PORT || ip.options {
        return Ok(None);
    }
    let udp = data.get(usize::from(ip.l4)..usize::from(ip.end));
    let Some([_, _, _, _, l0, l1, _, _, _, flags, _, _, _, q0, q1, q2, ..]) = udp else {
        return Err(DropReason::Malformed);
    };
    // 8 UDP, 12 BTH, 4 ICRC; transport version 0.
    if u16::from_be_bytes([*l0, *l1]) < 24 || flags & 0x0f != 0 {
        return Err(DropReason::Malformed);
    }
    Ok(Some(u32::from_be_bytes([0, *q0, *q1, *q2])))
}

/// What the slow path has to see whatever the tables say.
fn must_ask(arrival: &Arrival, packet: &Packet, ip: &Ip) -> bool {
    if ip.options || arrival.routed(packet) && ip.ttl <= 1 {
        return true;
    }
    match ip.l4_kind {
        L4::Tcp(tcp) => tcp.flags & (tcp_flags::SYN | tcp_flags::FIN | tcp_flags::RST) != 0,
        L4::Fragment(_) | L4::IcmpError(_) | L4::Neighbour(_) | L4::Dhcp(_) => true,
        // From a port other than a client's.
        L4::Udp => ip.tuple.dport == if ip.v6 { 547 } else { 67 },
        // A redirect would change routes.
        L4::Other => ip.tuple.proto == proto::ICMP && ip.tuple.dport >> 8 == 5,
        L4::Echo => false,
    }
}
