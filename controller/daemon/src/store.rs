//! Where accepted resources live.
//!
//! A store is an ordered map of bytes with one revision counter. The contract,
//! which one conformance suite checks for every implementation:
//!
//! * [`Store::commit`] applies a whole batch or none of it, and only from the
//!   revision its caller has seen; when it returns, the batch survives a crash
//!   of the process and (for durable stores) a power cut;
//! * revisions rise by one per commit and never go back, restarts included;
//! * [`Store::snapshot`] shows one revision, never half a batch.
//!
//! Calls block; asynchronous callers go through a blocking thread.

use std::fmt;
use std::path::PathBuf;

pub mod embedded;
pub mod memory;

pub use embedded::Embedded;
pub use memory::Memory;

/// Rows in key order.
pub type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// An ordered, revisioned map of bytes.
pub trait Store: Send + Sync + fmt::Debug + 'static {
    /// The revision of the last commit; 0 before the first.
    fn revision(&self) -> u64;

    /// One row.
    ///
    /// # Errors
    /// When the medium fails.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error>;

    /// All rows whose key starts with `prefix`, and the revision they belong to.
    ///
    /// # Errors
    /// When the medium fails.
    fn snapshot(&self, prefix: &[u8]) -> Result<(u64, Rows), Error>;

    /// Applies `batch` if the store is still at `expected`; answers the new
    /// revision once the batch is durable.
    ///
    /// # Errors
    /// [`Error::Conflict`] when the store has moved on, [`Error::ReservedKey`]
    /// for a key that is not the caller's to write; nothing is changed then.
    /// After any other error the outcome is unknown and the store refuses
    /// further commits until it is opened again.
    fn commit(&self, batch: &Batch, expected: u64) -> Result<u64, Error>;
}

/// A row of exactly `N` bytes.
///
/// # Errors
/// When the medium fails, or the row has another length: what it held is lost then, and
/// going on as if it had never been there would be worse.
pub fn get_exact<const N: usize>(store: &dyn Store, key: &[u8]) -> Result<Option<[u8; N]>, Error> {
    let Some(bytes) = store.get(key)? else {
        return Ok(None);
    };
    <[u8; N]>::try_from(bytes.as_slice())
        .map(Some)
        .map_err(|_| Error::Row {
            key: String::from_utf8_lossy(key).into_owned(),
            len: bytes.len(),
            wanted: N,
        })
}

/// Puts and deletes that belong together. A later operation on a key replaces
/// an earlier one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    operations: std::collections::BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl Batch {
    /// Writes a row.
    pub fn put(&mut self, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) {
        self.operations.insert(key.into(), Some(value.into()));
    }

    /// Removes a row; none there is no error.
    pub fn delete(&mut self, key: impl Into<Vec<u8>>) {
        self.operations.insert(key.into(), None);
    }

    /// Keys with their new value, `None` for a delete, in key order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.operations
            .iter()
            .map(|(key, value)| (key.as_slice(), value.as_deref()))
    }

    /// The first key that a caller may not write: the empty one, and those
    /// that start with a zero byte, which stores use themselves.
    fn reserved_key(&self) -> Option<&[u8]> {
        self.operations
            .keys()
            .find(|key| key.first().is_none_or(|first| *first == 0))
            .map(Vec::as_slice)
    }
}

/// Why a store could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another writer was faster.
    #[error("the store is at revision {actual}, the change was made for revision {expected}")]
    Conflict {
        /// What the caller had seen.
        expected: u64,
        /// What is there.
        actual: u64,
    },
    /// See [`Batch`].
    #[error("key {key:?} is reserved for the store itself")]
    ReservedKey {
        /// The key, printable.
        key: String,
    },
    /// An earlier commit failed half-way.
    #[error("the store refuses changes because an earlier one failed: {reason}; restart penstockd")]
    Poisoned {
        /// The first failure.
        reason: String,
    },
    /// Another process has the directory open.
    #[error("{path} is in use by another process")]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// The directory is not what it should be. Nothing in it was changed.
    #[error("the store in {path} is damaged: {reason}")]
    Damaged {
        /// The store's directory.
        path: PathBuf,
        /// What is wrong and what to do.
        reason: String,
    },
    /// A row is not what its key promises.
    #[error(
        "the store's row {key:?} holds {len} bytes, not {wanted}; restore the store from a backup"
    )]
    Row {
        /// Printable key.
        key: String,
        /// What it holds.
        len: usize,
        /// What it should hold.
        wanted: usize,
    },
    /// Election ids would repeat.
    #[error(
        "no election epoch is left above 18446744073709551615, which the store or a worker remembers; restore the store from a backup, or remove that worker's data directory and restart it"
    )]
    LastEpoch,
    /// The operating system refused something.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What it said.
        source: std::io::Error,
    },
    /// The embedded database refused something.
    #[error("the embedded database failed: {0}")]
    Database(#[from] ::sled::Error),
}

impl Error {
    fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }

    fn reserved(key: &[u8]) -> Self {
        Self::ReservedKey {
            key: String::from_utf8_lossy(key).into_owned(),
        }
    }
}
