//! Connection tracking: which packets belong to a connection, and until when.
//!
//! [`Table`] finds a connection by one lookup for both directions. A
//! [`Tracker`] lives in its entry and judges each packet; [`Timeouts`] say how
//! long silence may last in each phase. Who may open a connection is not
//! decided here: [`Tracker::open`] and [`Verdict::Reopen`] mark the packets for
//! which policy must be asked.

mod index;
pub mod plain;
pub mod table;
pub mod tcp;
pub mod timeouts;
mod tracker;

use crate::Orientation;

pub use table::{Entry, Handle, Table, TableFull};
pub use timeouts::Timeouts;
pub use tracker::{Phase, Tracker};

/// Which way a packet runs along its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// As the packet that opened it.
    Original,
    /// Against it.
    Reply,
}

impl Direction {
    /// The direction of a packet with `orientation` along its key, on a
    /// connection that was opened by one with `original`.
    #[must_use]
    #[inline]
    pub const fn of(orientation: Orientation, original: Orientation) -> Self {
        match (orientation, original) {
            (Orientation::Forward, Orientation::Forward)
            | (Orientation::Backward, Orientation::Backward) => Self::Original,
            _ => Self::Reply,
        }
    }

    /// The other direction.
    #[must_use]
    pub const fn reverse(self) -> Self {
        match self {
            Self::Original => Self::Reply,
            Self::Reply => Self::Original,
        }
    }

    const fn index(self) -> usize {
        self as usize
    }
}

/// What a packet is to the connection whose key it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Belongs to it and keeps it alive.
    Pass,
    /// Passes, but proves nothing: the timer is not renewed. For example a SYN
    /// on an established connection, which the receiver answers with an ACK
    /// (RFC 9293, section 3.10.7.4).
    PassQuietly,
    /// Cannot belong to it: drop it.
    Invalid,
    /// The connection is over and this opens a new one with the same key, maybe
    /// from the other side: delete the entry and judge the packet as new.
    Reopen,
}
