//! Equal input gives equal output, and every packet is told of.

use proptest::prelude::*;

use crate::frames::{ACK, GATEWAY, L4, RST, SYN, arp, frame, mac, tunnelled};
use crate::site::{Capture, options, replay};

const HOSTS: [(u8, &str); 4] = [
    (1, "10.0.0.11"),
    (2, "10.0.0.12"),
    (3, "10.0.9.13"),
    (4, "10.0.0.14"),
];

fn some_frame() -> impl Strategy<Value = Vec<u8>> {
    let host = || prop::sample::select(&HOSTS[..]);
    let l4 = prop_oneof![
        (
            prop::sample::select(vec![SYN, SYN | ACK, ACK, RST]),
            0..3_u32
        )
            .prop_map(|(flags, n)| L4::Tcp(flags, 1000 + n, 1000)),
        Just(L4::Udp),
        Just(L4::Ping),
    ];
    let ports = prop::sample::select(vec![(7, 7), (40_000, 80), (80, 40_000), (1, 81)]);
    let ip = (host(), host(), l4, ports, 0..2000_usize, any::<bool>()).prop_map(
        |(from, to, l4, (sport, dport), len, routed)| {
            let to_mac = if routed { GATEWAY } else { mac(to.0) };
            let vlan = if from.0 == 4 { 7 } else { 0 };
            frame(
                (mac(from.0), from.1, sport),
                (to_mac, to.1, dport),
                vlan,
                64,
                l4,
                len,
            )
        },
    );
    let wire = (ip.clone(), any::<bool>(), 99..102_u32).prop_map(|(inner, way, vni)| {
        let ends = [[192, 0, 2, 1], [192, 0, 2, 2]];
        tunnelled(ends[usize::from(way)], ends[usize::from(!way)], vni, &inner)
    });
    let question = (host(), 0..20_u8)
        .prop_map(|(host, target)| arp(mac(host.0), [10, 0, 0, 10 + host.0], [10, 0, 0, target]));
    let damaged = (ip.clone(), any::<prop::sample::Index>(), any::<u8>()).prop_map(
        |(mut frame, at, byte)| {
            let at = at.index(frame.len());
            frame[at] = byte;
            frame
        },
    );
    prop_oneof![4 => ip, 2 => wire, 1 => question, 2 => damaged]
}

fn some_capture() -> impl Strategy<Value = Capture> {
    let gap = prop_oneof![20 => 0..3_000_000_u64, 1 => 0..100_000_000_000_u64];
    prop::collection::vec((gap, some_frame()), 1..40).prop_map(|packets| {
        let mut at = 0;
        let later = packets.into_iter().map(|(gap, frame)| {
            at += gap;
            (at, frame)
        });
        later.collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        if std::env::var_os("PENSTOCK_LONG").is_some() { 2000 } else { 24 }
    ))]

    #[test]
    fn a_capture_replayed_twice_gives_the_same(capture in some_capture()) {
        let once = replay(&capture, options()).map_err(|e| e.to_string());
        let again = replay(&capture, options()).map_err(|e| e.to_string());
        prop_assert_eq!(&once, &again);
        let lines = once.map_err(TestCaseError::fail)?;
        for number in 1..=capture.len() {
            let told = format!("{number} ");
            prop_assert!(lines.iter().any(|line| line.starts_with(&told)), "{}", told);
        }
    }
}
