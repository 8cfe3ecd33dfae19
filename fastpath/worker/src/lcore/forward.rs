//! The packets' way.

use dpdk::{Burst, Mbuf};
use penstock_engine::{Frame, Outcome, Owner};
use penstock_flow::DropReason;

use super::Core;
use super::handover::Handed;

/// Frames received at once: enough to spread the cost of a call, few enough
/// that the first does not wait long for the last.
const BURST: usize = 32;

impl Core {
    /// One round over what other lcores have handed over and all ports; returns how many
    /// frames came in.
    pub(super) fn poll(&mut self) -> usize {
        let mut burst = Burst::new();
        let mut total = self.take_over();
        for index in 0..self.wire.len() {
            let (device_port, received) = self.wire.receive(index, &mut burst, BURST);
            if received == 0 {
                continue;
            }
            total += received;
            let now = self.clock.now();
            for mbuf in burst.drain() {
                if self.wire.peers.is_empty() {
                    self.decide(now, device_port, mbuf);
                } else {
                    self.steer(now, device_port, mbuf);
                }
            }
            self.send_outbox();
            self.wire.flush();
        }
        total
    }

    /// The engine's timers, and what they want sent.
    pub(super) fn tick(&mut self, now: u64) {
        self.engine.tick(now, &mut self.outbox);
        while let Some(old) = self.engine.take_retired() {
            self.retire(old);
        }
        self.send_outbox();
        self.wire.flush();
    }

    /// What the others have handed over: a burst of each.
    fn take_over(&mut self) -> usize {
        let mut total = 0;
        for ring in 0..self.wire.peers.incoming() {
            let mut now = 0;
            for _ in 0..BURST {
                let Some(handed) = self.wire.peers.take(ring) else {
                    break;
                };
                total += 1;
                if now == 0 {
                    now = self.clock.now();
                }
                match handed {
                    Handed::Received { device_port, mbuf } => {
                        self.wire.handed.taken += 1;
                        self.decide(now, device_port, mbuf);
                    }
                    Handed::Decided { device_port, mbuf } => {
                        self.wire.queue_here(device_port, mbuf);
                    }
                    Handed::Overheard { device_port, mbuf } => {
                        self.engine.observe(now, device_port, mbuf.data());
                    }
                }
            }
            if now != 0 {
                self.send_outbox();
                self.wire.flush();
            }
        }
        total
    }

    /// Decides on a frame here, or hands it to the lcore whose flow it is.
    fn steer(&mut self, now: u64, device_port: u32, mbuf: Mbuf) {
        match self.engine.owner(device_port, mbuf.data()) {
            Owner::Here => self.decide(now, device_port, mbuf),
            Owner::Lcore(lcore) => {
                let len = mbuf.len();
                let received = Handed::Received { device_port, mbuf };
                if self.wire.peers.hand(lcore, received) {
                    self.wire.handed.given += 1;
                } else {
                    self.engine
                        .refuse(device_port, len, DropReason::HandoverFull);
                }
            }
            Owner::Everyone => {
                for lcore in self.wire.peers.others() {
                    let Some(Ok(mbuf)) = self.pool.map(|pool| pool.alloc_from(mbuf.data())) else {
                        self.wire.lost.no_buffer += 1;
                        continue;
                    };
                    let copy = Handed::Overheard { device_port, mbuf };
                    if !self.wire.peers.hand(lcore, copy) {
                        self.wire.lost.copies += 1;
                    }
                }
                self.decide(now, device_port, mbuf);
            }
        }
    }

    fn decide(&mut self, now: u64, device_port: u32, mut mbuf: Mbuf) {
        let (buf, start, len) = mbuf.frame_parts();
        // An mbuf's frame is inside its buffer, so neither refusal below can happen;
        // were one to, the frame is lost and nothing else.
        let Ok(mut frame) = Frame::new(buf, start, len) else {
            return;
        };
        let outcome = self
            .engine
            .process(now, device_port, &mut frame, &mut self.outbox);
        let (start, len) = (frame.start(), frame.len());
        match outcome {
            Outcome::Send { device_port } => {
                if mbuf.set_bounds(start, len).is_ok() {
                    self.wire.queue(device_port, mbuf);
                }
            }
            Outcome::Drop(_) | Outcome::Consumed => {}
        }
    }

    fn send_outbox(&mut self) {
        if self.outbox.is_empty() {
            return;
        }
        for (device_port, bytes) in self.outbox.frames() {
            match self.pool.map(|pool| pool.alloc_from(bytes)) {
                Some(Ok(mbuf)) => self.wire.queue(device_port, mbuf),
                _ => self.wire.lost.no_buffer += 1,
            }
        }
        self.outbox.clear();
    }
}
