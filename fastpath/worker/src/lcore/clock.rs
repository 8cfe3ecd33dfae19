//! The one clock that packets, timers and records share.

use std::time::Instant;

/// Connections that come from before the worker began are so old at most.
const BEFORE: u64 = 86_400_000_000_000;

/// Nanoseconds since a day before the worker began; monotonic. Reading it is a call into the
/// vDSO, some twenty nanoseconds, once per burst.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// Begins now.
    #[must_use]
    pub fn start() -> Self {
        Self {
            origin: Instant::now(),
        }
    }

    /// Nanoseconds since a day before it began: what happened on that day has a time too.
    #[must_use]
    pub fn now(&self) -> u64 {
        // 584 years fit.
        self.origin.elapsed().as_nanos() as u64 + BEFORE
    }
}
