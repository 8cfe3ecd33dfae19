//! Maps and vectors that share with their clones what neither has changed.
//!
//! A ruleset is never changed in place: the next one is a clone in which a few
//! entries are others. Cut into parts, only the parts that hold them are copied.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::borrow::Borrow;
use core::hash::{BuildHasher, Hash};

use hashbrown::HashTable;

/// Parts of a map. More cost more to clone, fewer more to change.
const PARTS: usize = 256;

/// A hash map in parts.
#[derive(Clone, Debug)]
pub(crate) struct Shards<K, V> {
    /// None while nothing was ever in it.
    parts: Vec<Arc<HashTable<(K, V)>>>,
    len: usize,
}

impl<K, V> Default for Shards<K, V> {
    fn default() -> Self {
        Self {
            parts: Vec::new(),
            len: 0,
        }
    }
}

#[inline]
fn hash<Q: Hash + ?Sized>(key: &Q) -> u64 {
    foldhash::fast::FixedState::default().hash_one(key)
}

/// The tables use a hash's lowest and highest bits.
#[inline]
fn part(hash: u64) -> usize {
    (hash >> 40) as usize % PARTS
}

impl<K: Hash + Eq + Clone, V: Clone> Shards<K, V> {
    #[inline]
    pub(crate) fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let hash = hash(key);
        let table = self.parts.get(part(hash))?;
        table
            .find(hash, |(k, _)| k.borrow() == key)
            .map(|(_, value)| value)
    }

    pub(crate) fn contains(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// The value to be changed; what shares its part with others is copied first.
    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let hash = hash(key);
        let table = self.parts.get_mut(part(hash))?;
        table.find(hash, |(k, _)| k == key)?;
        Arc::make_mut(table)
            .find_mut(hash, |(k, _)| k == key)
            .map(|(_, value)| value)
    }

    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        if self.parts.is_empty() {
            self.parts = vec![Arc::default(); PARTS];
        }
        let hash = hash(&key);
        let table = Arc::make_mut(self.parts.get_mut(part(hash))?);
        if let Some((_, old)) = table.find_mut(hash, |(k, _)| *k == key) {
            return Some(core::mem::replace(old, value));
        }
        table.insert_unique(hash, (key, value), |(k, _)| self::hash(k));
        self.len += 1;
        None
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let hash = hash(key);
        let table = self.parts.get_mut(part(hash))?;
        table.find(hash, |(k, _)| k == key)?;
        let entry = Arc::make_mut(table)
            .find_entry(hash, |(k, _)| k == key)
            .ok()?;
        self.len -= 1;
        Some(entry.remove().0.1)
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.parts
            .iter()
            .flat_map(|table| table.iter())
            .map(|(k, v)| (k, v))
    }

    /// The entries of parts that `other` does not share: every entry that is not
    /// in `other` as it is here is among them.
    pub(crate) fn unshared<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = (&'a K, &'a V)> {
        self.parts
            .iter()
            .enumerate()
            .filter(|(i, table)| {
                other
                    .parts
                    .get(*i)
                    .is_none_or(|theirs| !Arc::ptr_eq(table, theirs))
            })
            .flat_map(|(_, table)| table.iter())
            .map(|(k, v)| (k, v))
    }
}

/// A place in [`Slots`].
pub(crate) type Slot = u32;

const CHUNK: usize = 64;

/// Values in places that stay theirs while they are there.
#[derive(Clone, Debug)]
pub(crate) struct Slots<T> {
    chunks: Vec<Arc<Vec<Option<T>>>>,
    free: Vec<Slot>,
    next: Slot,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self {
            chunks: Vec::new(),
            free: Vec::new(),
            next: 0,
        }
    }
}

impl<T: Clone> Slots<T> {
    #[inline]
    pub(crate) fn get(&self, slot: Slot) -> Option<&T> {
        let slot = slot as usize;
        self.chunks.get(slot / CHUNK)?.get(slot % CHUNK)?.as_ref()
    }

    /// Where the value is from now on.
    pub(crate) fn add(&mut self, value: T) -> Slot {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        });
        self.set(slot, Some(value));
        slot
    }

    pub(crate) fn replace(&mut self, slot: Slot, value: T) {
        self.set(slot, Some(value));
    }

    pub(crate) fn free(&mut self, slot: Slot) {
        self.set(slot, None);
        self.free.push(slot);
    }

    fn set(&mut self, slot: Slot, value: Option<T>) {
        let slot = slot as usize;
        while self.chunks.len() <= slot / CHUNK {
            self.chunks.push(Arc::new(vec![None; CHUNK]));
        }
        if let Some(chunk) = self.chunks.get_mut(slot / CHUNK)
            && let Some(place) = Arc::make_mut(chunk).get_mut(slot % CHUNK)
        {
            *place = value;
        }
    }
}
