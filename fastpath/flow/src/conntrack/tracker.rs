//! The tracker that an entry holds, whatever its protocol.

use super::plain::{self, Plain};
use super::tcp::{self, State};
use super::{Direction, Timeouts, Verdict};
use crate::packet::{Ip, L4};
use crate::tuple::proto;

/// What is known of one connection's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracker {
    /// TCP.
    Tcp(tcp::Tracker),
    /// Everything else.
    Plain(Plain),
}

/// How far a connection has come, in the order in which a full table gives up
/// its entries: the least first, [`Phase::Established`] never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Over; kept only to recognise what is late.
    Closed,
    /// Not answered yet, or in its handshake.
    Opening,
    /// Answered, of a protocol that does not say when it ends.
    Replied,
    /// One side or both have begun to close.
    Closing,
    /// TCP after its handshake.
    Established,
}

impl Tracker {
    /// From the first packet of a connection; `None` if it cannot open one:
    /// [`crate::DropReason::InvalidState`].
    #[must_use]
    pub fn open(ip: &Ip) -> Option<Self> {
        match &ip.l4_kind {
            L4::Tcp(tcp) => tcp::Tracker::open(tcp).map(Self::Tcp),
            _ => Plain::open(ip).map(Self::Plain),
        }
    }

    /// As [`Self::open`], but TCP may be in its midst: for a recovery window
    /// after the table has been lost. The packet's direction counts as the
    /// original one.
    #[must_use]
    pub fn adopt(ip: &Ip) -> Option<Self> {
        match &ip.l4_kind {
            L4::Tcp(tcp) => tcp::Tracker::open(tcp)
                .or_else(|| tcp::Tracker::adopt(tcp))
                .map(Self::Tcp),
            _ => Self::open(ip),
        }
    }

    /// Of a connection of this protocol without states of its own; `None` for TCP.
    #[must_use]
    pub const fn plain(protocol: u8, replied: bool) -> Option<Self> {
        let class = match protocol {
            proto::TCP => return None,
            proto::UDP => plain::Class::Udp,
            proto::ICMP | proto::ICMPV6 => plain::Class::Icmp,
            _ => plain::Class::Other,
        };
        Some(Self::Plain(Plain { class, replied }))
    }

    /// Whether it can be the tracker of a connection of this protocol.
    #[must_use]
    pub fn fits(&self, protocol: u8) -> bool {
        match self {
            Self::Tcp(_) => protocol == proto::TCP,
            Self::Plain(plain) => Self::plain(protocol, plain.replied) == Some(*self),
        }
    }

    /// One more packet with the connection's key.
    #[inline]
    pub fn packet(&mut self, from: Direction, ip: &Ip) -> Verdict {
        match (self, &ip.l4_kind) {
            (Self::Tcp(tracker), L4::Tcp(tcp)) => tracker.packet(from, tcp),
            (Self::Plain(plain), L4::Udp | L4::Dhcp(_) | L4::Echo | L4::Other) => {
                plain.packet(from)
            }
            _ => Verdict::Invalid,
        }
    }

    /// How long it may be silent from now on, in nanoseconds.
    #[must_use]
    #[inline]
    pub const fn timeout(&self, timeouts: &Timeouts) -> u64 {
        match self {
            Self::Tcp(tracker) => timeouts.tcp(tracker.state()),
            Self::Plain(plain) => timeouts.plain(plain.class, plain.replied),
        }
    }

    /// How far it has come.
    #[must_use]
    pub const fn phase(&self) -> Phase {
        match self {
            Self::Tcp(tracker) => match tracker.state() {
                State::SynSent | State::SynSentBoth | State::SynRecv | State::SynRecvReverse => {
                    Phase::Opening
                }
                State::Established => Phase::Established,
                State::Closing(_) => Phase::Closing,
                State::TimeWait | State::Reset(_) => Phase::Closed,
            },
            Self::Plain(Plain { replied: true, .. }) => Phase::Replied,
            Self::Plain(Plain { replied: false, .. }) => Phase::Opening,
        }
    }

    /// Whether a NIC may carry it: TCP from handshake to first FIN or RST, UDP
    /// and echo after a reply.
    #[must_use]
    pub const fn offloadable(&self) -> bool {
        match self {
            Self::Tcp(tracker) => matches!(tracker.state(), State::Established),
            Self::Plain(plain) => {
                plain.replied && matches!(plain.class, plain::Class::Udp | plain::Class::Icmp)
            }
        }
    }

    /// Packets pass elsewhere from now on: see [`tcp::Tracker::moved_unseen`].
    pub const fn moved_unseen(&mut self) {
        if let Self::Tcp(tracker) = self {
            tracker.moved_unseen();
        }
    }
}
