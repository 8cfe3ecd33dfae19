//! The connection table of one shard: fixed capacity, stable handles, timers.

mod entry;

use alloc::vec::Vec;

use super::index::Index;
use crate::hash::FlowHash;
use crate::wheel::Wheel;
use crate::{Key, Orientation};

pub use entry::{Entry, Handle};

/// The table holds as many connections as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection table is full: {capacity} entries")]
pub struct TableFull {
    /// The table's capacity.
    pub capacity: u32,
}

/// Starts on a cache line: a connection touches as few of them as it can.
#[derive(Debug)]
#[repr(align(64))]
struct Slot<V> {
    hash: u64,
    generation: u32,
    entry: Option<Entry<V>>,
}

/// Connections by [`Key`], each with a value and a deadline.
///
/// All memory is taken at construction; nothing on a packet's way allocates.
/// The hash is seeded, since senders choose the keys.
pub struct Table<V> {
    index: Index,
    slots: Vec<Slot<V>>,
    /// Slots that have held an entry and hold none.
    free: Vec<u32>,
    capacity: u32,
    wheel: Wheel,
    hash: FlowHash,
}

impl<V> core::fmt::Debug for Table<V> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        // Neither a million entries nor the seed, which is a secret.
        f.debug_struct("Table")
            .field("capacity", &self.capacity)
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl<V> Table<V> {
    /// An empty table for `capacity` connections, hashing by the secret `seed`.
    #[must_use]
    pub fn new(capacity: u32, seed: u64, now: u64) -> Self {
        let capacity = capacity.min(u32::MAX - (1 << 10));
        Self {
            index: Index::new(capacity),
            slots: Vec::with_capacity(capacity as usize),
            free: Vec::with_capacity(capacity as usize),
            capacity,
            wheel: Wheel::new(capacity, now),
            // Expands any seed, 0 too, to words that spread structured keys.
            hash: FlowHash::new(seed),
        }
    }

    /// How many connections it holds.
    #[must_use]
    pub fn len(&self) -> u32 {
        (self.slots.len() - self.free.len()) as u32
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many it may hold.
    #[must_use]
    pub const fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Slots that hold a connection or have held one: those beyond are empty.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.slots.len() as u32
    }

    /// The connection with this key.
    #[must_use]
    #[inline]
    pub fn find(&self, key: &Key) -> Option<Handle> {
        self.find_hashed(self.hash.key(key), key)
    }

    #[inline]
    fn find_hashed(&self, hash: u64, key: &Key) -> Option<Handle> {
        let is = |index: u32| match self.slots.get(index as usize) {
            Some(Slot {
                entry: Some(entry), ..
            }) => entry.key == *key,
            _ => false,
        };
        let index = self.index.find(hash, is)?;
        self.handle_at(index)
    }

    /// The entry of a handle, if it is still there.
    #[must_use]
    #[inline]
    pub fn get(&self, handle: Handle) -> Option<&Entry<V>> {
        let slot = self.slots.get(handle.index as usize)?;
        (slot.generation == handle.generation)
            .then_some(slot.entry.as_ref())
            .flatten()
    }

    /// The entry of a handle, if it is still there.
    #[must_use]
    #[inline]
    pub fn get_mut(&mut self, handle: Handle) -> Option<&mut Entry<V>> {
        let slot = self.slots.get_mut(handle.index as usize)?;
        (slot.generation == handle.generation)
            .then_some(slot.entry.as_mut())
            .flatten()
    }

    /// The entry in slot `index`: for walks in slices, `index` from 0 to
    /// [`Self::slots`].
    #[must_use]
    #[inline]
    pub fn handle_at(&self, index: u32) -> Option<Handle> {
        let slot = self.slots.get(index as usize)?;
        slot.entry.as_ref()?;
        Some(Handle {
            index,
            generation: slot.generation,
        })
    }

    /// All entries, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (Handle, &Entry<V>)> {
        (0..self.slots.len() as u32).filter_map(|index| {
            let handle = self.handle_at(index)?;
            Some((handle, self.get(handle)?))
        })
    }

    /// Adds a connection whose opener's packet has `original` along `key`. The
    /// key must not be in the table: find it first.
    ///
    /// # Errors
    /// [`TableFull`]; the value is dropped.
    pub fn insert(
        &mut self,
        key: Key,
        original: Orientation,
        deadline: u64,
        value: V,
    ) -> Result<Handle, TableFull> {
        let full = TableFull {
            capacity: self.capacity,
        };
        let hash = self.hash.key(&key);
        debug_assert!(self.find_hashed(hash, &key).is_none(), "{key:?} twice");
        let reused = self.free.last().copied();
        let index = match reused {
            Some(index) => index,
            None if self.slots.len() < self.capacity as usize => self.slots.len() as u32,
            None => return Err(full),
        };
        if !self.index.insert(hash, index) {
            return Err(full);
        }
        let entry = Some(Entry {
            key,
            original,
            deadline,
            value,
        });
        let generation = match self.slots.get_mut(index as usize) {
            Some(slot) => {
                self.free.pop();
                (slot.hash, slot.entry) = (hash, entry);
                slot.generation
            }
            None => {
                self.slots.push(Slot {
                    hash,
                    generation: 0,
                    entry,
                });
                0
            }
        };
        self.wheel.arm(index, deadline);
        Ok(Handle { index, generation })
    }

    /// Removes a connection.
    pub fn remove(&mut self, handle: Handle) -> Option<(Key, V)> {
        let slot = self.slots.get_mut(handle.index as usize)?;
        if slot.generation != handle.generation {
            return None;
        }
        let entry = slot.entry.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.index.remove(slot.hash, handle.index);
        self.wheel.cancel(handle.index);
        self.free.push(handle.index);
        Some((entry.key, entry.value))
    }

    /// Sets a connection's deadline, earlier or later.
    pub fn expire_at(&mut self, handle: Handle, deadline: u64) {
        let Some(entry) = self.get_mut(handle) else {
            return;
        };
        entry.deadline = deadline;
        let armed = self.wheel.deadline(handle.index);
        if armed.is_none_or(|armed| armed > deadline) {
            self.wheel.arm(handle.index, deadline);
        }
    }

    /// Asks `fate` about entries whose deadline has passed: a new deadline, or
    /// `None` to remove it. Bounded by `budget` steps; returns what is left of
    /// it, so 0 says that more may be due.
    pub fn expire(
        &mut self,
        now: u64,
        mut budget: usize,
        mut fate: impl FnMut(Handle, &mut Entry<V>) -> Option<u64>,
    ) -> usize {
        while let Some(index) = self.wheel.next_due(now, &mut budget) {
            let Some(handle) = self.handle_at(index) else {
                continue;
            };
            let Some(entry) = self.get_mut(handle) else {
                continue;
            };
            if entry.deadline <= now {
                match fate(handle, entry) {
                    Some(deadline) => entry.deadline = deadline,
                    None => {
                        self.remove(handle);
                        continue;
                    }
                }
            }
            let deadline = entry.deadline;
            self.wheel.arm(index, deadline);
        }
        budget
    }
}
