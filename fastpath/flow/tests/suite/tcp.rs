//! TCP from the middle of the path: scripts.

use penstock_flow::conntrack::Direction::{self, Original as O, Reply as R};
use penstock_flow::conntrack::Verdict::{self, Invalid, Pass, PassQuietly, Reopen};
use penstock_flow::conntrack::tcp::{Fins, State, Tracker};
use penstock_flow::packet::Tcp;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// Direction, flags, sequence, acknowledgement, bytes; verdict; state after.
type Line = (Direction, u8, u32, u32, u16, Verdict, &'static str);

fn segment(flags: u8, seq: u32, ack: u32, payload_len: u16) -> Tcp {
    Tcp {
        flags,
        wscale: None,
        seq,
        ack,
        window: 1000,
        payload_len,
    }
}

pub(crate) fn name(state: State) -> &'static str {
    match state {
        State::SynSent => "SynSent",
        State::SynSentBoth => "SynSentBoth",
        State::SynRecv => "SynRecv",
        State::SynRecvReverse => "SynRecvReverse",
        State::Established => "Established",
        State::Closing(fins) if fins.contains(Fins::BOTH) => "Closing/both",
        State::Closing(fins) if fins.seen(O) => "Closing/o",
        State::Closing(_) => "Closing/r",
        State::TimeWait => "TimeWait",
        State::Reset(O) => "Reset/o",
        State::Reset(R) => "Reset/r",
    }
}

fn play(tracker: &mut Tracker, script: &[Line]) {
    for (n, (from, flags, seq, ack, len, verdict, state)) in script.iter().enumerate() {
        let got = tracker.packet(*from, &segment(*flags, *seq, *ack, *len));
        let context = format!("line {n}: {tracker:?}");
        assert_eq!(
            (got, name(tracker.state())),
            (*verdict, *state),
            "{context}"
        );
    }
}

fn opened() -> Tracker {
    Tracker::open(&segment(SYN, 100, 0, 0)).expect("a SYN")
}

const HANDSHAKE: [Line; 2] = [
    (R, SYN | ACK, 500, 101, 0, Pass, "SynRecv"),
    (O, ACK, 101, 501, 0, Pass, "Established"),
];

fn established() -> Tracker {
    let mut tracker = opened();
    play(&mut tracker, &HANDSHAKE);
    tracker
}

fn closed() -> Tracker {
    let mut tracker = established();
    play(
        &mut tracker,
        &[
            (O, FIN | ACK, 101, 501, 0, Pass, "Closing/o"),
            (R, FIN | ACK, 501, 102, 0, Pass, "Closing/both"),
            (O, ACK, 102, 502, 0, Pass, "TimeWait"),
        ],
    );
    tracker
}

#[test]
fn only_a_syn_opens() {
    for flags in 0..=255_u8 {
        let opens = Tracker::open(&segment(flags, 1, 1, 0)).is_some();
        assert_eq!(opens, flags & (SYN | ACK | FIN | RST) == SYN, "{flags:#x}");
    }
}

#[test]
fn retransmissions_around_the_handshake() {
    let mut tracker = opened();
    play(
        &mut tracker,
        &[
            (O, SYN, 100, 0, 0, Pass, "SynSent"),
            (O, ACK, 101, 1, 0, Invalid, "SynSent"),
            (R, FIN | ACK, 1, 101, 0, Invalid, "SynSent"),
            (R, SYN | ACK, 500, 101, 0, Pass, "SynRecv"),
            (R, SYN | ACK, 500, 101, 0, Pass, "SynRecv"),
            (O, SYN, 100, 0, 0, Pass, "SynRecv"),
            (R, SYN, 900, 0, 0, Invalid, "SynRecv"),
            (O, ACK, 101, 501, 10, Pass, "Established"),
            (R, SYN | ACK, 500, 101, 0, Pass, "Established"),
            (R, SYN, 900, 0, 0, Invalid, "Established"),
            (R, ACK, 501, 111, 10, Pass, "Established"),
            (O, 0, 111, 0, 0, Invalid, "Established"),
            (O, SYN | FIN, 111, 0, 0, Invalid, "Established"),
        ],
    );
}

#[test]
fn a_syn_that_is_refused() {
    let mut tracker = opened();
    play(
        &mut tracker,
        &[
            (R, RST | ACK, 0, 999, 0, Invalid, "SynSent"),
            (R, RST, 0, 101, 0, Invalid, "SynSent"),
            (R, RST | ACK, 0, 101, 0, Pass, "Reset/r"),
            (O, SYN, 7, 0, 0, Reopen, "Reset/r"),
        ],
    );
}

#[test]
fn simultaneous_open() {
    let mut tracker = opened();
    play(
        &mut tracker,
        &[
            (R, SYN, 500, 0, 0, Pass, "SynSentBoth"),
            (R, SYN, 500, 0, 0, Pass, "SynSentBoth"),
            (O, ACK, 101, 501, 0, Invalid, "SynSentBoth"),
            (O, SYN | ACK, 100, 501, 0, Pass, "SynRecvReverse"),
            (R, SYN | ACK, 500, 101, 0, Pass, "Established"),
            (O, ACK, 101, 501, 5, Pass, "Established"),
        ],
    );
    let mut tracker = opened();
    play(
        &mut tracker,
        &[
            (R, SYN, 500, 0, 0, Pass, "SynSentBoth"),
            (R, SYN | ACK, 500, 101, 0, Pass, "SynRecv"),
            (O, SYN | ACK, 100, 501, 0, Pass, "Established"),
        ],
    );
}

#[test]
fn half_close_from_either_side() {
    for (one, other, s1, s2) in [(O, R, 101, 501), (R, O, 501, 101)] {
        let mut tracker = established();
        let closing = if one == O { "Closing/o" } else { "Closing/r" };
        play(
            &mut tracker,
            &[
                (one, FIN | ACK, s1, s2, 4, Pass, closing),
                (other, ACK, s2, s1 + 5, 0, Pass, closing),
                // The other side goes on for as long as it likes.
                (other, ACK, s2, s1 + 5, 300, Pass, closing),
                (one, ACK, s1 + 5, s2 + 300, 0, Pass, closing),
                (one, FIN | ACK, s1 + 4, s2, 0, Pass, closing),
                (other, FIN | ACK, s2 + 300, s1 + 5, 0, Pass, "Closing/both"),
                // An ACK that does not cover the FIN is not the last.
                (one, ACK, s1 + 5, s2 + 300, 0, Pass, "Closing/both"),
                (one, ACK, s1 + 5, s2 + 301, 0, Pass, "TimeWait"),
                (other, FIN | ACK, s2 + 300, s1 + 5, 0, Pass, "TimeWait"),
            ],
        );
    }
}

#[test]
fn simultaneous_close() {
    let mut tracker = established();
    play(
        &mut tracker,
        &[
            (O, FIN | ACK, 101, 501, 0, Pass, "Closing/o"),
            (R, FIN | ACK, 501, 101, 0, Pass, "Closing/both"),
            (R, ACK, 502, 102, 0, Pass, "Closing/both"),
            (O, ACK, 102, 502, 0, Pass, "TimeWait"),
        ],
    );
}

#[test]
fn resets_in_and_out_of_the_window() {
    for (from, other, seq, ack) in [(O, R, 101_u32, 501), (R, O, 501, 101)] {
        let reset = if from == O { "Reset/o" } else { "Reset/r" };
        for (offset, plausible) in [(0, true), (999, true), (1000, true), (1001, false)] {
            let mut tracker = established();
            let (verdict, state) = match plausible {
                true => (Pass, reset),
                false => (Invalid, "Established"),
            };
            play(
                &mut tracker,
                &[(from, RST, seq + offset, 0, 0, verdict, state)],
            );
        }
        let mut tracker = established();
        play(
            &mut tracker,
            &[
                (from, RST, seq - 1, 0, 0, Invalid, "Established"),
                (from, RST | ACK, seq, ack, 0, Pass, reset),
                (other, ACK, ack, seq, 50, Pass, reset),
                (other, RST, ack + 50, 0, 0, Pass, reset),
                (other, SYN | ACK, ack, seq, 0, Invalid, reset),
                (from, SYN, 1, 0, 0, Reopen, reset),
                (other, SYN, 1, 0, 0, Reopen, reset),
            ],
        );
    }
}

#[test]
fn a_forged_reset_neither_cuts_nor_frees() {
    // Data from its alleged sender.
    let mut tracker = established();
    play(
        &mut tracker,
        &[
            (R, RST, 501, 0, 0, Pass, "Reset/r"),
            (O, ACK, 101, 501, 20, Pass, "Reset/r"),
            (R, ACK, 501, 101, 0, Pass, "Reset/r"), // sent before, came late
            (R, ACK, 501, 121, 0, Pass, "Established"), // knows what came after
        ],
    );
    let mut tracker = established();
    play(
        &mut tracker,
        &[
            (R, RST, 600, 0, 0, Pass, "Reset/r"),
            (R, ACK, 501, 101, 99, Pass, "Reset/r"), // overtaken by the RST
            (R, ACK, 600, 101, 1, Pass, "Established"),
        ],
    );
}

#[test]
fn after_offload_numbers_are_learnt_again() {
    let mut tracker = established();
    tracker.moved_unseen();
    play(&mut tracker, &[(R, RST, 1 << 30, 0, 0, Pass, "Reset/r")]);

    let mut tracker = established();
    tracker.moved_unseen();
    play(
        &mut tracker,
        &[
            (O, ACK, 1 << 30, 1 << 20, 10, Pass, "Established"),
            (R, ACK, 1 << 20, (1 << 30) + 10, 10, Pass, "Established"),
            (R, RST, 501, 0, 0, Invalid, "Established"),
            (
                O,
                FIN | ACK,
                (1 << 30) + 10,
                (1 << 20) + 10,
                0,
                Pass,
                "Closing/o",
            ),
            (
                R,
                FIN | ACK,
                (1 << 20) + 10,
                (1 << 30) + 11,
                0,
                Pass,
                "Closing/both",
            ),
            (O, ACK, (1 << 30) + 11, (1 << 20) + 11, 0, Pass, "TimeWait"),
        ],
    );
}

#[test]
fn a_late_syn_ack_after_offload_undoes_nothing() {
    let mut tracker = established();
    tracker.moved_unseen();
    play(
        &mut tracker,
        &[
            (O, FIN | ACK, 101, 501, 0, Pass, "Closing/o"),
            (R, SYN | ACK, 500, 101, 0, PassQuietly, "Closing/o"),
            (R, FIN | ACK, 501, 102, 0, Pass, "Closing/both"),
            (O, ACK, 102, 502, 0, Pass, "TimeWait"),
        ],
    );
}

#[test]
fn time_wait_gives_way_to_a_higher_syn() {
    let lines: [(Line, &str); 5] = [
        ((O, SYN, 102, 0, 0, Reopen, "TimeWait"), "next"),
        ((O, SYN, 1 << 30, 0, 0, Reopen, "TimeWait"), "higher"),
        (
            (R, SYN, 502, 0, 0, Reopen, "TimeWait"),
            "from the other side",
        ),
        (
            (R, SYN, 400, 0, 0, Invalid, "TimeWait"),
            "lower, other side",
        ),
        ((O, SYN, 100, 0, 0, PassQuietly, "TimeWait"), "lower"),
    ];
    for (line, _) in lines {
        play(&mut closed(), &[line]);
    }
    // Lower, and answered all the same.
    play(
        &mut closed(),
        &[
            (R, SYN | ACK, 501, 101, 0, PassQuietly, "TimeWait"),
            (O, SYN, 50, 0, 0, PassQuietly, "TimeWait"),
            (R, SYN | ACK, 9000, 51, 0, Pass, "SynRecv"),
            (O, ACK, 51, 9001, 0, Pass, "Established"),
            (O, RST, 999_999, 0, 0, Invalid, "Established"),
        ],
    );
    // Lower, answered by an ACK, which the opener resets.
    play(
        &mut closed(),
        &[
            (O, SYN, 50, 0, 0, PassQuietly, "TimeWait"),
            (R, ACK, 502, 102, 0, Pass, "TimeWait"),
            (O, RST, 102, 0, 0, Pass, "Reset/o"),
            (O, SYN, 50, 0, 0, Reopen, "Reset/o"),
        ],
    );
}

#[test]
fn a_peer_that_forgot_the_connection() {
    // The opener restarts with the same port: a challenge, a reset, a new SYN.
    play(
        &mut established(),
        &[
            (O, SYN, 77, 0, 0, PassQuietly, "Established"),
            (R, ACK, 501, 101, 0, Pass, "Established"),
            (O, RST, 101, 0, 0, Pass, "Reset/o"),
            (O, SYN, 77, 0, 0, Reopen, "Reset/o"),
        ],
    );
    // Both have: the numbers start anew under the old entry.
    play(
        &mut established(),
        &[
            (O, SYN, 1 << 31, 0, 0, PassQuietly, "Established"),
            (R, SYN | ACK, 7, (1 << 31) + 1, 0, Pass, "Established"),
            (O, ACK, (1 << 31) + 1, 8, 0, Pass, "Established"),
            (R, RST, 501, 0, 0, Pass, "Reset/r"),
        ],
    );
}

#[test]
fn sequence_numbers_wrap() {
    let top = u32::MAX - 2;
    let mut tracker = Tracker::open(&segment(SYN, top, 0, 0)).expect("a SYN");
    play(
        &mut tracker,
        &[
            (R, SYN | ACK, top, top + 1, 0, Pass, "SynRecv"),
            (O, ACK, top + 1, top + 1, 10, Pass, "Established"),
            (R, ACK, top + 1, 8, 10, Pass, "Established"),
            (O, RST, 7, 0, 0, Invalid, "Established"),
            (O, FIN | ACK, 8, 8, 0, Pass, "Closing/o"),
            (R, FIN | ACK, 8, 9, 0, Pass, "Closing/both"),
            (O, ACK, 9, 9, 0, Pass, "TimeWait"),
        ],
    );
}

#[test]
fn adopted_in_its_midst() {
    for flags in 0..=255_u8 {
        let adopted = Tracker::adopt(&segment(flags, 1, 1, 5));
        let meaning = flags & (SYN | ACK | FIN | RST);
        assert_eq!(adopted.is_some(), meaning == ACK || meaning == FIN | ACK);
    }
    let mut tracker = Tracker::adopt(&segment(ACK, 5000, 9000, 10)).expect("data");
    play(
        &mut tracker,
        &[
            (R, ACK, 9000, 5010, 0, Pass, "Established"),
            (R, FIN | ACK, 9000, 5010, 0, Pass, "Closing/r"),
        ],
    );
}

#[test]
fn the_window_scale_counts_if_both_offer_it() {
    for (theirs, plausible) in [(Some(7), true), (None, false)] {
        let with = |tcp: Tcp, wscale| Tcp { wscale, ..tcp };
        let syn = with(segment(SYN, 100, 0, 0), Some(7));
        let mut tracker = Tracker::open(&syn).expect("a SYN");
        let answer = with(segment(SYN | ACK, 500, 101, 0), theirs);
        assert_eq!(tracker.packet(R, &answer), Pass);
        assert_eq!(tracker.packet(O, &segment(ACK, 101, 501, 0)), Pass);
        let far = segment(RST, 501 + 100_000, 0, 0);
        assert_eq!(tracker.packet(R, &far) == Pass, plausible);
    }
}
