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
use penstock_flow::packet::{Ip, L4, Packet};
use penstock_flow::{Addr, DropReason, Tuple};

use super::arrival::Arrival;
use super::first::{End, Finding, query, refusal};
use super::forward::{self, Blocked, Plan};
use super::{Engine, fragments, gateway};
use crate::frame::{Frame, Outcome};
use crate::nic::Hop;

/// Where a packet goes, and which of its ends are here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub(super) nexthop: u32,
    pub(super) ends: [Option<End>; 2],
}

/// Why a packet goes nowhere. It is still as it came.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stop {
    Drop(DropReason),
    /// Its sender is told; where that is not possible, it is dropped for the reason.
    Tell(IcmpErrorKind, DropReason),
    /// Policy refuses it, and its sender is told so.
    Reject(DropReason),
    /// It is for the gateway itself.
    Gateway,
}

impl Stop {
    pub(super) fn reason(&self) -> DropReason {
        match self {
            Self::Drop(reason) | Self::Tell(_, reason) | Self::Reject(reason) => *reason,
            Self::Gateway => DropReason::UnhandledControl,
        }
    }
}

impl From<DropReason> for Stop {
    fn from(reason: DropReason) -> Self {
        Self::Drop(reason)
    }
}

impl From<Stop> for DropReason {
    fn from(stop: Stop) -> Self {
        stop.reason()
    }
}

impl From<Blocked> for Stop {
    fn from(blocked: Blocked) -> Self {
        match blocked {
            Blocked::TooBig { mtu } => {
                Self::Tell(IcmpErrorKind::TooBig { mtu }, DropReason::Oversized)
            }
            Blocked::Other(reason) => Self::Drop(reason),
        }
    }
}

impl Engine {
    /// Decides about a packet that the NIC stages ask about.
    pub(super) fn ask(
        &mut self,
        arrival: &Arrival,
        frame: &mut Frame<'_>,
        packet: &Packet,
        ip: &Ip,
    ) -> Result<Outcome, DropReason> {
        if let Some(piece) = fragments::of(ip) {
            return self.piece(arrival, frame, packet, ip, &piece);
        }
        let way = self.way(arrival, packet, ip);
        match way.and_then(|way| self.decide(arrival, frame, packet, ip, &way)) {
            Ok(outcome) => Ok(outcome),
            Err(Stop::Gateway) => {
                let outcome = gateway::for_gateway(arrival, frame, packet, ip);
                self.counters.answered += u64::from(outcome.is_ok());
                outcome
            }
            Err(stop) => self.tell(arrival, frame, packet, stop),
        }
    }

    /// Where a packet goes, whatever policy says about it.
    pub(super) fn way(&self, arrival: &Arrival, packet: &Packet, ip: &Ip) -> Result<Way, Stop> {
        let dst = ip.tuple.dst;
        if packet.dst_mac.is_multicast() || dst.is_multicast() || dst == Addr::from_v4([255; 4]) {
            return Err(DropReason::Multicast.into());
        }
        if !arrival.wire {
            let rules = self.policies.rules().ok_or(DropReason::PortNotReady)?;
            self.is_senders(arrival, ip.tuple.src)?;
            if rules.gateway(arrival.vni, dst).is_some() {
                return Err(Stop::Gateway);
            }
            if arrival.routed(packet) && ip.ttl <= 1 {
                let kind = IcmpErrorKind::TimeExceeded;
                return Err(Stop::Tell(kind, DropReason::TtlExceeded));
            }
        }
        let nic = self.nics.get(arrival.nic).ok_or(DropReason::NoRoute)?;
        let nexthop = nic
            .tables
            .mapping
            .lookup(arrival.vni, dst)
            .ok_or(DropReason::NoRoute)?;
        let ends = self.ends(arrival, dst, nexthop)?;
        Ok(Way { nexthop, ends })
    }

    /// Connections and policy; then it goes.
    pub(super) fn decide(
        &mut self,
        arrival: &Arrival,
        frame: &mut Frame<'_>,
        packet: &Packet,
        ip: &Ip,
        way: &Way,
    ) -> Result<Outcome, Stop> {
        let ends = &way.ends;
        let findings = match &ip.l4_kind {
            L4::IcmpError(error) => self.related(arrival, ends, ip, error)?,
            _ => self.inspected(arrival, ends, ip)?,
        };
        let plan = self.plan(arrival, frame, packet, ip, way.nexthop)?;
        let flow = match &ip.l4_kind {
            L4::IcmpError(error) => &error.inner,
            _ => &ip.tuple,
        };
        let handles = self.commit(arrival, ends, &findings, &ip.tuple)?;
        let by_itself = |f: &Option<Finding>| matches!(f, Some(Finding::Stateless { .. }));
        if !findings.iter().any(by_itself) {
            self.offer(arrival, handles);
        }
        Ok(self.go(arrival, frame, packet, ip, &plan, flow)?)
    }

    /// What each end makes of a packet that may open a connection.
    fn inspected(
        &mut self,
        arrival: &Arrival,
        ends: &[Option<End>; 2],
        ip: &Ip,
    ) -> Result<[Option<Finding>; 2], Stop> {
        let mut findings = [None, None];
        for (i, (finding, end)) in findings.iter_mut().zip(ends).enumerate() {
            if let Some(end) = end {
                let found = self.inspect(arrival, end, ip);
                let other = ends.get(1 - i).copied().flatten();
                *finding = Some(found.map_err(|stop| self.at_either(stop, other, ip))?);
            }
        }
        self.admit(arrival.now, ends, &findings)?;
        Ok(findings)
    }

    /// What belongs to no connection at one end, and would be rejected at the other, is
    /// rejected: a flow that is cut there has ended at both.
    fn at_either(&self, stop: Stop, other: Option<End>, ip: &Ip) -> Stop {
        match (stop, other) {
            (Stop::Drop(reason @ DropReason::InvalidState), Some(other)) => {
                let judgement = self.policies.judge(&query(&other, &ip.tuple));
                refusal(&judgement, reason)
            }
            _ => stop,
        }
    }

    pub(super) fn plan(
        &self,
        arrival: &Arrival,
        frame: &Frame<'_>,
        packet: &Packet,
        ip: &Ip,
        nexthop: u32,
    ) -> Result<Plan, Blocked> {
        let no_route = Blocked::Other(DropReason::NoRoute);
        let nic = self.nics.get(arrival.nic).ok_or(no_route)?;
        forward::plan(nic, &self.devices, arrival, frame, packet, ip, nexthop)
    }

    /// Sends what nothing stands in the way of, as a packet of `flow`.
    pub(super) fn go(
        &mut self,
        arrival: &Arrival,
        frame: &mut Frame<'_>,
        packet: &Packet,
        ip: &Ip,
        plan: &Plan,
        flow: &Tuple,
    ) -> Result<Outcome, DropReason> {
        let sport = source_port(self.hash.flow(arrival.vni, flow));
        self.counters.slow.add(arrival.bytes);
        let nic = self.nics.get(arrival.nic).ok_or(DropReason::NoRoute)?;
        plan.execute(nic, frame, packet, ip, sport)
    }

    /// From a port: whether policy has it in this VPC and with this address, too.
    /// Tables are written after a policy, entry by entry.
    pub(super) fn is_senders(&self, arrival: &Arrival, src: Addr) -> Result<(), DropReason> {
        let port = self.policies.port_in(arrival.ingress, arrival.vni);
        let port = port.ok_or(DropReason::PortNotReady)?;
        if port.ips.contains(&src) {
            Ok(())
        } else {
            Err(DropReason::Spoofed)
        }
    }

    /// The local ends of a packet to `dst`: its sender and its receiver. Refused
    /// where it must not go there, whatever policy says of its traffic.
    pub(super) fn ends(
        &self,
        arrival: &Arrival,
        dst: Addr,
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
                if !self.devices.is_home(device_port, vlan, port) {
                    return Err(DropReason::PortNotReady);
                }
                let receiver = self.policies.port_in(port, vni);
                let receiver = receiver.ok_or(DropReason::PortNotReady)?;
                if !receiver.ips.contains(&dst) {
                    return Err(DropReason::NoRoute);
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
}
