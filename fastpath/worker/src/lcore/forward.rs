//! The packets' way.

use dpdk::{Burst, Mbuf};
use penstock_engine::{Frame, Outcome};

use super::Core;

/// Frames received at once: enough to spread the cost of a call, few enough
/// that the first does not wait long for the last.
const BURST: usize = 32;

impl Core {
    /// One round over all ports; returns how many frames came in.
    pub(super) fn poll(&mut self) -> usize {
        let mut burst = Burst::new();
        let mut total = 0;
        for index in 0..self.wire.len() {
            let (device_port, received) = self.wire.receive(index, &mut burst, BURST);
            if received == 0 {
                continue;
            }
            total += received;
            let now = self.clock.now();
            for mbuf in burst.drain() {
                self.decide(now, device_port, mbuf);
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
