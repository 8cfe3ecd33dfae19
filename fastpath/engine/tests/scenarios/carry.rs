//! Connections carried over to engines that know nothing of them.

use std::collections::BTreeMap;

use penstock_engine::{Config, FlowState, ImportError};
use penstock_flow::conntrack::Tracker;
use penstock_flow::tuple::proto;
use penstock_flow::{Addr, Tuple};
use penstock_rules::model::Direction;
use proptest::prelude::*;

use crate::bed::frames::{ACK, FIN, SYN};
use crate::bed::talk::Talk;
use crate::bed::world::{BLUE, GROUP, group, put_group, rule};
use crate::bed::{Bed, MS, SECOND, capacities, config};

/// Everything that a node knows, taken in slices of some size.
fn exported(bed: &Bed, node: usize) -> Vec<FlowState> {
    let mut all = Vec::new();
    let mut from = Some(0);
    while let Some(slot) = from {
        from = bed.nodes[node]
            .engine
            .export(bed.now, slot, 7, &mut |state| all.push(*state));
    }
    all
}

/// The world of `bed` after a restart that took `pause`.
fn restarted(bed: &Bed, pause: u64) -> (Bed, Vec<Result<(), ImportError>>) {
    let mut next = Bed::new();
    let mut results = Vec::new();
    for node in 0..2 {
        for mut state in exported(bed, node) {
            state.idle_ns += pause;
            let now = next.now;
            results.push(next.nodes[node].engine.import(now, &state));
        }
    }
    next.check();
    (next, results)
}

fn by_key(states: Vec<FlowState>) -> BTreeMap<(u32, Tuple), FlowState> {
    states.into_iter().map(|s| ((s.port, s.tuple), s)).collect()
}

const PAIRS: [(&str, &str, bool); 5] = [
    ("a", "b", false),
    ("a", "c", true),
    ("e", "d", false),
    ("c", "a", false),
    ("x", "y", false),
];

/// Connections of all kinds and in all states, each once on every way.
fn busy(bed: &mut Bed) -> Vec<Talk> {
    let mut established = Vec::new();
    for (n, (a, b, v6)) in PAIRS.into_iter().enumerate() {
        let talk = |sport| Talk {
            v6,
            sport: sport + n as u16,
            ..Talk::new(a, b)
        };
        talk(1000).syn(bed);
        let half = talk(1100);
        half.syn(bed);
        half.tcp(bed, true, SYN | ACK, 5000, 1001, 0);
        for (sport, offloaded) in [(1200, false), (1300, true)] {
            let talk = talk(sport);
            talk.open(bed);
            if offloaded {
                talk.data(bed, false);
                talk.data(bed, true);
            }
            established.push(talk);
        }
        let closing = talk(1400);
        closing.open(bed);
        closing.tcp(bed, false, FIN | ACK, 1001, 5001, 0);
        let over = talk(1500);
        over.open(bed);
        over.data(bed, false);
        over.data(bed, true);
        over.close(bed);
        let reset = talk(1600);
        reset.open(bed);
        reset.rst(bed);
        let (asked, answered) = (talk(1700), talk(1800));
        asked.udp(bed, false);
        answered.udp(bed, false);
        answered.udp(bed, true);
        answered.ping(bed, false);
        answered.ping(bed, true);
        bed.now += MS;
    }
    established
}

#[test]
fn nothing_of_a_connection_is_lost_but_its_nic_entries() {
    let mut before = Bed::new();
    let established = busy(&mut before);
    before.wait(3 * SECOND);
    let (mut after, results) = restarted(&before, 2 * SECOND);
    // One end on each node, or both on one.
    assert_eq!(results.len(), PAIRS.len() * 10 * 2);
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    for node in 0..2 {
        let (old, new) = (exported(&before, node), exported(&after, node));
        let (old, new) = (by_key(old), by_key(new));
        assert_eq!(old.len(), new.len());
        for (key, old) in old {
            let new = &new[&key];
            let mut expected = old;
            expected.idle_ns += 2 * SECOND;
            assert_eq!(format!("{new:?}"), format!("{expected:?}"));
        }
        assert_eq!(after.counters(node).offload.live, 0);
        assert_eq!(after.counters(node).connections.opened, 0);
    }
    // Mid-stream packets pass, and are offloaded again; what ends, ends.
    for talk in established {
        for back in [true, false, true] {
            let fate = talk.data(&mut after, back);
            assert_eq!(fate.at(), if back { talk.a } else { talk.b }, "{fate:?}");
        }
        talk.close(&mut after);
    }
    assert!(after.counters(0).nic.packets > 0);
    assert_eq!(after.counters(0).connections.adopted, 0);
}

#[test]
fn silence_counts_on() {
    let mut before = Bed::new();
    let talk = Talk::new("a", "b");
    talk.udp(&mut before, false);
    before.wait(20 * SECOND);
    // Not answered, it lives for 30 seconds.
    let (mut after, results) = restarted(&before, 5 * SECOND);
    assert_eq!(results, [Ok(()), Ok(())]);
    after.wait(4 * SECOND);
    assert_eq!(after.counters(0).connections.live, 2);
    after.wait(2 * SECOND);
    assert_eq!(after.counters(0).connections.live, 0);
    let (_, results) = restarted(&before, 11 * SECOND);
    assert_eq!(results, [Err(ImportError::Expired); 2]);
}

#[test]
fn the_policy_in_force_decides() {
    let mut before = Bed::new();
    let (web, ssh) = (
        Talk::new("a", "b"),
        Talk {
            dport: 22,
            ..Talk::new("a", "b")
        },
    );
    web.open(&mut before);
    ssh.open(&mut before);
    let mut states = exported(&before, 0);
    // Whichever end comes first.
    for reverse in [false, true] {
        if reverse {
            states.reverse();
        }
        let mut after = Bed::new();
        after.change(|_, policy| {
            let rules = vec![rule(
                "web",
                Direction::Ingress,
                Some(proto::TCP),
                &[(80, 80)],
                vec![],
            )];
            put_group(policy, GROUP, group(BLUE, true, false, rules));
            if let Some(port) = policy.ports.get_mut(&2) {
                port.groups = vec![GROUP];
            }
        });
        let now = after.now;
        let engine = &mut after.nodes[0].engine;
        let results: Vec<_> = states.iter().map(|s| engine.import(now, s)).collect();
        let refused = results.iter().filter(|r| **r == Err(ImportError::Denied));
        assert_eq!(refused.count(), 1, "{results:?}");
        assert!(ssh.data(&mut after, false).at().is_empty());
        assert!(ssh.data(&mut after, true).at().is_empty());
        assert_eq!(web.data(&mut after, true).at(), "a");
        after.nodes[0]
            .engine
            .visit_flows(after.now, Some(2), &mut |flow| {
                assert_eq!(flow.rule, "group/rules/web", "the present one");
                true
            });
    }
}

#[test]
fn every_refusal_has_its_reason() {
    let mut bed = Bed::with(
        Config {
            max_connections_per_port: 2,
            ..config()
        },
        capacities(),
    );
    Talk::new("a", "b").open(&mut bed);
    let good = exported(&bed, 0)[0];
    let now = bed.now;
    let mut import = |edit: &dyn Fn(&mut FlowState)| {
        let mut state = good;
        // Another connection than the one that is there.
        state.tuple.sport = 7;
        edit(&mut state);
        bed.nodes[0].engine.import(now, &state)
    };
    type Edit = (&'static str, fn(&mut FlowState), ImportError);
    let v6 = |s: &mut FlowState| s.tuple.dst = Addr(0xfd << 120);
    let cases: [Edit; 11] = [
        ("families", v6, ImportError::Malformed),
        (
            "tracker",
            |s| s.tuple.proto = proto::UDP,
            ImportError::Malformed,
        ),
        (
            "an answer",
            |s| {
                (s.tuple.proto, s.tuple.dport) = (proto::ICMP, 0);
                s.tracker = Tracker::plain(proto::ICMP, true).expect("no TCP");
            },
            ImportError::Malformed,
        ),
        (
            "counters",
            |s| s.nic.bytes = u64::MAX,
            ImportError::Malformed,
        ),
        ("port", |s| s.port = 99, ImportError::UnknownPort),
        ("no port", |s| s.port = 0, ImportError::UnknownPort),
        ("the other node's", |s| s.port = 3, ImportError::UnknownPort),
        ("VPC", |s| s.vni = 200, ImportError::NotThePorts),
        (
            "address",
            |s| s.ingress = !s.ingress,
            ImportError::NotThePorts,
        ),
        ("age", |s| s.idle_ns = u64::MAX, ImportError::Expired),
        ("twice", |s| s.tuple.sport = 40_000, ImportError::Duplicate),
    ];
    for (what, edit, expected) in cases {
        assert_eq!(import(&edit), Err(expected), "{what}");
    }
    assert_eq!(import(&|_| {}), Ok(()));
    assert_eq!(import(&|s| s.tuple.sport = 8), Err(ImportError::Full));
    bed.check();
}

#[test]
fn a_stranger_is_no_other_end() {
    let mut bed = Bed::new();
    // Between x and y runs a connection of the same addresses as a's and c's.
    Talk::new("x", "y").open(&mut bed);
    Talk::new("a", "c").open(&mut bed);
    let mut state = exported(&bed, 0)
        .into_iter()
        .find(|s| s.port == 1)
        .expect("a's");
    state.peer = 6;
    state.tuple.dport = 81;
    let now = bed.now;
    assert_eq!(bed.nodes[0].engine.import(now, &state), Ok(()));
    let kept = by_key(exported(&bed, 0));
    assert_eq!(kept[&(1, state.tuple)].peer, 0);
}

proptest! {
    /// Whatever comes, the books stay right and packets have an end.
    #[test]
    fn nothing_that_comes_does_harm(
        edits in proptest::collection::vec((0..9_u8, any::<u64>(), any::<u128>()), 1..40),
    ) {
        let mut before = Bed::new();
        busy(&mut before);
        let states = exported(&before, 0);
        let mut after = Bed::new();
        for (field, a, b) in edits {
            let mut state = states[a as usize % states.len()];
            match field {
                0 => state.port = a as u32 % 9,
                1 => state.vni = a as u32,
                2 => (state.tuple.sport, state.tuple.dport) = (a as u16, (a >> 16) as u16),
                3 => state.tuple.src = Addr(b),
                4 => state.peer = a as u32 % 9,
                5 => state.idle_ns = a,
                6 => state.tuple.proto = a as u8,
                7 => (state.slow.bytes, state.nic.packets) = (a, b as u64),
                _ => state.tracker = states[b as usize % states.len()].tracker,
            }
            let now = after.now;
            let _ = after.nodes[0].engine.import(now, &state);
            after.check();
        }
        for (a, b, v6) in PAIRS {
            for sport in [1200, 1300] {
                let talk = Talk { v6, sport, ..Talk::new(a, b) };
                talk.data(&mut after, true);
                talk.data(&mut after, false);
            }
        }
        after.wait(8000 * SECOND);
        prop_assert_eq!(after.counters(0).connections.live, 0);
    }
}
