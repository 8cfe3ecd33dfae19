//! A table of patterns with priorities: the first match in rank order decides.
//!
//! Linear, and small on purpose: NICs have few of these entries. High priority
//! wins; at equal priority the order of the keys does, so that the same entries
//! give the same answer in whatever order they were written.

use alloc::vec::Vec;

use penstock_flow::Tuple;

use super::exact::Refused;
use super::{AclKey, FenceKey};
use crate::counters::Traffic;

/// The fields that a pattern looks at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a> {
    pub(crate) direction: u8,
    pub(crate) vni: u32,
    pub(crate) ingress: u32,
    pub(crate) tuple: &'a Tuple,
}

pub(crate) trait Pattern: Copy + Ord {
    fn matches(&self, f: &Fields<'_>) -> bool;
}

impl Pattern for AclKey {
    fn matches(&self, f: &Fields<'_>) -> bool {
        self.vni.matches(f.vni)
            && self.dst.matches(f.tuple.dst.0)
            && self.src.matches(f.tuple.src.0)
            && self.proto.matches(f.tuple.proto)
            && self.dport.matches(f.tuple.dport)
            && self.sport.matches(f.tuple.sport)
            && self.port_id.matches(f.ingress)
            && self.direction.matches(f.direction)
    }
}

impl Pattern for FenceKey {
    fn matches(&self, f: &Fields<'_>) -> bool {
        self.vni.matches(f.vni)
            && self.port_id.matches(f.ingress)
            && self.src.matches(f.tuple.src.0)
            && self.dst.matches(f.tuple.dst.0)
            && self.proto.matches(f.tuple.proto)
    }
}

#[derive(Clone, Copy, Debug)]
struct Row<K, A> {
    priority: u32,
    key: K,
    action: A,
    hits: Traffic,
}

#[derive(Debug)]
pub(crate) struct Ranked<K, A> {
    // Sorted: priority downwards, then key.
    rows: Vec<Row<K, A>>,
    capacity: u32,
}

impl<K: Pattern, A: Copy> Ranked<K, A> {
    pub(crate) fn new(capacity: u32) -> Self {
        Self {
            rows: Vec::with_capacity(capacity as usize),
            capacity,
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.rows.len() as u32
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    fn position(&self, key: &K, priority: u32) -> Result<usize, usize> {
        self.rows
            .binary_search_by(|r| priority.cmp(&r.priority).then(r.key.cmp(key)))
    }

    pub(crate) fn insert(&mut self, key: K, priority: u32, action: A) -> Result<(), Refused> {
        match self.position(&key, priority) {
            Ok(_) => Err(Refused::Exists),
            Err(_) if self.len() >= self.capacity => Err(Refused::Full),
            Err(at) => {
                let hits = Traffic::default();
                self.rows.insert(
                    at,
                    Row {
                        priority,
                        key,
                        action,
                        hits,
                    },
                );
                Ok(())
            }
        }
    }

    pub(crate) fn modify(&mut self, key: &K, priority: u32, action: A) -> bool {
        let Ok(at) = self.position(key, priority) else {
            return false;
        };
        self.rows.get_mut(at).is_some_and(|r| {
            r.action = action;
            true
        })
    }

    pub(crate) fn remove(&mut self, key: &K, priority: u32) -> bool {
        match self.position(key, priority) {
            Ok(at) => {
                self.rows.remove(at);
                true
            }
            Err(_) => false,
        }
    }

    pub(crate) fn contains(&self, key: &K, priority: u32) -> bool {
        self.position(key, priority).is_ok()
    }

    /// What the first match says; counts the packet there.
    pub(crate) fn hit(&mut self, fields: &Fields<'_>, bytes: usize) -> Option<A> {
        let row = self.rows.iter_mut().find(|r| r.key.matches(fields))?;
        row.hits.add(bytes);
        Some(row.action)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, u32, A, Traffic)> {
        self.rows
            .iter()
            .map(|r| (&r.key, r.priority, r.action, r.hits))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{AclAction, Range, Ternary};
    use super::*;
    use penstock_flow::{Addr, tuple::proto};

    fn tuple(dport: u16) -> Tuple {
        Tuple {
            src: Addr::from_v4([10, 0, 0, 1]),
            dst: Addr::from_v4([10, 0, 0, 2]),
            proto: proto::TCP,
            sport: 4000,
            dport,
        }
    }

    fn key(low: u16, high: u16) -> AclKey {
        AclKey {
            vni: Ternary {
                value: 7,
                mask: 0xff_ffff,
            },
            dport: Range { low, high },
            ..AclKey::default()
        }
    }

    #[test]
    fn high_priority_wins_whatever_the_order_of_writing() {
        for swap in [false, true] {
            let mut rows = [
                (key(0, 1023), 10, AclAction::Drop),
                (key(80, 80), 20, AclAction::Allow),
            ];
            if swap {
                rows.swap(0, 1);
            }
            let mut t = Ranked::new(4);
            for (k, p, a) in rows {
                t.insert(k, p, a).expect("room");
            }
            for (vni, dport, want) in [
                (7, 80, Some(AclAction::Allow)),
                (7, 81, Some(AclAction::Drop)),
                (7, 1024, None),
                (8, 80, None),
            ] {
                let t2 = tuple(dport);
                let fields = Fields {
                    direction: 0,
                    vni,
                    ingress: 1,
                    tuple: &t2,
                };
                assert_eq!(t.hit(&fields, 60), want, "vni {vni} dport {dport}");
            }
        }
    }

    #[test]
    fn identity_is_key_and_priority() {
        let mut t = Ranked::new(2);
        let k = key(1, 2);
        t.insert(k, 5, AclAction::Drop).expect("room");
        assert_eq!(t.insert(k, 5, AclAction::Ask), Err(Refused::Exists));
        t.insert(k, 6, AclAction::Ask).expect("another priority");
        assert_eq!(t.insert(k, 7, AclAction::Ask), Err(Refused::Full));
        assert!(t.modify(&k, 6, AclAction::Allow));
        assert!(!t.modify(&k, 8, AclAction::Allow));
        assert!(t.remove(&k, 6) && !t.remove(&k, 6));
        assert_eq!(t.iter().count(), 1);
    }
}
