//! ICMP errors: those that connections get, and those that the gateway sends.

use penstock_flow::hash::source_port;
use penstock_flow::packet::{self, IcmpError, Ip, Packet};
use penstock_flow::{DropReason, Key};
use penstock_rules::model::PortId;

use super::arrival::Arrival;
use super::first::End;
use super::slow::Stop;
use super::{Engine, gateway};
use crate::frame::{Frame, Outcome};
use crate::nic::Hop;

impl Engine {
    /// An ICMP error belongs to the connection of the packet that it quotes.
    pub(super) fn related(
        &mut self,
        arrival: &Arrival,
        ends: &[Option<End>; 2],
        ip: &Ip,
        error: &IcmpError,
    ) -> Result<(), DropReason> {
        // It goes to whoever sent that packet.
        if error.inner.src != ip.tuple.dst {
            return Err(DropReason::UnrelatedError);
        }
        for end in ends.iter().flatten() {
            let (key, _) = Key::new(end.port, &error.inner);
            let handle = self
                .connections
                .find(&key)
                .ok_or(DropReason::UnrelatedError)?;
            self.rejudge(arrival.now, handle)?;
        }
        // The peer is known by its connection, whatever the path; its node, which
        // speaks as the gateway, and another sender only by where they live.
        let src = ip.tuple.src;
        let peer = src == error.inner.dst;
        if arrival.wire && !peer {
            let rules = self.policies.rules().ok_or(DropReason::PortNotReady)?;
            let lives = match rules.gateway(arrival.vni, src) {
                Some(_) => error.inner.dst,
                None => src,
            };
            if !self.source_is_there(arrival, lives) {
                return Err(DropReason::WrongVtep);
            }
        }
        Ok(())
    }

    /// Answers with an ICMP error as the sender's gateway where that is the thing to
    /// do; else drops.
    pub(super) fn tell(
        &mut self,
        arrival: &Arrival,
        frame: &mut Frame<'_>,
        packet: &Packet,
        stop: Stop,
    ) -> Result<Outcome, DropReason> {
        let Stop::Tell(kind, reason) = stop else {
            return Err(stop.reason());
        };
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
        gateway::icmp_error(rules, port, frame, packet, kind, scratch).ok_or(reason)?;
        let outcome = if arrival.wire {
            self.send_back(arrival, frame).ok_or(reason)?
        } else {
            super::forward::tag(frame, arrival.vlan).map_err(|_| reason)?;
            Outcome::Send {
                device_port: arrival.device_port,
            }
        };
        self.counters.answered += 1;
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

    /// Sends the gateway's error to where the packet that it is about came from: into
    /// the tunnel to that VTEP, and nowhere else.
    fn send_back(&self, arrival: &Arrival, frame: &mut Frame<'_>) -> Option<Outcome> {
        let error = packet::parse(frame.data()).ok()?;
        let ip = error.ip()?;
        let packet::L4::IcmpError(about) = ip.l4_kind else {
            return None;
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
        let plan = self.plan(&from_here, frame, &error, ip, nexthop).ok()?;
        let sport = source_port(self.hash.flow(arrival.vni, &about.inner));
        plan.execute(nic, frame, &error, ip, sport).ok()
    }
}
