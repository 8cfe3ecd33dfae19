//! Trackers taken apart and put together again.

use penstock_flow::conntrack::Direction;
use penstock_flow::conntrack::tcp::{Fins, Parts, SideParts, State, Tracker};
use penstock_flow::packet::Tcp;
use proptest::prelude::*;

fn segments() -> impl Strategy<Value = Vec<(bool, Tcp)>> {
    // Near one another, so that they meet; flags mostly of a real life.
    let flags = prop_oneof![
        Just(2),
        Just(18),
        Just(16),
        Just(17),
        Just(4),
        Just(20),
        0..64_u8
    ];
    let wscale = prop_oneof![Just(None), (0..=14_u8).prop_map(Some)];
    let segment = (
        any::<bool>(),
        flags,
        0..40_u32,
        0..40_u32,
        any::<u16>(),
        0..9_u16,
        wscale,
    )
        .prop_map(|(original, flags, seq, ack, window, payload_len, wscale)| {
            let wscale = wscale.filter(|_| flags & 2 != 0);
            (
                original,
                Tcp {
                    flags,
                    wscale,
                    seq,
                    ack,
                    window,
                    payload_len,
                },
            )
        });
    proptest::collection::vec(segment, 1..40)
}

fn direction(original: bool) -> Direction {
    if original {
        Direction::Original
    } else {
        Direction::Reply
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever a tracker has been through, its parts make the same tracker.
    #[test]
    fn parts_are_the_whole(segments in segments(), unseen in 0..40_usize) {
        let open = Tcp { flags: 2, wscale: Some(3), seq: 1, ack: 0, window: 100, payload_len: 0 };
        let mut tracker = Tracker::open(&open).expect("a SYN");
        for (n, (original, segment)) in segments.into_iter().enumerate() {
            tracker.packet(direction(original), &segment);
            if n == unseen {
                tracker.moved_unseen();
            }
            prop_assert_eq!(Tracker::from_parts(&tracker.parts()), Some(tracker));
        }
    }
}

#[test]
fn impossible_parts_are_refused() {
    let side = SideParts {
        next: 1,
        acked: 1,
        window: 1,
        wscale: Some(14),
        unseen: false,
    };
    let parts = |state| Parts {
        state,
        probed: false,
        sides: [side; 2],
    };
    let fins = |bits| Fins::from_bits(bits).map(State::Closing);
    for bits in 0..=u8::MAX {
        // Acknowledged, but not seen; or beyond all flags.
        let possible = bits < 16 && (bits >> 2) & !bits & 3 == 0;
        assert_eq!(fins(bits).is_some(), possible, "{bits}");
        if let Some(state) = fins(bits) {
            // None seen is not closing, all acknowledged is over.
            let closing = bits != 0 && bits != 15;
            assert_eq!(
                Tracker::from_parts(&parts(state)).is_some(),
                closing,
                "{bits}"
            );
        }
    }
    for n in 0..2 {
        for edit in [
            |side: &mut SideParts| side.wscale = Some(15),
            |side: &mut SideParts| side.window = (u16::MAX as u32) * (1 << 14) + 1,
        ] {
            let mut bad = parts(State::Established);
            assert!(Tracker::from_parts(&bad).is_some());
            edit(&mut bad.sides[n]);
            assert_eq!(Tracker::from_parts(&bad), None);
        }
    }
}
