//! What a polling thread does when nothing arrives.
//!
//! It polls on for a while, because the next packet of a busy exchange is near,
//! and then sleeps between two looks. The shortest sleep that Linux gives lasts
//! as long as the thread's timer slack, 50 us: that is the latency the first
//! packet after a pause pays, in exchange for a CPU that is nearly free.

use std::time::Duration;

/// Polled without sleeping after the last packet.
const SPIN: u64 = 100_000;
/// After this long without any, sleeps are longer.
const DOZE: u64 = 1_000_000_000;
/// Rounded up by the timer slack to about 55 us.
const NAP: Duration = Duration::from_nanos(1);
/// About 250 us.
const LONG_NAP: Duration = Duration::from_micros(200);

#[derive(Debug)]
pub(super) struct Idle {
    last_work: u64,
}

impl Idle {
    pub(super) fn new(now: u64) -> Self {
        Self { last_work: now }
    }

    pub(super) fn rest(&mut self, now: u64, worked: bool) {
        if worked {
            self.last_work = now;
            return;
        }
        match now.saturating_sub(self.last_work) {
            0..SPIN => std::hint::spin_loop(),
            SPIN..DOZE => std::thread::sleep(NAP),
            _ => std::thread::sleep(LONG_NAP),
        }
    }
}
