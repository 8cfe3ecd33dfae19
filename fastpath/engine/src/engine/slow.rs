//! The slow path: every check that a NIC stage has not made, connections, and
//! policy on the first packet.
//!
//! A packet has one or two ends here: the port that sent it and the port that
//! receives it. Each has a connection of its own and is judged by its own
//! policy; a packet between two local ports passes both. Everything is looked
//! at first; only when nothing stands in the way, connections are written and
//! the frame is changed.

use penstock_flow::build::IcmpErrorKind;
use penstock_flow::hash::source_port;
use penstock_flow::packet::{IcmpError, Ip, L4, Packet};
use penstock_flow::{Addr, DropReason, Key};

use super::arrival::Arrival;
use super::first::End;
use super::forward::{self, Blocked};
use super::{Engine, gateway};
use crate::frame::{Frame, Outcome};
use crate::nic::Hop;

impl Engine {
    /// Decides about a packet that the NIC stages ask about.
    pub(super) fn ask(
        &mut self,
        arrival: &Arrival,
        frame: &mut Frame<'_>,
        packet: &Packet,
        ip: &Ip,
    ) -> Result<Outcome, DropReason> {
        let dst = ip.tuple.dst;
        if packet.dst_mac.is_multicast() || dst.is_multicast() || dst == Addr::from_v4([255; 4]) {
            return Err(DropReason::Multicast);
        }
        if matches!(ip.l4_kind, L4::Fragment(_)) {
            return Err(DropReason::Fragment);
        }
        if !arrival.wire {
            let rules = self.policies.rules().ok_or(DropReason::PortNotReady)?;
            if rules.port(arrival.ingress).is_none() {
                return Err(DropReason::PortNotReady);
            }
            if rules.gateway(arrival.vni, dst).is_some() {
                let outcome = gateway::for_gateway(arrival, frame, packet, ip);
                self.counters.answered += u64::from(outcome.is_ok());
                return outcome;
            }
            if arrival.routed(packet) && ip.ttl <= 1 {
                let kind = IcmpErrorKind::TimeExceeded;
                return self.answer_error(arrival, frame, packet, kind, DropReason::TtlExceeded);
            }
        }
        let nic = self.nics.get(arrival.nic).ok_or(DropReason::NoRoute)?;
        let nexthop = nic
            .tables
            .mapping
            .lookup(arrival.vni, dst)
            .ok_or(DropReason::NoRoute)?;
        let ends = self.ends(arrival, nexthop)?;

        if let L4::IcmpError(error) = &ip.l4_kind {
            self.related(arrival, &ends, ip, error)?;
        }
        let tracked = !matches!(ip.l4_kind, L4::IcmpError(_));
        let mut findings = [None, None];
        if tracked {
            for (finding, end) in findings.iter_mut().zip(&ends) {
                if let Some(end) = end {
                    *finding = Some(self.inspect(arrival, end, ip)?);
                }
            }
            self.admit(arrival.now, &ends, &findings)?;
        }

        let nic = self.nics.get(arrival.nic).ok_or(DropReason::NoRoute)?;
        let plan = match forward::plan(nic, arrival, frame, packet, ip, nexthop) {
            Ok(plan) => plan,
            Err(Blocked::TooBig { mtu }) => {
                let kind = IcmpErrorKind::TooBig { mtu };
                return self.answer_error(arrival, frame, packet, kind, DropReason::Oversized);
            }
            Err(blocked) => return Err(blocked.into()),
        };

        let flow = match &ip.l4_kind {
            L4::IcmpError(error) => &error.inner,
            _ => &ip.tuple,
        };
        let sport = source_port(self.hash.flow(arrival.vni, flow));
        if tracked {
            let handles = self.commit(arrival, &ends, &findings)?;
            for handle in handles.iter().flatten() {
                self.refresh(*handle);
            }
            self.offer(arrival, handles);
        }
        self.counters.slow.add(arrival.bytes);
        let nic = self.nics.get(arrival.nic).ok_or(DropReason::NoRoute)?;
        plan.execute(nic, frame, packet, ip, sport)
    }

    /// The packet's local ends: its sender and its receiver. Refused where it
    /// must not go there, whatever policy says.
    pub(super) fn ends(
        &self,
        arrival: &Arrival,
        nexthop: u32,
    ) -> Result<[Option<End>; 2], DropReason> {
        let nic = self.nics.get(arrival.nic).ok_or(DropReason::NoRoute)?;
        let hop = nic
            .tables
            .nexthop
            .get(&nexthop)
            .ok_or(DropReason::NoRoute)?;
        let sender = (!arrival.wire).then_some(End {
            port: arrival.ingress,
            ingress: false,
        });
        let receiver = match hop.hop {
            Hop::ToPort {
                device_port, vlan, ..
            } => {
                let (port, vni) = *nic
                    .tables
                    .vport
                    .get(&(device_port, vlan))
                    .ok_or(DropReason::NoRoute)?;
                // Nobody reaches itself through the network, and a mapping
                // never leads from one VPC into another.
                if port == arrival.ingress || vni != arrival.vni {
                    return Err(DropReason::NoRoute);
                }
                if self.policies.port(port).is_none() {
                    return Err(DropReason::PortNotReady);
                }
                Some(End {
                    port,
                    ingress: true,
                })
            }
            Hop::ToVtep { .. } if arrival.wire => return Err(DropReason::Reflected),
            Hop::ToVtep { .. } => None,
            Hop::ToFrontEnd { .. } => return Err(DropReason::NoRoute),
        };
        Ok([sender, receiver])
    }

    /// An ICMP error belongs to the connection of the packet that it quotes.
    fn related(
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
        // The peer is known by its connection, whatever the path; another sender
        // only by where it lives.
        let peer = ip.tuple.src == error.inner.dst;
        if arrival.wire && !peer && !self.source_is_there(arrival, ip.tuple.src) {
            return Err(DropReason::WrongVtep);
        }
        Ok(())
    }

    /// Answers with an ICMP error as the sender's gateway, or drops.
    fn answer_error(
        &mut self,
        arrival: &Arrival,
        frame: &mut Frame<'_>,
        packet: &Packet,
        kind: IcmpErrorKind,
        reason: DropReason,
    ) -> Result<Outcome, DropReason> {
        let rate = self.config.icmp_errors_per_second;
        let state = self.ports.get_mut(&arrival.ingress).ok_or(reason)?;
        if !state.errors.take(arrival.now, rate) {
            return Err(reason);
        }
        let rules = self.policies.rules().ok_or(reason)?;
        let port = rules.port(arrival.ingress).ok_or(reason)?;
        let outcome =
            gateway::icmp_error(rules, port, arrival, frame, packet, kind, &mut self.scratch)
                .ok_or(reason)?;
        self.counters.answered += 1;
        Ok(outcome)
    }
}
