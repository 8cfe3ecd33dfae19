//! The packets' way.

use dpdk::{Burst, Mbuf};
use penstock_engine::{Engine, Frame, Outbox, Outcome, Owner};
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
        self.release(now);
        self.send_outbox();
        self.wire.flush();
    }

    /// Sees to all that the others have handed over so far: what they had decided on
    /// has left when this returns.
    pub fn empty_rings(&mut self) {
        if self.paused {
            return;
        }
        // What is handed over meanwhile is of later.
        for _ in 0..self.wire.peers.longest().div_ceil(BURST) {
            self.take_over();
        }
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
                    Handed::Piece {
                        device_port,
                        mbuf,
                        ports,
                    } => {
                        self.wire.handed.taken += 1;
                        self.run(device_port, mbuf, |engine, frame, out| {
                            engine.process_piece(now, device_port, ports, frame, out)
                        });
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
                self.give(lcore, received, device_port, len);
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

    fn decide(&mut self, now: u64, device_port: u32, mbuf: Mbuf) {
        self.run(device_port, mbuf, |engine, frame, out| {
            engine.process(now, device_port, frame, out)
        });
        self.release(now);
    }

    /// Frames whose wait is over.
    fn release(&mut self, now: u64) {
        while let Some(release) = self.engine.next_release() {
            let kept = self.waiting.get_mut(release.place() as usize);
            if let Some(mbuf) = kept.and_then(Option::take) {
                self.run(release.device_port(), mbuf, |engine, frame, out| {
                    engine.resume(now, release, frame, out)
                });
            }
        }
    }

    fn run(
        &mut self,
        device_port: u32,
        mut mbuf: Mbuf,
        decide: impl FnOnce(&mut Engine, &mut Frame<'_>, &mut Outbox) -> Outcome,
    ) {
        let (buf, start, len) = mbuf.frame_parts();
        // An mbuf's frame is inside its buffer, so neither refusal below can happen;
        // were one to, the frame is lost and nothing else.
        let Ok(mut frame) = Frame::new(buf, start, len) else {
            return;
        };
        let outcome = decide(&mut self.engine, &mut frame, &mut self.outbox);
        let (start, len) = (frame.start(), frame.len());
        if matches!(outcome, Outcome::Drop(_) | Outcome::Consumed)
            || mbuf.set_bounds(start, len).is_err()
        {
            return;
        }
        match outcome {
            Outcome::Send { device_port } => self.wire.queue(device_port, mbuf),
            Outcome::Hold { place } => {
                if let Some(kept) = self.waiting.get_mut(place as usize) {
                    *kept = Some(mbuf);
                }
            }
            Outcome::HandOver { lcore, ports } => {
                let piece = Handed::Piece {
                    device_port,
                    mbuf,
                    ports,
                };
                self.give(lcore, piece, device_port, len);
            }
            Outcome::Drop(_) | Outcome::Consumed => {}
        }
    }

    /// Hands a frame over that is to be decided on elsewhere.
    fn give(&mut self, lcore: u16, frame: Handed, device_port: u32, len: usize) {
        if self.wire.peers.hand(lcore, frame) {
            self.wire.handed.given += 1;
        } else {
            let reason = DropReason::HandoverFull;
            self.engine.refuse(device_port, len, reason);
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
