//! TCP's states as they look from the middle of the path.
//!
//! [`transition`] is total: every state, direction and segment has an answer.
//! Sequence numbers enter only through [`Segment`], which the tracker in
//! `window` makes of a packet and the numbers it has seen.
//!
//! What happens to a segment (o: from the opener, r: from the other side):
//!
//! | state            | SYN         | SYN-ACK     | ACK, data   | FIN         | RST   |
//! |------------------|-------------|-------------|-------------|-------------|-------|
//! | `SynSent`        | o = r SB    | o ! r SR    | o ! r q     | !           | RS    |
//! | `SynSentBoth`    | =           | o SV r SR   | !           | !           | RS    |
//! | `SynRecv`        | o = r !     | o ES r =    | o ES r =    | CL          | RS    |
//! | `SynRecvReverse` | =           | o = r ES    | o = r ES    | CL          | RS    |
//! | `Established`    | o q r !     | =           | =           | CL          | RS    |
//! | `Closing`        | o q r !     | q; r SR     | CL or TW    | CL or TW    | RS    |
//! | `TimeWait`       | new; o q r ! | q; r SR    | =           | =           | RS    |
//! | `Reset`          | new         | !           | = or ES     | =           | =     |
//!
//! `=` passes, state kept; `q` passes quietly; `!` invalid; `new` reopens;
//! SB, SR, SV, ES, CL, TW, RS: passes into that state (SB `SynSentBoth`, SV
//! `SynRecvReverse`). In `TimeWait` a SYN is `new` only beyond the last sequence
//! number of its side; a lower one passes quietly, and if it is answered after
//! all (by timestamps, RFC 6191), the SYN-ACK leads to SR. An RST with an implausible number and a segment without
//! any meaning (no ACK, or SYN with FIN) are invalid everywhere.
//!
//! Why a SYN from the other side is refused while a connection lives: policy
//! has admitted one direction of opening only, and the opener's port may have a
//! listener by now. Two SYNs that cross are the one exception.
//!
//! Why `Reset` is not the end: an RST may be forged, or refused by its receiver.
//! If its alleged sender goes on with new data, the connection lives.

mod window;

use super::{Direction, Verdict};
use crate::packet::tcp_flags::{ACK, FIN, RST, SYN};

pub use window::{Parts, SideParts, Tracker};

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The opener has sent its SYN.
    SynSent,
    /// SYNs have crossed (simultaneous open).
    SynSentBoth,
    /// The other side has answered with SYN-ACK.
    SynRecv,
    /// After crossing SYNs the opener has answered first.
    SynRecvReverse,
    /// The handshake is done.
    Established,
    /// At least one side has sent its FIN.
    Closing(Fins),
    /// Both have, and both FINs are acknowledged.
    TimeWait,
    /// That side has sent a plausible RST.
    Reset(Direction),
}

/// Which FINs have been seen and acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fins(u8);

impl Fins {
    /// No FIN.
    pub const NONE: Self = Self(0);
    /// FINs of both sides have been seen.
    pub const BOTH: Self = Self(0b0011);
    const ALL_ACKED: Self = Self(0b1111);

    /// As bits: 1 and 2 for the opener's FIN and the other side's, 4 and 8 for
    /// their acknowledgements.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// From [`bits`](Self::bits); `None` where a FIN is acknowledged that was not
    /// seen.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Option<Self> {
        if bits > Self::ALL_ACKED.0 || bits >> 2 & !bits & 3 != 0 {
            return None;
        }
        Some(Self(bits))
    }

    /// All of `other` is in `self`.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether `side` has sent its FIN.
    #[must_use]
    pub const fn seen(self, side: Direction) -> bool {
        self.0 & 1 << side as u8 != 0
    }

    const fn with_seen(self, side: Direction) -> Self {
        Self(self.0 | 1 << side as u8)
    }

    const fn with_acked(self, side: Direction) -> Self {
        Self(self.0 | 4 << side as u8)
    }
}

/// A segment's meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// By its flags.
    pub kind: Kind,
    /// Its acknowledgement covers the other side's FIN.
    pub acks_fin: bool,
    /// It says something new: data or an acknowledgement beyond all that its
    /// side had sent; for a SYN, a higher number; for a SYN-ACK, that a SYN was
    /// let through before; for an RST, that its number is plausible.
    pub fresh: bool,
}

/// A segment's kind: the strongest of its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// SYN alone.
    Syn,
    /// SYN and ACK.
    SynAck,
    /// ACK, with or without data.
    Ack,
    /// FIN and ACK.
    Fin,
    /// RST.
    Rst,
    /// A combination that no TCP sends.
    Nonsense,
}

impl Kind {
    /// From the header's flags.
    #[must_use]
    pub const fn of(flags: u8) -> Self {
        match flags & (SYN | ACK | FIN | RST) {
            SYN => Self::Syn,
            f if f == SYN | ACK => Self::SynAck,
            ACK => Self::Ack,
            f if f == FIN | ACK => Self::Fin,
            RST => Self::Rst,
            f if f == RST | ACK => Self::Rst,
            _ => Self::Nonsense,
        }
    }
}

/// What a segment does to a connection: the new state and the verdict. With
/// [`Verdict::Invalid`] and [`Verdict::Reopen`] the state is unchanged.
#[must_use]
pub const fn transition(state: State, from: Direction, segment: Segment) -> (State, Verdict) {
    use Direction::{Original, Reply};
    use State::*;

    const fn go(state: State) -> (State, Verdict) {
        (state, Verdict::Pass)
    }
    let same = (state, Verdict::Pass);
    let quiet = (state, Verdict::PassQuietly);
    let invalid = (state, Verdict::Invalid);
    let reopen = (state, Verdict::Reopen);

    match (state, segment.kind, from) {
        (_, Kind::Nonsense, _) => invalid,

        (_, Kind::Rst, _) if !segment.fresh => invalid,
        (Reset(_), Kind::Rst, _) => same,
        (_, Kind::Rst, _) => go(Reset(from)),

        (SynSent, Kind::Syn, Original) => same,
        (SynSent, Kind::Syn, Reply) => go(SynSentBoth),
        (SynSent, Kind::SynAck, Reply) => go(SynRecv),
        // The other side still has an older connection and asks; the opener
        // will reset that one (RFC 9293, figure 9).
        (SynSent, Kind::Ack, Reply) => quiet,
        (SynSent, _, _) => invalid,

        (SynSentBoth, Kind::Syn, _) => same,
        (SynSentBoth, Kind::SynAck, Reply) => go(SynRecv),
        (SynSentBoth, Kind::SynAck, Original) => go(SynRecvReverse),
        (SynSentBoth, _, _) => invalid,

        (SynRecv, Kind::Syn, Original) => same,
        (SynRecv, Kind::Syn, Reply) => invalid,
        (SynRecv, Kind::SynAck | Kind::Ack, Original) => go(Established),
        // Data right behind the SYN-ACK is TCP Fast Open.
        (SynRecv, Kind::SynAck | Kind::Ack, Reply) => same,
        (SynRecvReverse, Kind::Syn, _) => same,
        (SynRecvReverse, Kind::SynAck | Kind::Ack, Reply) => go(Established),
        (SynRecvReverse, Kind::SynAck | Kind::Ack, Original) => same,
        (SynRecv | SynRecvReverse, Kind::Fin, _) => closing(Fins::NONE, from, segment),

        (Established | Closing(_), Kind::Syn, Original) => quiet,
        (Established | Closing(_), Kind::Syn, Reply) => invalid,
        (Established, Kind::SynAck | Kind::Ack, _) => same,
        (Established, Kind::Fin, _) => closing(Fins::NONE, from, segment),

        // It answers a SYN that was let through: its receiver took it for new.
        (Closing(_) | TimeWait, Kind::SynAck, Reply) if segment.fresh => go(SynRecv),
        // Repeated, by a side that does not know yet that its handshake is done.
        (Closing(_) | TimeWait, Kind::SynAck, _) => quiet,
        (Closing(fins), Kind::Ack | Kind::Fin, _) => closing(fins, from, segment),

        (TimeWait, Kind::Syn, _) if segment.fresh => reopen,
        (TimeWait, Kind::Syn, Original) => quiet,
        (TimeWait, Kind::Syn, Reply) => invalid,
        (TimeWait, Kind::Ack | Kind::Fin, _) => same,

        (Reset(_), Kind::Syn, _) => reopen,
        (Reset(_), Kind::SynAck, _) => invalid,
        (Reset(Original), Kind::Ack, Original) | (Reset(Reply), Kind::Ack, Reply)
            if segment.fresh =>
        {
            go(Established)
        }
        (Reset(_), Kind::Ack | Kind::Fin, _) => same,
    }
}

const fn closing(fins: Fins, from: Direction, segment: Segment) -> (State, Verdict) {
    let mut fins = fins;
    if matches!(segment.kind, Kind::Fin) {
        fins = fins.with_seen(from);
    }
    let other = from.reverse();
    if segment.acks_fin && fins.seen(other) {
        fins = fins.with_acked(other);
    }
    let state = if fins.contains(Fins::ALL_ACKED) {
        State::TimeWait
    } else {
        State::Closing(fins)
    };
    (state, Verdict::Pass)
}
