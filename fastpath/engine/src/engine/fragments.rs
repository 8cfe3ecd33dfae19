//! Pieces of packets: each is judged as a packet of its flow.
//!
//! The first piece has the transport's header: it may open a connection as any packet
//! may. The others take their ports from it, pass only where each local end of the flow
//! has its connection or needs none, and change nothing about it. A piece that comes before
//! the first waits, as it came, and then goes the whole way again: tables and policy
//! may have changed meanwhile.

use penstock_flow::packet::{Fragment, Ip, L4, Packet, first_piece};
use penstock_flow::tuple::proto;
use penstock_flow::{DropReason, Key, Tuple};

use super::arrival::Arrival;
use super::first::{denied, query};
use super::slow::{Stop, Way};
use super::stages::ROCEV2_PORT;
use super::{Engine, forward};
use crate::fragments::{self, Meet, Ports, Release, Verdict};
use crate::frame::{Frame, Outcome};
use crate::outbox::Outbox;

/// What is known of a piece before it is looked at.
#[derive(Clone, Copy, Debug)]
pub(super) enum Given {
    /// It has waited for a packet of this name, whose ports these are.
    Waited(fragments::Key, Ports),
    /// Its home has these ports of it, and its flow is here.
    FromHome(Ports),
}

/// A piece and the way that it would go.
struct Part<'a> {
    arrival: &'a Arrival,
    packet: &'a Packet,
    ip: &'a Ip,
    way: Way,
}

impl Engine {
    /// Frames that may wait at once: places are numbered below this.
    #[must_use]
    pub fn places(&self) -> u32 {
        self.fragments.places()
    }

    /// A frame whose wait is over; to be called after each
    /// [`process`](Self::process) and each [`tick`](Self::tick), until `None`.
    #[inline]
    pub fn next_release(&mut self) -> Option<Release> {
        self.fragments.next_release()
    }

    /// As [`process`](Self::process), for a frame that has waited in the release's
    /// place: as it was left there. It does not wait again.
    pub fn resume(
        &mut self,
        now: u64,
        release: Release,
        frame: &mut Frame<'_>,
        out: &mut Outbox,
    ) -> Outcome {
        self.now = now;
        self.counters.waiting = self.counters.waiting.saturating_sub(1);
        let device_port = release.device_port();
        let result = match release.verdict {
            Verdict::Drop(reason) => Err(reason),
            Verdict::Pass(ports) => {
                self.given = Some(Given::Waited(release.key, ports));
                let result = self.receive(now, device_port, frame);
                self.given = None;
                result
            }
        };
        self.conclude(now, device_port, frame, out, result)
    }

    /// As [`process`](Self::process), for a fragment that another lcore has
    /// [handed over](Outcome::HandOver). It neither waits nor goes further.
    pub fn process_piece(
        &mut self,
        now: u64,
        device_port: u32,
        ports: Ports,
        frame: &mut Frame<'_>,
        out: &mut Outbox,
    ) -> Outcome {
        self.given = Some(Given::FromHome(ports));
        let outcome = self.process(now, device_port, frame, out);
        self.given = None;
        outcome
    }

    pub(super) fn piece(
        &mut self,
        arrival: &Arrival,
        frame: &mut Frame<'_>,
        packet: &Packet,
        ip: &Ip,
        piece: &Fragment,
    ) -> Result<Outcome, DropReason> {
        let first = piece.offset == 0;
        // What has no way in or out is not worth a place.
        let way = match self.way(arrival, packet, ip) {
            Ok(way) => way,
            Err(stop) if first => return self.tell(arrival, frame, packet, stop),
            Err(stop) => return Err(stop.into()),
        };
        if arrival.wire && !self.source_is_there(arrival, ip.tuple.src) {
            return Err(DropReason::WrongVtep);
        }
        let part = Part {
            arrival,
            packet,
            ip,
            way,
        };
        let key = fragments::Key {
            ingress: arrival.ingress,
            vni: arrival.vni,
            src: ip.tuple.src,
            dst: ip.tuple.dst,
            proto: ip.tuple.proto,
            id: piece.id,
        };
        let ports = match self.given.take() {
            Some(Given::FromHome(_)) if first => {
                let result = self.first(&part, frame);
                return result.or_else(|stop| self.tell(arrival, frame, packet, stop));
            }
            Some(Given::FromHome(ports)) => return self.later(&part, frame, ports),
            Some(Given::Waited(name, ports)) if name == key => ports,
            // Its port is another's by now.
            Some(Given::Waited(..)) => return Err(DropReason::Fragment),
            None => {
                let device_port = arrival.device_port;
                match self.fragments.meet(arrival.now, &key, piece, device_port)? {
                    Meet::Later(ports) => ports,
                    Meet::First => return self.meet_first(&part, frame, &key),
                    Meet::Wait { place } => {
                        as_it_came(&part, frame)?;
                        return Ok(Outcome::Hold { place });
                    }
                }
            }
        };
        match self.elsewhere(ip, ports) {
            Some(lcore) => {
                as_it_came(&part, frame)?;
                Ok(Outcome::HandOver { lcore, ports })
            }
            None => self.later(&part, frame, ports),
        }
    }

    /// The first piece of a packet, at its home.
    fn meet_first(
        &mut self,
        part: &Part<'_>,
        frame: &mut Frame<'_>,
        key: &fragments::Key,
    ) -> Result<Outcome, DropReason> {
        let Part {
            arrival,
            packet,
            ip,
            ..
        } = *part;
        let ports = Ports {
            sport: ip.tuple.sport,
            dport: ip.tuple.dport,
        };
        if let Some(lcore) = self.elsewhere(ip, ports) {
            // What is refused there is refused piece by piece.
            let judged = Verdict::Pass(ports);
            self.fragments.judged(arrival.now, key, judged);
            as_it_came(part, frame)?;
            return Ok(Outcome::HandOver { lcore, ports });
        }
        let result = self.first(part, frame);
        let judged = match &result {
            Ok(_) => Verdict::Pass(ports),
            Err(stop) => Verdict::Drop(stop.reason()),
        };
        self.fragments.judged(arrival.now, key, judged);
        result.or_else(|stop| self.tell(arrival, frame, packet, stop))
    }

    fn first(&mut self, part: &Part<'_>, frame: &mut Frame<'_>) -> Result<Outcome, Stop> {
        let Part {
            arrival,
            packet,
            ip,
            way,
        } = part;
        let whole = first_piece(frame.data(), ip)?;
        if whole.tuple.proto == proto::UDP && whole.tuple.dport == ROCEV2_PORT {
            // RoCE is never sent in fragments: its integrity check covers the header.
            return Err(DropReason::Fragment.into());
        }
        self.decide(arrival, frame, packet, &whole, way)
    }

    /// One more piece of what has passed with these ports.
    fn later(
        &mut self,
        part: &Part<'_>,
        frame: &mut Frame<'_>,
        ports: Ports,
    ) -> Result<Outcome, DropReason> {
        let Part {
            arrival,
            packet,
            ip,
            way,
        } = *part;
        let tuple = with(ip, ports);
        let mut handles = [None, None];
        let mut incomplete = false;
        for (handle, end) in handles.iter_mut().zip(&way.ends) {
            let Some(end) = end else { continue };
            let (key, _) = Key::new(end.port, &tuple);
            if let Some(found) = self.connections.find(&key) {
                self.rejudge(arrival.now, found)?;
                if self.connections.get(found).is_some() {
                    *handle = Some(found);
                    continue;
                }
            }
            let judgement = self.policies.judge(&query(end, &tuple));
            if !judgement.allow() {
                // This lcore was maybe not asked for the first piece.
                return Err(denied(end.ingress));
            }
            // Without its connection, which then is over.
            incomplete |= judgement.stateful;
        }
        if incomplete {
            return Err(DropReason::InvalidState);
        }
        let plan = self.plan(arrival, frame, packet, ip, way.nexthop)?;
        for handle in handles.into_iter().flatten() {
            if let Some(entry) = self.connections.get_mut(handle) {
                entry.value.slow.add(arrival.bytes);
            }
        }
        self.go(arrival, frame, packet, ip, &plan, &tuple)
    }

    /// The lcore that a piece's flow belongs to, where it is another.
    fn elsewhere(&self, ip: &Ip, ports: Ports) -> Option<u16> {
        let shard = self.config.shard;
        if shard.count <= 1 {
            return None;
        }
        let owner = self.shard_of(&with(ip, ports));
        (owner != shard.index).then_some(owner)
    }
}

fn with(ip: &Ip, Ports { sport, dport }: Ports) -> Tuple {
    Tuple {
        sport,
        dport,
        ..ip.tuple
    }
}

/// As it came, but for the priority of a tag. What is before the tunnel's frame is
/// whole.
fn as_it_came(part: &Part<'_>, frame: &mut Frame<'_>) -> Result<(), DropReason> {
    forward::tag(frame, part.arrival.vlan)
}

/// Whether this is one piece of a packet, and which.
pub(super) fn of(ip: &Ip) -> Option<Fragment> {
    match ip.l4_kind {
        L4::Fragment(piece) => Some(piece),
        _ => None,
    }
}
