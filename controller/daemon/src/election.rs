//! Election ids that never repeat and never fall.
//!
//! The upper half is an epoch that the store keeps: every start takes a new
//! one before it talks to any worker. The lower half counts within the process.

use std::sync::{Arc, Mutex, PoisonError};

use p4runtime::election::Id;

use crate::registry::Registry;
use crate::store;

/// Gives out election ids.
#[derive(Debug)]
pub struct Elections {
    registry: Arc<Registry>,
    last: Mutex<u128>,
}

impl Elections {
    /// Takes an epoch; blocks on the store.
    ///
    /// # Errors
    /// When the store fails.
    pub fn start(registry: Arc<Registry>) -> Result<Self, store::Error> {
        let epoch = registry.next_epoch()?;
        Ok(Self {
            registry,
            last: Mutex::new(u128::from(epoch) << 64),
        })
    }

    /// The next id.
    pub fn next(&self) -> Id {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = last.saturating_add(1);
        Id(*last)
    }

    /// An id above one that a worker remembers though its owner is gone, as
    /// after a store was restored from a backup. Blocks on the store.
    ///
    /// # Errors
    /// When the store fails.
    pub fn next_above(&self, seen: Id) -> Result<Id, store::Error> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.0 >= *last {
            let floor = u64::try_from(seen.0 >> 64).unwrap_or(u64::MAX);
            let epoch = self.registry.raise_epoch(floor)?;
            *last = u128::from(epoch) << 64;
        }
        *last = last.saturating_add(1);
        Ok(Id(*last))
    }
}
