//! The connection table against an ordered map.

use std::collections::BTreeMap;

use penstock_flow::conntrack::{Direction, Handle, Table};
use penstock_flow::tuple::proto;
use penstock_flow::wheel::TICK;
use penstock_flow::{Addr, Key, Tuple};
use proptest::prelude::*;

const CAPACITY: u32 = 12;

/// Few addresses, ports and protocols, so that keys meet again.
fn tuple() -> impl Strategy<Value = Tuple> {
    (0_u8..3, 0_u8..3, 0_u16..3, 0_u16..3, 0_usize..4).prop_map(|(s, d, sp, dp, p)| {
        let (proto, dport) = match [proto::TCP, proto::UDP, proto::ICMP, 47][p] {
            proto::ICMP => (proto::ICMP, [0x0800, 0x0000, 0x0d00][usize::from(dp)]),
            other => (other, dp),
        };
        Tuple {
            src: Addr::from_v4([10, 0, 0, s]),
            dst: Addr::from_v4([10, 0, 0, d]),
            proto,
            sport: sp,
            dport,
        }
    })
}

#[derive(Clone, Debug)]
enum Op {
    /// A packet at a port: find, else open for so long.
    Packet(u32, Tuple, u64),
    Remove(u32, Tuple),
    ExpireAt(u32, Tuple, u64),
    Advance(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let time = 0..(40 * TICK);
    prop_oneof![
        6 => (1_u32..3, tuple(), time.clone()).prop_map(|(p, t, d)| Op::Packet(p, t, d)),
        1 => (1_u32..3, tuple()).prop_map(|(p, t)| Op::Remove(p, t)),
        1 => (1_u32..3, tuple(), time.clone()).prop_map(|(p, t, d)| Op::ExpireAt(p, t, d)),
        2 => time.prop_map(Op::Advance),
    ]
}

/// The slow, obvious version: what a port's packets of a connection look like,
/// in the direction that opened it.
#[derive(Default)]
struct Model(BTreeMap<(u32, Tuple), (u64, u32)>);

impl Model {
    fn find(&mut self, port: u32, t: &Tuple) -> Option<(Direction, &mut (u64, u32))> {
        let reverse = Tuple {
            src: t.dst,
            dst: t.src,
            ..*t
        };
        let opened_by = match (t.proto, t.dport) {
            (proto::ICMP, 0x0000) => Some(Tuple {
                dport: 0x0800,
                ..reverse
            }),
            (proto::ICMP, _) => None,
            _ => Some(Tuple {
                sport: t.dport,
                dport: t.sport,
                ..reverse
            }),
        };
        if self.0.contains_key(&(port, *t)) {
            return Some((Direction::Original, self.0.get_mut(&(port, *t))?));
        }
        let entry = self.0.get_mut(&(port, opened_by?))?;
        Some((Direction::Reply, entry))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn does_what_an_ordered_map_would(
        seed in any::<u64>(),
        ops in proptest::collection::vec(op(), 1..120),
    ) {
        let mut now = seed >> 20;
        let mut table = Table::new(CAPACITY, seed, now);
        let mut model = Model::default();
        let mut gone: Vec<Handle> = Vec::new();
        let mut serial = 0;
        for op in ops {
            match op {
                Op::Packet(port, t, keep) => {
                    let (key, orientation) = Key::new(port, &t);
                    let found = table.find(&key);
                    let deadline = now + keep;
                    match (found, model.find(port, &t)) {
                        (Some(handle), Some((direction, (until, value)))) => {
                            let entry = table.get_mut(handle).expect("found");
                            prop_assert_eq!(entry.direction(orientation), direction);
                            prop_assert_eq!(entry.orientation(direction), orientation);
                            prop_assert_eq!(entry.value, *value);
                            entry.keep_until(deadline);
                            *until = deadline.max(*until);
                        }
                        (None, None) => {
                            serial += 1;
                            // A reply opens nothing.
                            if t.icmp() == Some((0, 0)) {
                                continue;
                            }
                            let inserted = table.insert(key, orientation, deadline, serial);
                            let full = model.0.len() == CAPACITY as usize;
                            prop_assert_eq!(inserted.is_err(), full);
                            if !full {
                                model.0.insert((port, t), (deadline, serial));
                            }
                        }
                        (found, wanted) => panic!("{found:?}, {wanted:?} for {t:?}"),
                    }
                }
                Op::Remove(port, t) => {
                    let (key, _) = Key::new(port, &t);
                    let wanted = model.find(port, &t).map(|(_, (_, value))| *value);
                    let removed = table.find(&key).and_then(|handle| {
                        gone.push(handle);
                        table.remove(handle)
                    });
                    prop_assert_eq!(removed.map(|(_, value)| value), wanted);
                    model.0.retain(|_, (_, value)| Some(*value) != wanted);
                }
                Op::ExpireAt(port, t, delay) => {
                    let (key, _) = Key::new(port, &t);
                    if let Some(handle) = table.find(&key) {
                        table.expire_at(handle, now + delay);
                    }
                    if let Some((_, (until, _))) = model.find(port, &t) {
                        *until = now + delay;
                    }
                }
                Op::Advance(delay) => {
                    now += delay;
                    let mut expired = Vec::new();
                    let left = table.expire(now, 10_000, |handle, entry| {
                        // The second of three is asked to stay.
                        if entry.value % 3 == 1 {
                            return Some(now + 5 * TICK);
                        }
                        gone.push(handle);
                        expired.push(entry.value);
                        None
                    });
                    prop_assert!(left > 0);
                    for value in expired {
                        let entry = model.0.iter().find(|(_, (_, v))| *v == value);
                        let (key, (until, _)) = entry.expect("known");
                        prop_assert!(*until <= now);
                        let key = *key;
                        model.0.remove(&key);
                    }
                    for (until, value) in model.0.values_mut() {
                        let late = *until + TICK <= now;
                        prop_assert!(!late || *value % 3 == 1, "{} is late", value);
                    }
                    // Which of those that stay were asked, the table knows.
                    for (_, entry) in table.iter() {
                        let (key, until) = (entry.value, entry.deadline());
                        for (u, v) in model.0.values_mut() {
                            if *v == key {
                                *u = until;
                            }
                        }
                    }
                }
            }
            prop_assert_eq!(table.len() as usize, model.0.len());
            prop_assert_eq!(table.is_empty(), model.0.is_empty());
            let mut values: Vec<u32> = table.iter().map(|(_, entry)| entry.value).collect();
            let mut wanted: Vec<u32> = model.0.values().map(|(_, value)| *value).collect();
            values.sort_unstable();
            wanted.sort_unstable();
            prop_assert_eq!(values, wanted);
            for handle in &gone {
                prop_assert!(table.get(*handle).is_none());
                prop_assert!(table.get_mut(*handle).is_none());
                prop_assert!(table.remove(*handle).is_none());
            }
        }
    }
}

#[test]
fn fills_to_the_last_entry_and_empties_again() {
    let capacity = 100_000;
    let mut table = Table::new(capacity, 7, 0);
    let key = |n: u32| {
        let tuple = Tuple {
            src: Addr::from_v4(n.to_be_bytes()),
            dst: Addr::from_v4([10, 0, 0, 1]),
            proto: proto::TCP,
            sport: 1,
            dport: 80,
        };
        Key::new(1, &tuple)
    };
    for round in 0..3 {
        for n in 0..capacity {
            let (key, way) = key(n + round);
            table.insert(key, way, u64::MAX, n).expect("room");
        }
        let (more, way) = key(u32::MAX);
        assert_eq!(
            table.insert(more, way, 0, 0).map_err(|full| full.capacity),
            Err(capacity)
        );
        for n in 0..capacity {
            let (key, _) = key(n + round);
            let handle = table.find(&key).expect("there");
            assert_eq!(table.remove(handle), Some((key, n)));
        }
        assert!(table.is_empty());
    }
}
