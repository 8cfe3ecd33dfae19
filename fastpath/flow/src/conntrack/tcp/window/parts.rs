//! A tracker taken apart, to be put together elsewhere.

use super::{Side, Tracker};
use crate::conntrack::tcp::{Fins, State};

/// The largest shift that RFC 7323, section 2.3, allows.
const MOST_SCALE: u8 = 14;
/// The widest window that can be advertised.
const MOST_WINDOW: u32 = (u16::MAX as u32) << MOST_SCALE;

/// All that a [`Tracker`] knows; the opener's side is the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// The state.
    pub state: State,
    /// A SYN was let through on the living connection, and not answered yet.
    pub probed: bool,
    /// What is known of each side.
    pub sides: [SideParts; 2],
}

/// What a [`Tracker`] knows of one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SideParts {
    /// One past the highest sequence number it has sent.
    pub next: u32,
    /// The highest acknowledgement it has given.
    pub acked: u32,
    /// The widest window it has advertised, scaled.
    pub window: u32,
    /// The window scale it has offered.
    pub wscale: Option<u8>,
    /// Its numbers may have moved unseen; its next packet tells.
    pub unseen: bool,
}

impl Tracker {
    /// All that it knows.
    #[must_use]
    pub const fn parts(&self) -> Parts {
        const fn side(tracker: &Tracker, i: usize) -> SideParts {
            let Side {
                next,
                acked,
                window,
            } = tracker.side[i];
            SideParts {
                next,
                acked,
                window,
                wscale: tracker.wscale[i],
                unseen: tracker.unseen[i],
            }
        }
        Parts {
            state: self.state,
            probed: self.probed,
            sides: [side(self, 0), side(self, 1)],
        }
    }

    /// From what another knew; `None` where no tracker can have known it.
    #[must_use]
    pub fn from_parts(parts: &Parts) -> Option<Self> {
        let possible = match parts.state {
            State::Closing(fins) => {
                fins != Fins::NONE
                    && fins != Fins::ALL_ACKED
                    && Fins::from_bits(fins.bits())? == fins
            }
            _ => true,
        };
        let sane = |side: &SideParts| {
            side.window <= MOST_WINDOW && side.wscale.is_none_or(|shift| shift <= MOST_SCALE)
        };
        if !possible || !parts.sides.iter().all(sane) {
            return None;
        }
        let [a, b] = parts.sides;
        let side = |parts: SideParts| Side {
            next: parts.next,
            acked: parts.acked,
            window: parts.window,
        };
        Some(Self {
            state: parts.state,
            unseen: [a.unseen, b.unseen],
            probed: parts.probed,
            wscale: [a.wscale, b.wscale],
            side: [side(a), side(b)],
        })
    }
}
