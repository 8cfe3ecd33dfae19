//! The underlay: it answers for every VTEP, at once.

use penstock_flow::build::{self, NaFlags};
use penstock_flow::packet::{ArpOp, Kind, L4, NdKind, parse};
use penstock_flow::{Addr, Mac};

use super::Bed;

/// Rounds in which a new engine gets to know its neighbours: each asks as many as an
/// outbox holds.
const ROUNDS: usize = 4096;
/// Bytes of the longest answer.
const ANSWER: usize = 128;

impl Bed<'_> {
    /// A new engine says where it is and finds its neighbours, as a worker has long
    /// done when the first packet comes.
    pub(super) fn settle(&mut self, now: u64, index: usize) {
        for _ in 0..ROUNDS {
            let Some(node) = self.nodes.get_mut(index).and_then(Option::as_mut) else {
                return;
            };
            node.tick(now);
            if node.outbox.is_empty() {
                return;
            }
            self.answer_underlay(now, index);
        }
    }

    /// What an engine itself wants sent. Questions to the underlay are answered; what
    /// it tells its ports unasked (router advertisements) goes nowhere.
    pub(super) fn answer_underlay(&mut self, now: u64, index: usize) {
        let (Some(Some(node)), Some(planned)) =
            (self.nodes.get_mut(index), self.plan.nodes.get(index))
        else {
            return;
        };
        let asked: Vec<(u32, Vec<u8>)> = node
            .outbox
            .frames()
            .filter(|(device_port, _)| planned.uplink_at(*device_port).is_some())
            .map(|(device_port, frame)| (device_port, frame.to_vec()))
            .collect();
        node.outbox.clear();
        let answers: Vec<(u32, Vec<u8>)> = asked
            .into_iter()
            .filter_map(|(device_port, frame)| {
                let answer = answer(frame, |vtep| self.uplink_mac(vtep))?;
                Some((device_port, answer))
            })
            .collect();
        if let Some(Some(node)) = self.nodes.get_mut(index) {
            for (device_port, frame) in answers {
                node.run(&frame, |engine, frame, out| {
                    engine.process(now, device_port, frame, out)
                });
            }
        }
    }
}

/// What whoever is asked for would answer.
fn answer(mut frame: Vec<u8>, mac_of: impl Fn(Addr) -> Option<Mac>) -> Option<Vec<u8>> {
    let packet = parse(&frame).ok()?;
    frame.resize(ANSWER, 0);
    let len = match &packet.kind {
        // An announcement asks nothing.
        Kind::Arp(arp) if arp.op == ArpOp::Request && arp.sender_ip != arp.target_ip => {
            build::arp_reply(&mut frame, &packet, mac_of(arp.target_ip)?)
        }
        Kind::Ip(ip) => match ip.l4_kind {
            L4::Neighbour(nd) if nd.kind == NdKind::NeighbourSolicitation => {
                let flags = NaFlags {
                    router: false,
                    override_cached: true,
                };
                build::neighbour_advertisement(&mut frame, &packet, mac_of(nd.target)?, flags)
            }
            _ => return None,
        },
        Kind::Arp(_) => return None,
    };
    frame.truncate(len.ok()?);
    Some(frame)
}
