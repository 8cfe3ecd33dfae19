use std::time::Duration;

use proptest::prelude::*;
use prost::Message as _;

use super::file::{FlowsPart, Moment, Unusable};
use super::*;
use crate::snapshot;

fn side() -> impl Strategy<Value = SideParts> {
    let wscale = prop_oneof![Just(None), (0..=14_u8).prop_map(Some)];
    (any::<[u32; 3]>(), wscale, any::<bool>()).prop_map(
        |([next, acked, window], wscale, unseen)| SideParts {
            next,
            acked,
            window: window >> 2,
            wscale,
            unseen,
        },
    )
}

fn tracker() -> impl Strategy<Value = (u8, Tracker)> {
    let closing = (1..15_u8).prop_filter_map("impossible", |bits| {
        Fins::from_bits(bits).map(State::Closing)
    });
    let state = prop_oneof![
        Just(State::SynSent),
        Just(State::SynSentBoth),
        Just(State::SynRecv),
        Just(State::SynRecvReverse),
        Just(State::Established),
        closing,
        Just(State::TimeWait),
        Just(State::Reset(Direction::Original)),
        Just(State::Reset(Direction::Reply)),
    ];
    let tcp = (state, any::<bool>(), side(), side()).prop_filter_map(
        "impossible",
        |(state, probed, a, b)| {
            let parts = Parts {
                state,
                probed,
                sides: [a, b],
            };
            Some((6, Tracker::Tcp(Tcp::from_parts(&parts)?)))
        },
    );
    let plain = (any::<u8>(), any::<bool>()).prop_filter_map("TCP", |(protocol, replied)| {
        Some((protocol, Tracker::plain(protocol, replied)?))
    });
    prop_oneof![3 => tcp, 1 => plain]
}

fn state() -> impl Strategy<Value = FlowState> {
    let tuple = (any::<[u128; 2]>(), any::<[u16; 2]>());
    let numbers = (any::<[u32; 3]>(), any::<[u64; 5]>(), any::<bool>());
    (tracker(), tuple, numbers, "[a-z/]{0,40}").prop_map(
        |((protocol, tracker), ([src, dst], [sport, dport]), (ids, numbers, ingress), rule)| {
            FlowState {
                port: ids[0],
                vni: ids[1],
                tuple: Tuple {
                    src: Addr(src),
                    dst: Addr(dst),
                    proto: protocol,
                    sport,
                    dport,
                },
                ingress,
                peer: ids[2],
                tracker,
                idle_ns: numbers[0],
                slow: Traffic {
                    packets: numbers[1],
                    bytes: numbers[2],
                },
                nic: Traffic {
                    packets: numbers[3],
                    bytes: numbers[4],
                },
                rule: Name::new(&rule),
                persists: rule.len() % 2 == 1,
            }
        },
    )
}

proptest! {
    #[test]
    fn nothing_is_lost_on_the_way(state in state()) {
        let bytes = encode(&state).encode_to_vec();
        let message = v1::FlowState::decode(&*bytes).expect("a message");
        let back = decode(message).expect("well-formed");
        prop_assert_eq!(format!("{back:?}"), format!("{state:?}"));
    }

    #[test]
    fn any_bytes_have_an_answer(
        state in state(),
        noise in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
    ) {
        let mut bytes = encode(&state).encode_to_vec();
        for (at, byte) in noise {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(message) = v1::FlowState::decode(&*bytes) {
            let _ = decode(message);
        }
        let _ = snapshot::decode::<FlowsPart>(&bytes);
    }
}

fn moment(boot: &str, uptime_ms: u64, wall_ms: u64) -> Moment {
    Moment {
        boot: boot.to_owned(),
        uptime_ms,
        wall_ms,
    }
}

#[test]
fn time_goes_on_over_a_restart_of_the_worker_and_of_the_machine() {
    let then = moment("a", 5000, 70_000);
    let later = Duration::from_secs(2);
    // The wall clock may be set meanwhile.
    assert_eq!(then.until(&moment("a", 7000, 10)), Some(later));
    assert_eq!(then.until(&moment("b", 10, 72_000)), Some(later));
    assert_eq!(then.until(&moment("b", 9000, 10)), None);
    let now = Moment::now().expect("the system tells");
    let next = Moment::now().expect("the system tells");
    assert!(now.until(&next).expect("later") < Duration::from_secs(60));
}

#[test]
fn a_file_is_used_while_it_is_fresh() {
    let tuple = Tuple {
        src: Addr(1),
        dst: Addr(2),
        proto: 17,
        sport: 1,
        dport: 2,
    };
    let good = encode(&FlowState {
        port: 1,
        vni: 1,
        tuple,
        ingress: false,
        peer: 0,
        tracker: Tracker::plain(17, true).expect("no TCP"),
        idle_ns: 5,
        slow: Traffic::default(),
        nic: Traffic::default(),
        rule: Name::EMPTY,
        persists: false,
    });
    let bad = v1::FlowState {
        key: None,
        ..good.clone()
    };
    let file = |written| FlowsPart {
        written,
        flows: vec![good.clone(), bad.clone()],
    };
    let (then, longest) = (moment("a", 1000, 0), Duration::from_secs(60));
    let open = |written, uptime| file(written).open(&moment("a", uptime, 0), longest);
    let flows = open(Some(then.clone()), 3000).expect("fresh");
    assert_eq!(flows[0].as_ref().map(|s| s.idle_ns), Ok(2_000_000_005));
    assert!(flows[1].is_err());
    let stale = Unusable::Stale(Duration::from_millis(60_001));
    assert_eq!(open(Some(then.clone()), 61_001).err(), Some(stale));
    assert_eq!(open(Some(then), 999).err(), Some(Unusable::Future));
    assert_eq!(open(None, 999).err(), Some(Unusable::NoMoment));
}
