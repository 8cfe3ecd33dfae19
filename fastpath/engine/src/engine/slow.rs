//! The slow path: every check that a NIC stage has not made, connections, and
//! policy on the first packet.
//!
//! A packet has one or two ends here: the port that sent it and the port that
//! receives it. Each has a connection of its own and is judged by its own
//! policy; a packet between two local ports passes both. Everything is looked
//! at first; only when nothing stands in the way, connections are written and
//! the frame is changed.

use penstock_flow::build::IcmpErrorKind;
use penstock_flow::conntrack::{Handle, Tracker, Verdict};
use penstock_flow::hash::source_port;
use penstock_flow::packet::{IcmpError, Ip, L4, Packet};
use penstock_flow::{Addr, DropReason, Key, Orientation, Tuple};
use penstock_rules::model::{Direction, PortId};
use penstock_rules::{Decision, Query};

use super::arrival::Arrival;
use super::forward::{self, Blocked};
use super::{Engine, gateway};
use crate::connections::Connection;
use crate::counters::Traffic;
use crate::frame::{Frame, Outcome};
use crate::nic::exact::NONE;
use crate::nic::{FlowAction, Hop};
use crate::record::{DropRecord, Event, Name};

/// One of a packet's local ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) port: PortId,
    /// The packet goes to the port.
    pub(super) ingress: bool,
}

/// What an end makes of a packet that may pass.
#[derive(Clone, Copy, Debug)]
enum Finding {
    /// It belongs to this connection, which then is here.
    Known {
        handle: Handle,
        tracker: Tracker,
        renews: bool,
    },
    /// It opens one.
    New {
        key: Key,
        orientation: Orientation,
        tracker: Tracker,
        decision: Decision,
        /// One with the same key that is over.
        replaces: Option<Handle>,
    },
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
            self.related(&ends, ip, error, arrival.now)?;
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
        plan.execute(frame, packet, ip, sport)
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

    /// What `end` makes of the packet.
    fn inspect(&mut self, arrival: &Arrival, end: &End, ip: &Ip) -> Result<Finding, DropReason> {
        let (key, orientation) = Key::new(end.port, &ip.tuple);
        let mut replaces = None;
        if let Some(handle) = self.connections.find(&key) {
            self.rejudge(arrival.now, handle)?;
            if let Some(entry) = self.connections.get(handle) {
                let mut tracker = entry.value.tracker;
                if entry.value.offloaded() {
                    tracker.moved_unseen();
                }
                match tracker.packet(entry.direction(orientation), ip) {
                    Verdict::Invalid => return Err(DropReason::InvalidState),
                    Verdict::Reopen => replaces = Some(handle),
                    verdict => {
                        return Ok(Finding::Known {
                            handle,
                            tracker,
                            renews: verdict == Verdict::Pass,
                        });
                    }
                }
            }
        }
        if arrival.wire && !self.source_is_there(arrival, ip.tuple.src) {
            return Err(DropReason::WrongVtep);
        }
        let tracker = Tracker::open(ip).ok_or(DropReason::InvalidState)?;
        let judgement = self.policies.judge(&query(end, &ip.tuple));
        if !judgement.allow {
            let reason = denied(end.ingress);
            self.drops.push(DropRecord {
                at: arrival.now,
                event: Event::Denied(reason),
                port: end.port,
                vni: arrival.vni,
                tuple: ip.tuple,
                ingress: end.ingress,
                rule: Name::new(
                    self.policies
                        .rule_name(self.policies.generation(), judgement.decision),
                ),
                generation: self.policies.generation(),
            });
            return Err(reason);
        }
        Ok(Finding::New {
            key,
            orientation,
            tracker,
            decision: judgement.decision,
            replaces,
        })
    }

    /// From the wire: whether the inner source lives behind the outer one.
    fn source_is_there(&self, arrival: &Arrival, src: Addr) -> bool {
        let Some(nic) = self.nics.get(arrival.nic) else {
            return false;
        };
        nic.tables
            .mapping
            .lookup(arrival.vni, src)
            .and_then(|nexthop| forward::far_vtep(nic, nexthop))
            == Some(arrival.src_vtep)
    }

    /// Whether the ends may have one more connection each.
    fn admit(
        &mut self,
        now: u64,
        ends: &[Option<End>; 2],
        findings: &[Option<Finding>; 2],
    ) -> Result<(), DropReason> {
        let rate = self.config.opens_per_second;
        for (end, finding) in ends.iter().zip(findings) {
            let (Some(end), Some(Finding::New { .. })) = (end, finding) else {
                continue;
            };
            let state = self
                .ports
                .get_mut(&end.port)
                .ok_or(DropReason::PortNotReady)?;
            if state.connections >= self.config.max_connections_per_port {
                return Err(DropReason::TableFull);
            }
            if rate != 0 && !state.opens.take(now, rate) {
                return Err(DropReason::RateLimited);
            }
        }
        Ok(())
    }

    /// Writes down what has been found.
    fn commit(
        &mut self,
        arrival: &Arrival,
        ends: &[Option<End>; 2],
        findings: &[Option<Finding>; 2],
    ) -> Result<[Option<Handle>; 2], DropReason> {
        // Those that are here must not make room for those that come.
        let mut handles = findings.map(|finding| match finding {
            Some(Finding::Known { handle, .. }) => Some(handle),
            _ => None,
        });
        let mut created: Option<Handle> = None;
        for (i, (end, finding)) in ends.iter().zip(findings).enumerate() {
            let (Some(end), Some(finding)) = (end, finding) else {
                continue;
            };
            let peer = ends
                .get(1 - i)
                .copied()
                .flatten()
                .map_or(0, |other| other.port);
            let handle = match *finding {
                Finding::Known {
                    handle,
                    tracker,
                    renews,
                } => {
                    self.follow(arrival, handle, peer, tracker, renews);
                    handle
                }
                Finding::New {
                    key,
                    orientation,
                    tracker,
                    decision,
                    replaces,
                } => {
                    if let Some(old) = replaces {
                        self.counters.connections.expired += 1;
                        self.forget(old);
                    }
                    let connection = Connection {
                        vni: arrival.vni,
                        nic: arrival.nic,
                        ingress: end.ingress,
                        peer,
                        generation: self.policies.generation(),
                        decision,
                        tracker,
                        slow: Traffic::default(),
                        nic_before: Traffic::default(),
                        flows: [NONE; 2],
                        last_seen: arrival.now,
                    };
                    match self.open(arrival, key, orientation, connection, &handles) {
                        Ok(handle) => {
                            created = created.or(Some(handle));
                            handle
                        }
                        Err(reason) => {
                            if let Some(first) = created {
                                self.forget(first);
                            }
                            return Err(reason);
                        }
                    }
                }
            };
            if let Some(slot) = handles.get_mut(i) {
                *slot = Some(handle);
            }
        }
        Ok(handles)
    }

    /// One more packet of a connection that is there.
    fn follow(
        &mut self,
        arrival: &Arrival,
        handle: Handle,
        peer: PortId,
        tracker: Tracker,
        renews: bool,
    ) {
        let Some(entry) = self.connections.get(handle) else {
            return;
        };
        let c = &entry.value;
        let moved = c.peer != peer || c.nic != arrival.nic;
        if c.offloaded() && (moved || !tracker.offloadable() || !self.flows_lead_there(c)) {
            self.withdraw(handle);
        }
        let timeout = tracker.timeout(&self.config.timeouts);
        let Some(entry) = self.connections.get_mut(handle) else {
            return;
        };
        let c = &mut entry.value;
        c.peer = peer;
        c.nic = arrival.nic;
        c.tracker = tracker;
        if c.offloaded() {
            c.tracker.moved_unseen();
        }
        c.slow.add(arrival.bytes);
        if renews {
            c.last_seen = arrival.now;
        }
        let deadline = c.last_seen.saturating_add(timeout);
        self.connections.expire_at(handle, deadline);
    }

    /// Whether a connection's flow entries still name the next hops that its
    /// destinations are mapped to.
    fn flows_lead_there(&self, connection: &Connection) -> bool {
        let Some(nic) = self.nics.get(connection.nic) else {
            return false;
        };
        connection.flows.iter().all(|slot| {
            nic.tables.flow.at(*slot).is_some_and(|(key, flow)| {
                let nexthop = nic.tables.mapping.lookup(key.vni, key.tuple.dst);
                nexthop.map(FlowAction::Forward) == Some(flow.action)
            })
        })
    }

    /// A new connection, whatever has to go for it.
    fn open(
        &mut self,
        arrival: &Arrival,
        key: Key,
        original: Orientation,
        mut connection: Connection,
        kept: &[Option<Handle>; 2],
    ) -> Result<Handle, DropReason> {
        connection.slow.add(arrival.bytes);
        let decision = connection.decision;
        let timeout = connection.tracker.timeout(&self.config.timeouts);
        let deadline = arrival.now.saturating_add(timeout);
        if self.connections.is_full() {
            let victim = self
                .connections
                .victim(arrival.now, kept)
                .ok_or(DropReason::TableFull)?;
            self.counters.connections.evicted += 1;
            self.forget(victim);
        }
        let handle = self
            .connections
            .insert(key, original, deadline, connection)
            .map_err(|_| DropReason::TableFull)?;
        if let Some(state) = self.ports.get_mut(&key.port()) {
            state.connections += 1;
        }
        self.counters.connections.opened += 1;
        self.counters.connections.live += 1;
        self.policies.count(decision);
        Ok(handle)
    }

    /// An ICMP error belongs to the connection of the packet that it quotes.
    fn related(
        &mut self,
        ends: &[Option<End>; 2],
        ip: &Ip,
        error: &IcmpError,
        now: u64,
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
            self.rejudge(now, handle)?;
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

/// How policy is asked about a packet at one of its ends.
pub(super) fn query(end: &End, tuple: &Tuple) -> Query {
    let (direction, peer) = if end.ingress {
        (Direction::Ingress, tuple.src)
    } else {
        (Direction::Egress, tuple.dst)
    };
    Query {
        direction,
        port: end.port,
        peer,
        proto: tuple.proto,
        sport: tuple.sport,
        dport: tuple.dport,
    }
}

/// Why a packet ends at an end that refuses it.
pub(super) fn denied(ingress: bool) -> DropReason {
    if ingress {
        DropReason::DeniedIngress
    } else {
        DropReason::DeniedEgress
    }
}
