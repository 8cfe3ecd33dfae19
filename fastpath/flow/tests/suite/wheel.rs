//! The wheel against a sorted list.

use std::collections::BTreeMap;

use penstock_flow::wheel::{TICK, Wheel};
use proptest::prelude::*;

const TIMERS: u32 = 16;

#[derive(Clone, Debug)]
enum Op {
    Arm(u32, u64),
    Cancel(u32),
    Advance(u64),
}

/// Delays of every magnitude, from below a tick to beyond the top level.
fn delay() -> impl Strategy<Value = u64> {
    (0_u32..60, any::<u64>()).prop_map(|(bits, x)| x & ((1 << bits) - 1))
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..TIMERS, delay()).prop_map(|(i, d)| Op::Arm(i, d)),
        1 => (0..TIMERS).prop_map(Op::Cancel),
        4 => delay().prop_map(Op::Advance),
    ]
}

fn due(wheel: &mut Wheel, now: u64) -> Vec<u32> {
    let mut fired = Vec::new();
    // A budget of one step must make progress too.
    for _ in 0..100_000 {
        let mut budget = 1;
        match wheel.next_due(now, &mut budget) {
            Some(index) => fired.push(index),
            None if budget > 0 => return fired,
            None => {
                let mut probe = 1000;
                if let Some(index) = wheel.next_due(now, &mut probe) {
                    fired.push(index);
                } else if probe > 0 {
                    return fired;
                }
            }
        }
    }
    panic!("no end of work at {now}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn fires_what_a_sorted_list_would(
        start in delay(),
        ops in proptest::collection::vec(op(), 1..60),
    ) {
        let mut now = start;
        let mut wheel = Wheel::new(TIMERS, now);
        let mut model: BTreeMap<u32, u64> = BTreeMap::new();
        for op in ops {
            match op {
                Op::Arm(i, delay) => {
                    let deadline = now.saturating_add(delay);
                    wheel.arm(i, deadline);
                    model.insert(i, deadline.div_ceil(TICK));
                }
                Op::Cancel(i) => {
                    wheel.cancel(i);
                    model.remove(&i);
                }
                Op::Advance(delay) => {
                    now = now.saturating_add(delay);
                    let mut fired = due(&mut wheel, now);
                    fired.sort_unstable();
                    let want: Vec<u32> = model
                        .iter()
                        .filter(|(_, tick)| **tick <= now / TICK)
                        .map(|(i, _)| *i)
                        .collect();
                    prop_assert_eq!(&fired, &want, "at {}", now);
                    model.retain(|_, tick| *tick > now / TICK);
                }
            }
            for i in 0..TIMERS {
                let want = model.get(&i).map(|tick| tick.saturating_mul(TICK));
                prop_assert_eq!(wheel.deadline(i), want);
            }
        }
    }
}

#[test]
fn a_far_deadline_costs_nothing_until_it_comes() {
    let mut wheel = Wheel::new(2, 0);
    wheel.arm(0, u64::MAX);
    wheel.arm(1, 7440 * 1_000_000_000);
    let mut steps = 0;
    for second in 0..7440_u64 {
        let mut budget = 100;
        assert_eq!(wheel.next_due(second * 1_000_000_000, &mut budget), None);
        steps += 100 - budget;
    }
    assert!(steps < 7440 * 2, "{steps}");
    let mut budget = 100;
    let fired = wheel.next_due(7441 * 1_000_000_000, &mut budget);
    assert_eq!(fired, Some(1));
}

#[test]
fn work_is_bounded_and_nothing_is_lost() {
    let n = 10_000;
    let mut wheel = Wheel::new(n, 0);
    for i in 0..n {
        wheel.arm(i, u64::from(i % 7 + 1) * 1_000_000_000);
    }
    wheel.arm(n, 1); // out of range: ignored
    let mut seen = vec![false; n as usize];
    for _ in 0..n {
        let mut budget = 5;
        while let Some(i) = wheel.next_due(10_000_000_000, &mut budget) {
            assert!(!std::mem::replace(&mut seen[i as usize], true), "{i} twice");
        }
    }
    assert!(seen.iter().all(|s| *s));
}
