//! Connections that wait for the worker's next life.
//!
//! The file has as many parts as it takes ([`crate::snapshot::parts`]), and is read once: its
//! name is gone before anything is made of it, so that no state is
//! ever gone on from twice. Each part tells when it was written, by the machine's uptime where it
//! is still the same boot and by the wall clock else, so that silence counts on.

use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use penstock_engine::FlowState;
use penstock_slowpath_api::v1;

use super::{Malformed, decode};

/// As what the data directory keeps it.
pub const NAME: &str = "flows";

/// Some of the connections.
#[derive(Clone, PartialEq, prost::Message)]
pub struct FlowsPart {
    /// When they were as they are here: the same in all of a file's parts.
    #[prost(message, optional, tag = "1")]
    pub written: Option<Moment>,
    /// In no order.
    #[prost(message, repeated, tag = "2")]
    pub flows: Vec<v1::FlowState>,
}

/// A time that means something after a restart, of the worker or of the machine.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Moment {
    /// Names the machine's boot.
    #[prost(string, tag = "1")]
    pub boot: String,
    /// Since then, suspended time included.
    #[prost(uint64, tag = "2")]
    pub uptime_ms: u64,
    /// Since 1970.
    #[prost(uint64, tag = "3")]
    pub wall_ms: u64,
}

impl Moment {
    /// Now.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn now() -> io::Result<Self> {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        let uptime = std::fs::read_to_string("/proc/uptime")?;
        let seconds = uptime.split_whitespace().next();
        let seconds: Option<f64> = seconds.and_then(|word| word.parse().ok());
        let seconds = seconds.ok_or_else(|| io::Error::other("/proc/uptime is no number"))?;
        let wall = SystemTime::now().duration_since(UNIX_EPOCH);
        Ok(Self {
            boot: boot.trim().to_owned(),
            uptime_ms: (seconds * 1e3) as u64,
            wall_ms: wall.unwrap_or_default().as_millis() as u64,
        })
    }

    /// The time from this to a later one; `None`: it is in the future.
    #[must_use]
    pub fn until(&self, later: &Self) -> Option<Duration> {
        let (from, to) = if self.boot == later.boot {
            (self.uptime_ms, later.uptime_ms)
        } else {
            (self.wall_ms, later.wall_ms)
        };
        to.checked_sub(from).map(Duration::from_millis)
    }
}

/// Why nothing of a part can be gone on from.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// It does not say when it was written.
    #[error("it does not say when it was written")]
    NoMoment,
    /// The clock has gone back.
    #[error("it was written in the future: the clock has been set back")]
    Future,
    /// No connection lives so long.
    #[error("it was written {0:?} ago: no connection outlives that")]
    Stale(Duration),
}

impl FlowsPart {
    /// The part's connections as they are `now`, those apart that make no sense.
    ///
    /// # Errors
    /// Nothing of it can be used; `longest` is how long any connection may be silent.
    pub fn open(
        self,
        now: &Moment,
        longest: Duration,
    ) -> Result<Vec<Result<FlowState, Malformed>>, Unusable> {
        let written = self.written.ok_or(Unusable::NoMoment)?;
        let age = written.until(now).ok_or(Unusable::Future)?;
        if age > longest {
            return Err(Unusable::Stale(age));
        }
        let flows = self.flows.into_iter().map(|message| {
            let mut state = decode(message)?;
            state.idle_ns = state.idle_ns.saturating_add(age.as_nanos() as u64);
            Ok(state)
        });
        Ok(flows.collect())
    }
}
