//! How long a connection may be silent.

use super::plain;
use super::tcp::{Fins, State};

const SECOND: u64 = 1_000_000_000;

/// Silence after which a connection is forgotten, in nanoseconds, per phase.
///
/// The defaults follow the RFCs for address translators, which have met the
/// same applications, or Linux's connection tracking where these are silent or
/// where an entry is cheap to make anew. Every packet of a connection renews it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// TCP, SYN not answered. 30 s: a retransmission is judged anew at no loss,
    /// so a flood of SYNs need not hold entries for Linux's 120 s.
    pub tcp_syn_sent: u64,
    /// TCP, SYN answered, handshake not finished. 60 s, as Linux.
    pub tcp_syn_recv: u64,
    /// TCP, established. 2 h 4 min: just above the least keep-alive interval
    /// (RFC 5382, REQ-5).
    pub tcp_established: u64,
    /// TCP, one side has finished, the other still sends. 4 min: the transitory
    /// timeout of RFC 5382, REQ-5, and RFC 7857, section 2.1.
    pub tcp_half_closed: u64,
    /// TCP, both sides have finished, not all is acknowledged. 60 s: Linux gives
    /// 30 to 60 s to these states.
    pub tcp_closing: u64,
    /// TCP, both FINs acknowledged. 120 s, as Linux and as twice the segment
    /// lifetime hosts assume in practice.
    pub tcp_time_wait: u64,
    /// TCP, reset. 10 s, as Linux: in case the RST was not accepted.
    pub tcp_reset: u64,
    /// UDP, no reply yet. 30 s, as Linux.
    pub udp_unreplied: u64,
    /// UDP, replied. 120 s, the least that RFC 4787, REQ-5, allows.
    pub udp_replied: u64,
    /// ICMP, replied or not. 30 s, as Linux (RFC 5508, REQ-2, asks for 60 s only
    /// of translators, whose identifiers would be reused).
    pub icmp: u64,
    /// Other protocols, no reply yet. 60 s.
    pub other_unreplied: u64,
    /// Other protocols, replied. 600 s, as Linux.
    pub other_replied: u64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            tcp_syn_sent: 30 * SECOND,
            tcp_syn_recv: 60 * SECOND,
            tcp_established: 7440 * SECOND,
            tcp_half_closed: 240 * SECOND,
            tcp_closing: 60 * SECOND,
            tcp_time_wait: 120 * SECOND,
            tcp_reset: 10 * SECOND,
            udp_unreplied: 30 * SECOND,
            udp_replied: 120 * SECOND,
            icmp: 30 * SECOND,
            other_unreplied: 60 * SECOND,
            other_replied: 600 * SECOND,
        }
    }
}

impl Timeouts {
    /// The longest of all: no connection outlives it without a packet.
    #[must_use]
    pub fn longest(&self) -> u64 {
        let Self {
            tcp_syn_sent,
            tcp_syn_recv,
            tcp_established,
            tcp_half_closed,
            tcp_closing,
            tcp_time_wait,
            tcp_reset,
            udp_unreplied,
            udp_replied,
            icmp,
            other_unreplied,
            other_replied,
        } = *self;
        let all = [
            tcp_syn_sent,
            tcp_syn_recv,
            tcp_established,
            tcp_half_closed,
            tcp_closing,
            tcp_time_wait,
            tcp_reset,
            udp_unreplied,
            udp_replied,
            icmp,
            other_unreplied,
            other_replied,
        ];
        all.into_iter().max().unwrap_or(0)
    }

    /// For a TCP state.
    #[must_use]
    pub const fn tcp(&self, state: State) -> u64 {
        match state {
            State::SynSent | State::SynSentBoth => self.tcp_syn_sent,
            State::SynRecv | State::SynRecvReverse => self.tcp_syn_recv,
            State::Established => self.tcp_established,
            State::Closing(fins) if fins.contains(Fins::BOTH) => self.tcp_closing,
            State::Closing(_) => self.tcp_half_closed,
            State::TimeWait => self.tcp_time_wait,
            State::Reset(_) => self.tcp_reset,
        }
    }

    /// For a protocol without states of its own.
    #[must_use]
    pub const fn plain(&self, class: plain::Class, replied: bool) -> u64 {
        match (class, replied) {
            (plain::Class::Udp, false) => self.udp_unreplied,
            (plain::Class::Udp, true) => self.udp_replied,
            (plain::Class::Icmp, _) => self.icmp,
            (plain::Class::Other, false) => self.other_unreplied,
            (plain::Class::Other, true) => self.other_replied,
        }
    }
}
