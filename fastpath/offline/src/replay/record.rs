//! What is told about a packet, and about all of them.

use std::collections::BTreeMap;
use std::fmt;

use penstock_flow::{Addr, DropReason};
use penstock_policies::model::NodeName;

use super::Flow;
use crate::bed::{Carried, Fate, Passage, Way};

/// One packet, replayed.
#[derive(Clone, Debug)]
pub struct Record {
    /// Its place in the capture, from 1.
    pub number: u64,
    /// Nanoseconds since the first packet.
    pub time: u64,
    /// Bytes that it had.
    pub length: u32,
    /// Bytes of it in the capture.
    pub captured: u32,
    /// What it is.
    pub flow: Flow,
    /// Where it was put in.
    pub source: Source,
    /// What became of it.
    pub verdict: Verdict,
    /// Every engine's part in that. One that was seen on the wire begins with what the
    /// sender's node had made of it before.
    pub way: Way,
    /// What else there is to know.
    pub notes: Vec<Note>,
}

/// Where a packet was put in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// At the port of this id, which had sent it.
    Port(u32),
    /// At the NIC with this VTEP: it was seen on the underlay.
    Wire(Addr),
    /// Its source is no port's; at the one that has its MAC, if any.
    Nobody(Option<u32>),
    /// At an uplink, earlier: it had to wait.
    Later,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The port of this id has it.
    Forwarded(u32),
    /// Its sender has an answer.
    Answered,
    /// It was for the network itself, and wanted no answer.
    Consumed,
    /// It was dropped.
    Dropped(DropReason),
    /// It waits for the first fragment of its packet.
    Waiting,
    /// Nobody sends such packets, so nothing can be said.
    NotFromAPort,
    /// It has left the bed.
    Gone,
}

impl Verdict {
    /// All of their names, in the order in which they are told.
    pub const NAMES: [&'static str; 7] = [
        "forwarded",
        "answered",
        "consumed",
        "dropped",
        "waiting",
        "not from a port",
        "gone",
    ];

    /// One of [`NAMES`](Self::NAMES).
    #[must_use]
    pub const fn name(self) -> &'static str {
        let index = match self {
            Self::Forwarded(_) => 0,
            Self::Answered => 1,
            Self::Consumed => 2,
            Self::Dropped(_) => 3,
            Self::Waiting => 4,
            Self::NotFromAPort => 5,
            Self::Gone => 6,
        };
        Self::NAMES[index]
    }

    pub(super) fn of(source: Source, way: &[Passage]) -> Self {
        if let Source::Nobody(_) = source {
            return Self::NotFromAPort;
        }
        let answered = way.iter().any(|p| p.carried == Some(Carried::Answered));
        match way.last().map(|passage| passage.fate) {
            Some(Fate::Dropped(reason)) => Self::Dropped(reason),
            Some(Fate::Consumed) => Self::Consumed,
            Some(Fate::Waits) => Self::Waiting,
            Some(Fate::ToPort(_) | Fate::ToWire { vtep: None }) if answered => Self::Answered,
            Some(Fate::ToPort(port)) => Self::Forwarded(port),
            Some(Fate::ToNobody | Fate::ToWire { .. }) | None => Self::Gone,
        }
    }
}

/// What else there is to know about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// The capture has only its beginning.
    Cut {
        /// Bytes that are there.
        captured: u32,
        /// Bytes that it had.
        length: u32,
    },
    /// The first that is older than one before it.
    BackInTime {
        /// Nanoseconds.
        by: u128,
    },
    /// The first of which the capture has no time.
    NoTime,
    /// Told before as waiting.
    Waited,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut { captured, length } => write!(
                f,
                "truncated in the capture: {captured} of {length} bytes are there, and are judged as they are"
            ),
            Self::BackInTime { by } => write!(
                f,
                "time runs backwards by {by} ns: the clock stands still until the capture is past it, here and whenever it does so again"
            ),
            Self::NoTime => f.write_str(
                "the capture has no time for this packet: it has the time of the one before it, and so have all others without",
            ),
            Self::Waited => f.write_str("it has waited for the first fragment of its packet"),
        }
    }
}

/// A whole replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Packets of the capture.
    pub packets: u64,
    /// Of these, so many had each verdict.
    pub verdicts: BTreeMap<&'static str, u64>,
    /// Of those that were dropped, so many for each reason.
    pub drops: BTreeMap<&'static str, u64>,
    /// Connections at the end, as the nodes' ports see them: one between two ports is
    /// two. Only nodes that had packets.
    pub connections: Vec<(NodeName, u64)>,
    /// Packets that were cut in the capture.
    pub cut: u64,
    /// Packets older than one before them.
    pub clamped: u64,
}

impl Summary {
    pub(super) fn count(&mut self, verdict: Verdict) {
        *self.verdicts.entry(verdict.name()).or_default() += 1;
        if let Verdict::Dropped(reason) = verdict {
            *self.drops.entry(reason.name()).or_default() += 1;
        }
    }

    /// One that was counted as waiting.
    pub(super) fn count_late(&mut self, verdict: Verdict) {
        let name = Verdict::Waiting.name();
        if let Some(waiting) = self.verdicts.get_mut(name) {
            *waiting = waiting.saturating_sub(1);
            if *waiting == 0 {
                self.verdicts.remove(name);
            }
        }
        self.count(verdict);
    }
}
