//! A store that forgets: for tests and for trying things out.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Batch, Error, Rows, Store};

/// Rows in memory; gone with the process.
#[derive(Debug, Default)]
pub struct Memory {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    revision: u64,
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Memory {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing in a critical section can panic half-way through a change.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for Memory {
    fn revision(&self) -> u64 {
        self.lock().revision
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.lock().rows.get(key).cloned())
    }

    fn snapshot(&self, prefix: &[u8]) -> Result<(u64, Rows), Error> {
        let inner = self.lock();
        let rows = inner
            .rows
            .range(prefix.to_vec()..)
            .take_while(|(key, _)| key.starts_with(prefix))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        Ok((inner.revision, rows))
    }

    fn commit(&self, batch: &Batch, expected: u64) -> Result<u64, Error> {
        if let Some(key) = batch.reserved_key() {
            return Err(Error::reserved(key));
        }
        let mut inner = self.lock();
        if inner.revision != expected {
            return Err(Error::Conflict {
                expected,
                actual: inner.revision,
            });
        }
        for (key, value) in batch.iter() {
            match value {
                Some(value) => inner.rows.insert(key.to_vec(), value.to_vec()),
                None => inner.rows.remove(key),
            };
        }
        inner.revision += 1;
        Ok(inner.revision)
    }
}
