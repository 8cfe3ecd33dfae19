//! The transition function, cell by cell.

use penstock_flow::conntrack::Direction::{Original as O, Reply as R};
use penstock_flow::conntrack::Verdict::{Invalid, Pass, PassQuietly, Reopen};
use penstock_flow::conntrack::tcp::{Kind, Segment, State, transition};

use super::tcp::name;

/// Restates the table in the module's documentation: `state from kind` maps to
/// the answer without and with `fresh`. Closing is played by the scripts.
const TABLE: &str = "
SynSent        o Syn    =               =
SynSent        r Syn    SynSentBoth     SynSentBoth
SynSent        o SynAck !               !
SynSent        r SynAck SynRecv         SynRecv
SynSent        o Ack    !               !
SynSent        r Ack    q               q
SynSent        . Fin    !               !
SynSentBoth    . Syn    =               =
SynSentBoth    o SynAck SynRecvReverse  SynRecvReverse
SynSentBoth    r SynAck SynRecv         SynRecv
SynSentBoth    . Ack    !               !
SynSentBoth    . Fin    !               !
SynRecv        o Syn    =               =
SynRecv        r Syn    !               !
SynRecv        o SynAck Established     Established
SynRecv        r SynAck =               =
SynRecv        o Ack    Established     Established
SynRecv        r Ack    =               =
SynRecv        o Fin    Closing/o       Closing/o
SynRecv        r Fin    Closing/r       Closing/r
SynRecvReverse . Syn    =               =
SynRecvReverse o SynAck =               =
SynRecvReverse r SynAck Established     Established
SynRecvReverse o Ack    =               =
SynRecvReverse r Ack    Established     Established
SynRecvReverse o Fin    Closing/o       Closing/o
SynRecvReverse r Fin    Closing/r       Closing/r
Established    o Syn    q               q
Established    r Syn    !               !
Established    . SynAck =               =
Established    . Ack    =               =
Established    o Fin    Closing/o       Closing/o
Established    r Fin    Closing/r       Closing/r
TimeWait       o Syn    q               new
TimeWait       r Syn    !               new
TimeWait       o SynAck q               q
TimeWait       r SynAck q               SynRecv
TimeWait       . Ack    =               =
TimeWait       . Fin    =               =
Reset/o        . Syn    new             new
Reset/o        . SynAck !               !
Reset/o        o Ack    =               Established
Reset/o        r Ack    =               =
Reset/o        . Fin    =               =
Reset/r        . Syn    new             new
Reset/r        . SynAck !               !
Reset/r        o Ack    =               =
Reset/r        r Ack    =               Established
Reset/r        . Fin    =               =
";

const KINDS: [Kind; 6] = [
    Kind::Syn,
    Kind::SynAck,
    Kind::Ack,
    Kind::Fin,
    Kind::Rst,
    Kind::Nonsense,
];

#[test]
fn the_transition_table() {
    let states = [
        State::SynSent,
        State::SynSentBoth,
        State::SynRecv,
        State::SynRecvReverse,
        State::Established,
        State::TimeWait,
        State::Reset(O),
        State::Reset(R),
    ];
    let rows: Vec<Vec<&str>> = TABLE
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| line.split_whitespace().collect())
        .collect();
    for state in states {
        for from in [O, R] {
            for kind in KINDS {
                for fresh in [false, true] {
                    let side = if from == O { "o" } else { "r" };
                    let text = format!("{kind:?}");
                    let row = rows.iter().find(|row| {
                        row[0] == name(state) && [side, "."].contains(&row[1]) && row[2] == text
                    });
                    let want = match (kind, row) {
                        (Kind::Nonsense, _) => "!",
                        (Kind::Rst, _) if !fresh => "!",
                        (Kind::Rst, _) if matches!(state, State::Reset(_)) => "=",
                        (Kind::Rst, _) if from == O => "Reset/o",
                        (Kind::Rst, _) => "Reset/r",
                        (_, Some(row)) => row[3 + usize::from(fresh)],
                        (_, None) => panic!("no row for {state:?} {from:?} {kind:?}"),
                    };
                    for acks_fin in [false, true] {
                        let segment = Segment {
                            kind,
                            acks_fin,
                            fresh,
                        };
                        let (after, verdict) = transition(state, from, segment);
                        let got = match verdict {
                            Pass if after == state => "=",
                            Pass => name(after),
                            PassQuietly => "q",
                            Invalid => "!",
                            Reopen => "new",
                        };
                        assert_eq!(got, want, "{state:?} {from:?} {segment:?}");
                        assert!(verdict == Pass || after == state);
                    }
                }
            }
        }
    }
}

/// FINs and their acknowledgements only ever accumulate, and all four end it.
#[test]
fn closing_is_monotonic() {
    let mut reached = vec![State::Established];
    let mut n = 0;
    while let Some(state) = reached.get(n).copied() {
        n += 1;
        for from in [O, R] {
            for kind in [Kind::Ack, Kind::Fin] {
                for acks_fin in [false, true] {
                    let segment = Segment {
                        kind,
                        acks_fin,
                        fresh: true,
                    };
                    let (after, verdict) = transition(state, from, segment);
                    assert_eq!(verdict, Pass);
                    if let (State::Closing(before), State::Closing(fins)) = (state, after) {
                        assert!(fins.contains(before));
                    }
                    if !reached.contains(&after) {
                        reached.push(after);
                    }
                }
            }
        }
    }
    // Each FIN unseen, seen or acknowledged, but not neither: nine less one,
    // with TimeWait for the last; and Established.
    assert_eq!(reached.len(), 9, "{reached:?}");
    assert!(reached.contains(&State::TimeWait));
}
