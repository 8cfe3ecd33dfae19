//! Sequence numbers, tracked loosely.
//!
//! They decide three things only: whether an RST is plausible, whether a FIN is
//! acknowledged, and whether a SYN after the end opens a new connection. Data
//! outside the window passes: its receiver discards it, and dropping it here
//! would cut connections whose packets took another path for a while.

mod parts;

use super::{Kind, Segment, State, transition};
use crate::conntrack::{Direction, Verdict};
use crate::packet::{Tcp, tcp_flags};

pub use parts::{Parts, SideParts};

/// A TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tracker {
    state: State,
    /// Numbers may have moved unseen; the next packet of that side tells.
    unseen: [bool; 2],
    /// A SYN was let through on the living connection, and not answered yet.
    probed: bool,
    /// Window scale of each side; counts only if both have offered it.
    wscale: [Option<u8>; 2],
    side: [Side; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Side {
    /// One past the highest sequence number it has sent.
    next: u32,
    /// The highest acknowledgement it has given.
    acked: u32,
    /// The widest window it has advertised, scaled.
    window: u32,
}

/// `a` is later than `b` (RFC 9293, section 3.4).
const fn after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

/// One past the last sequence number that the segment occupies.
const fn end(tcp: &Tcp) -> u32 {
    let control =
        (tcp.flags & tcp_flags::SYN != 0) as u32 + (tcp.flags & tcp_flags::FIN != 0) as u32;
    tcp.seq
        .wrapping_add(tcp.payload_len as u32)
        .wrapping_add(control)
}

impl Tracker {
    /// From a SYN; `None` for any other segment.
    #[must_use]
    pub fn open(tcp: &Tcp) -> Option<Self> {
        if Kind::of(tcp.flags) != Kind::Syn {
            return None;
        }
        let mut tracker = Self {
            state: State::SynSent,
            unseen: [true, true],
            probed: false,
            wscale: [None, None],
            side: [Side::default(); 2],
        };
        tracker.learn(Kind::Syn, Direction::Original, tcp, false);
        Some(tracker)
    }

    /// A connection that was established before anyone looked, from a packet in
    /// its midst; `None` for a SYN, an RST, or nonsense.
    #[must_use]
    pub fn adopt(tcp: &Tcp) -> Option<Self> {
        match Kind::of(tcp.flags) {
            Kind::Ack | Kind::Fin => {}
            Kind::Syn | Kind::SynAck | Kind::Rst | Kind::Nonsense => return None,
        }
        let mut tracker = Self {
            state: State::Established,
            unseen: [true, true],
            probed: false,
            wscale: [Some(14), Some(14)],
            side: [Side::default(); 2],
        };
        tracker.packet(Direction::Original, tcp);
        Some(tracker)
    }

    /// The state.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Packets have passed, or may pass, elsewhere: numbers are not trusted
    /// until each side has sent again, and until then any RST is plausible.
    pub const fn moved_unseen(&mut self) {
        self.unseen = [true, true];
    }

    /// One more segment.
    pub fn packet(&mut self, from: Direction, tcp: &Tcp) -> Verdict {
        let kind = Kind::of(tcp.flags);
        let segment = self.segment(kind, from, tcp);
        let (state, verdict) = transition(self.state, from, segment);
        match verdict {
            Verdict::Pass => {}
            // A SYN that is let through may restart the numbers: its SYN-ACK
            // will show.
            Verdict::PassQuietly if kind == Kind::Syn => {
                self.moved_unseen();
                self.probed = true;
                return verdict;
            }
            Verdict::PassQuietly | Verdict::Invalid | Verdict::Reopen => return verdict,
        }
        let finished = match (self.state, state) {
            (State::Closing(fins), State::Closing(_)) => fins.seen(from),
            (_, State::TimeWait) => true,
            _ => false,
        };
        self.state = state;
        if kind == Kind::Rst {
            self.learn_rst(from, tcp);
        } else {
            self.learn(kind, from, tcp, finished);
        }
        verdict
    }

    fn segment(&self, kind: Kind, from: Direction, tcp: &Tcp) -> Segment {
        let (this, other) = (from.index(), from.reverse().index());
        let (mine, theirs) = (&self.side[this], &self.side[other]);
        let acks = tcp.flags & tcp_flags::ACK != 0;
        let unseen = self.unseen[this];
        Segment {
            kind,
            acks_fin: acks && !self.unseen[other] && !after(theirs.next, tcp.ack),
            fresh: match kind {
                Kind::Rst => self.plausible_rst(from, tcp),
                Kind::Syn => unseen || !after(mine.next, tcp.seq),
                Kind::SynAck => self.probed,
                _ => unseen || after(end(tcp), mine.next) || acks && after(tcp.ack, mine.acked),
            },
        }
    }

    /// RFC 9293, section 3.10.7: an answer to a SYN must acknowledge it; later
    /// an RST must lie in the window. Its receiver is stricter (RFC 5961).
    fn plausible_rst(&self, from: Direction, tcp: &Tcp) -> bool {
        let (this, other) = (from.index(), from.reverse().index());
        match (self.state, from) {
            (State::SynSent, Direction::Reply) => {
                tcp.flags & tcp_flags::ACK != 0 && tcp.ack == self.side[0].next
            }
            // It takes back its own SYN.
            (State::SynSent, Direction::Original) => true,
            _ if self.unseen[this] || self.unseen[other] => true,
            _ => {
                let expected = self.side[other].acked;
                let offset = tcp.seq.wrapping_sub(expected);
                // At least what has been sent lies in the window.
                let sent = self.side[this].next.wrapping_sub(expected);
                let sent = if sent > i32::MAX as u32 { 0 } else { sent };
                offset <= self.side[other].window.max(sent)
            }
        }
    }

    /// `finished`: its FIN has been seen before, and what follows a FIN counts
    /// no more.
    fn learn(&mut self, kind: Kind, from: Direction, tcp: &Tcp, finished: bool) {
        let (this, other) = (from.index(), from.reverse().index());
        let unseen = core::mem::replace(&mut self.unseen[this], false);
        let syn = matches!(kind, Kind::Syn | Kind::SynAck);
        let opening = syn && self.state != State::Established;
        self.probed &= kind != Kind::SynAck;
        if syn && (unseen || opening) {
            self.wscale[this] = tcp.wscale;
        }
        if syn && unseen {
            // Nothing of this side is acknowledged yet.
            self.side[other].acked = tcp.seq;
        }
        // The window in a SYN is never scaled (RFC 7323, section 2.2).
        let shift = match self.wscale {
            [Some(_), Some(_)] if !syn => self.wscale[this].unwrap_or(0),
            _ => 0,
        };
        let window = u32::from(tcp.window) << shift;
        let side = &mut self.side[this];
        side.window = if unseen {
            window
        } else {
            side.window.max(window)
        };
        let end = end(tcp);
        if !finished && (unseen || opening || after(end, side.next)) {
            side.next = end;
        }
        let acks = tcp.flags & tcp_flags::ACK != 0;
        if acks && (unseen || opening || after(tcp.ack, side.acked)) {
            side.acked = tcp.ack;
        }
    }

    /// After an RST, only what was sent later shows that its sender lives:
    /// data beyond the RST, or an acknowledgement of what came after it.
    fn learn_rst(&mut self, from: Direction, tcp: &Tcp) {
        let (this, other) = (from.index(), from.reverse().index());
        let seen = if self.unseen[other] && tcp.flags & tcp_flags::ACK != 0 {
            tcp.ack
        } else {
            self.side[other].next
        };
        let side = &mut self.side[this];
        if self.unseen[this] || after(tcp.seq, side.next) {
            side.next = tcp.seq;
        }
        side.acked = seen;
        self.unseen[this] = false;
    }
}
