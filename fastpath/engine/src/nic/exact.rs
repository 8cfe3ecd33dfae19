//! An exact-match table of fixed capacity.
//!
//! All memory is taken when it is made: inserting, removing and finding never
//! allocate, never rehash and never move another entry, so a slot's number
//! stays good for as long as its entry lives. Chained hashing over a slab.

use alloc::boxed::Box;
use alloc::vec;
use core::hash::{BuildHasher, Hash};

use foldhash::fast::FixedState;

/// No slot.
pub(crate) const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct Slot<K, V> {
    // The next slot of this chain, or of the free list.
    next: u32,
    entry: Option<(K, V)>,
}

/// What an insert could not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Exists,
    Full,
}

#[derive(Debug)]
pub(crate) struct Exact<K, V> {
    // A power of two.
    heads: Box<[u32]>,
    slots: Box<[Slot<K, V>]>,
    free: u32,
    len: u32,
    hash: FixedState,
}

impl<K: Hash + Eq + Copy, V> Exact<K, V> {
    pub(crate) fn new(capacity: u32, seed: u64) -> Self {
        // NONE is no slot's number.
        let capacity = capacity.min(NONE - 1);
        let slots = (0..capacity)
            .map(|i| Slot {
                next: if i + 1 == capacity { NONE } else { i + 1 },
                entry: None,
            })
            .collect();
        Self {
            heads: vec![NONE; (capacity as usize).max(1).next_power_of_two()].into_boxed_slice(),
            slots,
            free: if capacity == 0 { NONE } else { 0 },
            len: 0,
            hash: FixedState::with_seed(seed),
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.slots.len() as u32
    }

    #[inline]
    fn bucket(&self, key: &K) -> usize {
        let h = self.hash.hash_one(key);
        // The high half is the better mixed one.
        (h >> 32) as usize & (self.heads.len() - 1)
    }

    /// The slot of `key`.
    #[inline]
    pub(crate) fn find(&self, key: &K) -> Option<u32> {
        let mut at = *self.heads.get(self.bucket(key))?;
        while let Some(slot) = self.slots.get(at as usize) {
            match &slot.entry {
                Some((k, _)) if k == key => return Some(at),
                _ => at = slot.next,
            }
        }
        None
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.at(self.find(key)?).map(|(_, v)| v)
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let slot = self.find(key)?;
        self.at_mut(slot)
    }

    /// What is in a slot.
    #[inline]
    pub(crate) fn at(&self, slot: u32) -> Option<(&K, &V)> {
        self.slots
            .get(slot as usize)?
            .entry
            .as_ref()
            .map(|(k, v)| (k, v))
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, slot: u32) -> Option<&mut V> {
        self.slots
            .get_mut(slot as usize)?
            .entry
            .as_mut()
            .map(|(_, v)| v)
    }

    /// The new entry's slot.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Result<u32, Refused> {
        if self.find(&key).is_some() {
            return Err(Refused::Exists);
        }
        let bucket = self.bucket(&key);
        let at = self.free;
        let (Some(slot), Some(head)) =
            (self.slots.get_mut(at as usize), self.heads.get_mut(bucket))
        else {
            return Err(Refused::Full);
        };
        self.free = slot.next;
        slot.next = *head;
        slot.entry = Some((key, value));
        *head = at;
        self.len += 1;
        Ok(at)
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let bucket = self.bucket(key);
        let mut before = NONE;
        let mut at = *self.heads.get(bucket)?;
        loop {
            let slot = self.slots.get_mut(at as usize)?;
            let next = slot.next;
            if slot.entry.as_ref().is_some_and(|(k, _)| k == key) {
                let entry = slot.entry.take();
                slot.next = self.free;
                self.free = at;
                self.len -= 1;
                match self.slots.get_mut(before as usize) {
                    Some(b) => b.next = next,
                    None => {
                        if let Some(head) = self.heads.get_mut(bucket) {
                            *head = next;
                        }
                    }
                }
                return entry.map(|(_, v)| v);
            }
            before = at;
            at = next;
        }
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.slots
            .iter_mut()
            .filter_map(|s| s.entry.as_mut().map(|(_, v)| v))
    }

    /// Everything that is there, by slot.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.slots
            .iter()
            .filter_map(|s| s.entry.as_ref().map(|(k, v)| (k, v)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    #[test]
    fn a_full_table_says_so_and_keeps_what_it_has() {
        let mut t: Exact<u32, u32> = Exact::new(3, 7);
        for k in 0..3 {
            t.insert(k, k * 10).expect("room");
        }
        assert_eq!(t.insert(1, 0), Err(Refused::Exists));
        assert_eq!(t.insert(3, 30), Err(Refused::Full));
        assert_eq!(t.remove(&1), Some(10));
        t.insert(3, 30).expect("room again");
        assert_eq!((t.len(), t.capacity()), (3, 3));
        let mut none: Exact<u32, u32> = Exact::new(0, 7);
        assert_eq!(none.insert(1, 1), Err(Refused::Full));
        assert_eq!(none.remove(&1), None);
    }

    proptest! {
        #[test]
        fn agrees_with_an_ordered_map(
            seed in any::<u64>(),
            ops in proptest::collection::vec((0..3_u8, 0..24_u32, any::<u16>()), 0..200),
        ) {
            let mut table = Exact::new(16, seed);
            let mut model = BTreeMap::new();
            for (op, key, value) in ops {
                match op {
                    0 => {
                        let want = if model.contains_key(&key) {
                            Err(Refused::Exists)
                        } else if model.len() == 16 {
                            Err(Refused::Full)
                        } else {
                            model.insert(key, value);
                            Ok(())
                        };
                        prop_assert_eq!(table.insert(key, value).map(|_| ()), want);
                    }
                    1 => prop_assert_eq!(table.remove(&key), model.remove(&key)),
                    _ => prop_assert_eq!(table.get(&key), model.get(&key)),
                }
                prop_assert_eq!(table.len() as usize, model.len());
            }
            let mut all: alloc::vec::Vec<_> = table.iter().map(|(k, v)| (*k, *v)).collect();
            all.sort_unstable();
            prop_assert_eq!(all, model.into_iter().collect::<alloc::vec::Vec<_>>());
        }
    }
}
