//! Pauses between attempts.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Doubles up to a limit, with a random half, so that a thousand nodes that
/// were lost together do not come back together.
#[derive(Debug)]
pub(crate) struct Backoff {
    first: Duration,
    most: Duration,
    next: Duration,
    random: RandomState,
    count: u64,
}

impl Backoff {
    pub(crate) fn new(first: Duration, most: Duration) -> Self {
        Self {
            first,
            most,
            next: first,
            random: RandomState::new(),
            count: 0,
        }
    }

    /// It worked.
    pub(crate) fn reset(&mut self) {
        self.next = self.first;
    }

    /// How long to wait now: between half and all of the current pause.
    pub(crate) fn pause(&mut self) -> Duration {
        self.count += 1;
        let full = self.next;
        self.next = (full * 2).min(self.most);
        // 0 to 255 of 255.
        let share = u32::from(self.random.hash_one(self.count).to_le_bytes()[0]);
        full / 2 + full / 2 * share / 255
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_stay_in_bounds_and_begin_anew() {
        let second = Duration::from_secs(1);
        let mut backoff = Backoff::new(second, 5 * second);
        for full in [1, 2, 4, 5, 5] {
            let pause = backoff.pause();
            assert!(
                pause >= second * full / 2 && pause <= second * full,
                "{pause:?}"
            );
        }
        backoff.reset();
        assert!(backoff.pause() <= second);
    }
}
