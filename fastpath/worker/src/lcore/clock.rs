//! The one clock that packets, timers and records share.

use std::time::Instant;

/// Nanoseconds since the worker began; monotonic. Reading it is a call into the
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

    /// Nanoseconds since it began; never 0.
    #[must_use]
    pub fn now(&self) -> u64 {
        // 584 years fit.
        self.origin.elapsed().as_nanos() as u64 + 1
    }
}
