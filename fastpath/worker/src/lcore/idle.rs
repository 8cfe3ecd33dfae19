//! What a polling thread does when nothing arrives.
//!
//! It polls on for a while, because the next packet of a busy exchange is near; then it
//! sleeps between two looks: briefly at first, for as long as the operator allows after a
//! second of silence. The shortest sleep that Linux gives lasts as long as the thread's
//! timer slack, 50 us. So the first packet after a pause waits up to 55 us, after a long one
//! up to the longest sleep, in exchange for a processor that is nearly free: each look
//! costs some 20 us of it, most of them the kernel's.

use std::time::Duration;

/// Polled without sleeping after the last packet.
const SPIN: u64 = 100_000;
/// After this long without any, sleeps are as long as allowed.
const DOZE: u64 = 1_000_000_000;
/// Rounded up by the timer slack.
const NAP: Duration = Duration::from_nanos(1);

#[derive(Debug)]
pub(super) struct Idle {
    last_work: u64,
    longest: Duration,
    /// There are fewer processors than threads that poll.
    crowded: bool,
}

impl Idle {
    /// With a `longest` of zero it never sleeps.
    pub(super) fn new(now: u64, longest: Duration, crowded: bool) -> Self {
        Self {
            last_work: now,
            longest,
            crowded,
        }
    }

    pub(super) fn rest(&mut self, now: u64, worked: bool) {
        if worked {
            self.last_work = now;
            return;
        }
        match self.pause(now) {
            Some(pause) => std::thread::sleep(pause),
            // The frame that it waits for may be in another one's hands.
            None if self.crowded => std::thread::yield_now(),
            None => std::hint::spin_loop(),
        }
    }

    fn pause(&self, now: u64) -> Option<Duration> {
        let pause = match now.saturating_sub(self.last_work) {
            0..SPIN => return None,
            SPIN..DOZE => NAP.min(self.longest),
            _ => self.longest,
        };
        (!pause.is_zero()).then_some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_grow_with_silence_up_to_what_is_allowed() {
        let millisecond = Duration::from_millis(1);
        let idle = Idle::new(1000, millisecond, false);
        assert_eq!(idle.pause(1000), None);
        assert_eq!(idle.pause(1000 + SPIN), Some(NAP));
        assert_eq!(idle.pause(1000 + DOZE), Some(millisecond));
        assert_eq!(idle.pause(0), None, "a clock that stands still");
        let awake = Idle::new(0, Duration::ZERO, true);
        assert_eq!((awake.pause(SPIN), awake.pause(DOZE)), (None, None));
    }
}
