//! What each local end of a packet makes of it, before anything is changed: the
//! connection that it belongs to, or policy's word on a new one.

use penstock_flow::conntrack::{Handle, Tracker, Verdict};
use penstock_flow::packet::{Ip, VXLAN_PORT};
use penstock_flow::tuple::proto;
use penstock_flow::{Addr, DropReason, Key, Orientation, Tuple};
use penstock_rules::model::{Direction, PortId};
use penstock_rules::{Judgement, Query, Verdict as Word};

use super::arrival::Arrival;
use super::slow::Stop;
use super::{Engine, forward};

/// One of a packet's local ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) port: PortId,
    /// The packet goes to the port.
    pub(super) ingress: bool,
}

/// What an end makes of a packet that may pass.
#[derive(Clone, Copy, Debug)]
pub(super) enum Finding {
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
        judgement: Judgement,
        /// Opened towards the port.
        ingress: bool,
        /// Not from its first packet.
        adopted: bool,
        /// One with the same key that is over.
        replaces: Option<Handle>,
    },
    /// It passes by itself: nothing is known of it before and after.
    Stateless {
        judgement: Judgement,
        /// A connection with its key that is over.
        replaces: Option<Handle>,
    },
}

impl Engine {
    /// What `end` makes of the packet.
    pub(super) fn inspect(
        &mut self,
        arrival: &Arrival,
        end: &End,
        ip: &Ip,
    ) -> Result<Finding, Stop> {
        let (key, orientation) = Key::new(end.port, &ip.tuple);
        let mut replaces = None;
        if let Some(handle) = self.connections.find(&key) {
            match self.rejudge(arrival.now, handle) {
                // Of a time when the port was another's: this packet's is ready, and
                // the connection is gone.
                Ok(()) | Err(DropReason::PortNotReady) => {}
                Err(reason) => return Err(reason.into()),
            }
            if let Some(entry) = self.connections.get(handle) {
                let mut tracker = entry.value.tracker;
                if entry.value.offloaded() {
                    tracker.moved_unseen();
                }
                match tracker.packet(entry.direction(orientation), ip) {
                    Verdict::Invalid => return Err(DropReason::InvalidState.into()),
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
        // Inside it policy could not be judged. A reply to this port is no tunnel.
        if ip.tuple.proto == proto::UDP && ip.tuple.dport == VXLAN_PORT {
            return Err(DropReason::NestedTunnel.into());
        }
        if arrival.wire && !self.source_is_there(arrival, ip.tuple.src) {
            return Err(DropReason::WrongVtep.into());
        }
        let judgement = self.policies.judge(&query(end, &ip.tuple));
        if judgement.allow() && !judgement.stateful {
            return Ok(Finding::Stateless {
                judgement,
                replaces,
            });
        }
        let Some(tracker) = Tracker::open(ip) else {
            let adopted = self.adopt(arrival, end, ip, replaces);
            return adopted.map_err(|reason| refusal(&judgement, reason));
        };
        if !judgement.allow() {
            let reason = denied(end.ingress);
            self.record_denial(arrival, end, &ip.tuple, reason, judgement.decision);
            return Err(refusal(&judgement, reason));
        }
        Ok(Finding::New {
            key,
            orientation,
            tracker,
            judgement,
            ingress: end.ingress,
            adopted: false,
            replaces,
        })
    }

    /// A packet that can open nothing: while recovering, maybe one from the
    /// midst of a connection that was lost. Which end had opened it is not
    /// known, so policy may permit either.
    fn adopt(
        &mut self,
        arrival: &Arrival,
        end: &End,
        ip: &Ip,
        replaces: Option<Handle>,
    ) -> Result<Finding, DropReason> {
        if arrival.now >= self.recovering {
            return Err(DropReason::InvalidState);
        }
        let mut tracker = Tracker::adopt(ip).ok_or(DropReason::InvalidState)?;
        // Whose numbers these are is as uncertain.
        tracker.moved_unseen();
        let reply = ip.tuple.reply().ok_or(DropReason::InvalidState)?;
        let other = End {
            ingress: !end.ingress,
            ..*end
        };
        for (end, tuple) in [(end, &ip.tuple), (&other, &reply)] {
            let judgement = self.policies.judge(&query(end, tuple));
            if judgement.allow() && judgement.stateful {
                let (key, orientation) = Key::new(end.port, tuple);
                return Ok(Finding::New {
                    key,
                    orientation,
                    tracker,
                    judgement,
                    ingress: end.ingress,
                    adopted: true,
                    replaces,
                });
            }
        }
        Err(denied(end.ingress))
    }

    /// From the wire: whether the inner source lives behind the outer one.
    pub(super) fn source_is_there(&self, arrival: &Arrival, src: Addr) -> bool {
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
    pub(super) fn admit(
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
            if rate != 0 && !state.opens.take(now, rate) {
                return Err(DropReason::RateLimited);
            }
        }
        Ok(())
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

/// How a packet that policy does not let pass ends.
pub(super) fn refusal(judgement: &Judgement, reason: DropReason) -> Stop {
    match judgement.verdict {
        Word::Reject => Stop::Reject(reason),
        Word::Allow | Word::Deny => Stop::Drop(reason),
    }
}
