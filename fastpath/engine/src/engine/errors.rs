//! ICMP errors: those that connections get, those that the gateway sends, and what else
//! a sender is told.

use penstock_flow::build::IcmpErrorKind;
use penstock_flow::hash::source_port;
use penstock_flow::packet::{self, IcmpError, Ip, Packet};
use penstock_flow::{DropReason, Key};
use penstock_rules::model::PortId;

use super::arrival::Arrival;
use super::first::{End, Finding, query};
use super::slow::Stop;
use super::{Engine, gateway};
use crate::frame::{Frame, Outcome};
use crate::nic::Hop;

impl Engine {
    /// An ICMP error belongs to the connection of the packet that it quotes. Where there
    /// is none, it passes as a packet of its own, if policy lets it without a connection.
    pub(super) fn related(
        &mut self,
        arrival: &Arrival,
        ends: &[Option<End>; 2],
        ip: &Ip,
        error: &IcmpError,
    ) -> Result<[Option<Finding>; 2], DropReason> {
        // It goes to whoever sent that packet.
        if error.inner.src != ip.tuple.dst {
            return Err(DropReason::UnrelatedError);
        }
        let mut findings = [None, None];
        for (finding, end) in findings.iter_mut().zip(ends) {
            if let Some(end) = end {
                *finding = self.relate(arrival, end, ip, error)?;
            }
        }
        // The peer is known by its connection, whatever the path; its node, which
        // speaks as the gateway, and another sender only by where they live.
        let src = ip.tuple.src;
        let by_connection = src == error.inner.dst && findings.iter().all(Option::is_none);
        if arrival.wire && !by_connection {
            let rules = self.policies.rules().ok_or(DropReason::PortNotReady)?;
            let lives = match rules.gateway(arrival.vni, src) {
                Some(_) => error.inner.dst,
                None => src,
            };
            if !self.source_is_there(arrival, lives) {
                return Err(DropReason::WrongVtep);
            }
        }
        Ok(findings)
    }

    /// What an end makes of an ICMP error; `None`: its connection's.
    fn relate(
        &mut self,
        arrival: &Arrival,
        end: &End,
        ip: &Ip,
        error: &IcmpError,
    ) -> Result<Option<Finding>, DropReason> {
        let (key, _) = Key::new(end.port, &error.inner);
        if let Some(handle) = self.connections.find(&key) {
            self.rejudge(arrival.now, handle)?;
            if self.connections.get(handle).is_some() {
                return Ok(None);
            }
        }
        let judgement = self.policies.judge(&query(end, &ip.tuple));
        if judgement.allow() && !judgement.stateful {
            return Ok(Some(Finding::Stateless {
                judgement,
                replaces: None,
            }));
        }
        Err(DropReason::UnrelatedError)
    }

    /// Answers where that is the thing to do: with an ICMP error as the sender's
    /// gateway, or with a TCP reset as the receiver; else drops.
    pub(super) fn tell(
        &mut self,
        arrival: &Arrival,
        frame: &mut Frame<'_>,
        packet: &Packet,
        stop: Stop,
    ) -> Result<Outcome, DropReason> {
        let (kind, reason) = match stop {
            Stop::Tell(kind, reason) => (kind, reason),
            Stop::Reject(reason) => (IcmpErrorKind::Prohibited, reason),
            Stop::Drop(_) | Stop::Gateway => return Err(stop.reason()),
        };
        let rejected = matches!(stop, Stop::Reject(_));
        let port = if arrival.wire {
            self.receiver(arrival, packet).ok_or(reason)?
        } else {
            arrival.ingress
        };
        let rate = self.config.icmp_errors_per_second;
        let state = self.ports.get_mut(&port).ok_or(reason)?;
        if !state.errors.take(arrival.now, rate) {
            return Err(reason);
        }
        let rules = self.policies.rules().ok_or(reason)?;
        let port = rules.port(port).ok_or(reason)?;
        let scratch = &mut self.scratch;
        // Of a fragmented segment not all is there that a reset must tell.
        let is_segment = packet
            .ip()
            .is_some_and(|ip| matches!(ip.l4_kind, packet::L4::Tcp(_)));
        if rejected && is_segment {
            gateway::tcp_reset(frame, packet, scratch).ok_or(reason)?;
        } else {
            gateway::icmp_error(rules, port, frame, packet, kind, scratch).ok_or(reason)?;
        }
        let outcome = if arrival.wire {
            self.send_back(arrival, frame).ok_or(reason)?
        } else {
            super::forward::tag(frame, arrival.vlan).map_err(|_| reason)?;
            Outcome::Send {
                device_port: arrival.device_port,
            }
        };
        self.counters.answered += 1;
        self.counters.judged.rejected += u64::from(rejected);
        Ok(outcome)
    }

    /// The port here that a packet is for.
    fn receiver(&self, arrival: &Arrival, packet: &Packet) -> Option<PortId> {
        let nic = self.nics.get(arrival.nic)?;
        let dst = packet.ip()?.tuple.dst;
        let nexthop = nic.tables.mapping.lookup(arrival.vni, dst)?;
        match nic.tables.nexthop.get(&nexthop)?.hop {
            Hop::ToPort {
                device_port, vlan, ..
            } => nic
                .tables
                .vport
                .get(&(device_port, vlan))
                .map(|(port, _)| *port),
            Hop::ToVtep { .. } | Hop::ToFrontEnd { .. } => None,
        }
    }

    /// Sends an answer to where the packet that it is about came from: into the tunnel
    /// to that VTEP, and nowhere else.
    fn send_back(&self, arrival: &Arrival, frame: &mut Frame<'_>) -> Option<Outcome> {
        let answer = packet::parse(frame.data()).ok()?;
        let ip = answer.ip()?;
        let flow = match &ip.l4_kind {
            packet::L4::IcmpError(error) => error.inner,
            packet::L4::Tcp(_) => ip.tuple,
            _ => return None,
        };
        if !self.source_is_there(arrival, ip.tuple.dst) {
            return None;
        }
        let nic = self.nics.get(arrival.nic)?;
        let nexthop = nic.tables.mapping.lookup(arrival.vni, ip.tuple.dst)?;
        let from_here = Arrival {
            wire: false,
            outer_ecn: 0,
            bytes: frame.len(),
            ..*arrival
        };
        let plan = self.plan(&from_here, frame, &answer, ip, nexthop).ok()?;
        let sport = source_port(self.hash.flow(arrival.vni, &flow));
        plan.execute(nic, frame, &answer, ip, sport).ok()
    }
}
