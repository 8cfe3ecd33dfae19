//! What is told of single packets: why one was refused, and what policy wants told of
//! those that pass. Each port has its share of each kind.

use penstock_flow::{DropReason, Tuple};
use penstock_rules::{Decision, Judgement};

use super::arrival::Arrival;
use super::first::End;
use super::{Engine, PortState};
use crate::bucket::Bucket;
use crate::record::{DropRecord, Event, Name};

impl Engine {
    /// A first packet was refused.
    pub(super) fn record_denial(
        &mut self,
        arrival: &Arrival,
        end: &End,
        tuple: &Tuple,
        reason: DropReason,
        decision: Decision,
    ) {
        let event = Event::Denied(reason);
        self.record(arrival, end, tuple, event, decision, |s| &mut s.denials);
    }

    /// A packet has opened a connection, or passes without one.
    pub(super) fn record_passed(
        &mut self,
        arrival: &Arrival,
        end: &End,
        tuple: &Tuple,
        judgement: &Judgement,
    ) {
        if let Some(audit) = judgement.audit {
            self.counters.judged.would_drop += 1;
            let event = Event::WouldDrop;
            self.record(arrival, end, tuple, event, audit, |s| &mut s.audits);
        }
        if judgement.log {
            self.counters.judged.logged += 1;
            let (event, decision) = (Event::Allowed, judgement.decision);
            self.record(arrival, end, tuple, event, decision, |s| &mut s.logs);
        }
    }

    fn record(
        &mut self,
        arrival: &Arrival,
        end: &End,
        tuple: &Tuple,
        event: Event,
        decision: Decision,
        share: impl FnOnce(&mut PortState) -> &mut Bucket,
    ) {
        let rate = self.config.drop_records_per_second;
        let state = self.ports.get_mut(&end.port);
        if !state.is_some_and(|state| share(state).take(arrival.now, rate)) {
            return;
        }
        let generation = self.policies.generation();
        self.records.push(DropRecord {
            at: arrival.now,
            event,
            port: end.port,
            vni: arrival.vni,
            tuple: *tuple,
            ingress: end.ingress,
            rule: Name::new(self.policies.rule_name(generation, decision)),
            generation,
        });
    }
}
