//! The default store: sled 0.34 in a directory of this machine.
//!
//! sled alone does not survive a power cut: its flush is `sync_file_range`,
//! which commits neither the file's size nor the disk's cache, it writes large
//! values to files of their own and syncs those not at all, and its open
//! silently truncates what it cannot read. So here
//!
//! * a commit is one `apply_batch` on one tree, revision included, then flush,
//!   then fsync of new blob files, then `fdatasync` of the data file, and only
//!   then the sidecar `last_revision` and the answer;
//! * an open copies the directory first, and afterwards wants to see at least
//!   the revision that the sidecar promises, and every row that was stored: all rows
//!   add up to a digest that each commit carries on; see [`guard`].

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::{Batch, Error, Rows, Store};
use digest::Digest;
use durable::Files;

mod digest;
mod durable;
mod guard;

/// The store's own rows; callers cannot write keys that start with a zero.
const REVISION: &[u8] = b"\0revision";
const FORMAT: &[u8] = b"\0format";
const FORMAT_VERSION: &[u8] = b"2";
/// The same without a digest; an open adds it.
const FORMAT_BEFORE: &[u8] = b"1";
const DIGEST: &[u8] = b"\0digest";

/// A durable store in a directory.
pub struct Embedded {
    path: PathBuf,
    tree: ::sled::Db,
    writer: Mutex<Writer>,
    // Last, so that it is released last.
    _lock: std::fs::File,
}

struct Writer {
    revision: u64,
    digest: Digest,
    files: Files,
    /// Why the first failed commit failed.
    poison: Option<String>,
}

impl Embedded {
    /// Opens the store in `directory`, creating it where there is none.
    ///
    /// # Errors
    /// [`Error::Locked`] when another process has it, [`Error::Damaged`] when
    /// it holds less than it has acknowledged; the directory is then as it was.
    pub fn open(directory: &Path) -> Result<Self, Error> {
        std::fs::create_dir_all(directory).map_err(Error::io("create", directory))?;
        let lock = guard::lock(directory)?;
        let guard::Opened {
            tree,
            files,
            revision,
            digest,
        } = guard::open(directory)?;
        Ok(Self {
            path: directory.to_owned(),
            tree,
            writer: Mutex::new(Writer {
                revision,
                digest,
                files,
                poison: None,
            }),
            _lock: lock,
        })
    }

    fn writer(&self) -> std::sync::MutexGuard<'_, Writer> {
        // A panic inside a commit leaves the outcome unknown: `poison` says so.
        self.writer.lock().unwrap_or_else(|poisoned| {
            let mut writer = PoisonError::into_inner(poisoned);
            writer
                .poison
                .get_or_insert_with(|| "a commit panicked".to_owned());
            writer
        })
    }

    fn write(&self, writer: &mut Writer, batch: &Batch) -> Result<u64, Error> {
        let revision = writer.revision + 1;
        let mut operations = ::sled::Batch::default();
        let mut digest = writer.digest;
        for (key, value) in batch.iter() {
            if let Some(old) = self.tree.get(key)? {
                digest.remove(key, &old);
            }
            if let Some(value) = value {
                digest.add(key, value);
            }
            match value {
                Some(value) => operations.insert(key, value),
                None => operations.remove(key),
            }
        }
        operations.insert(REVISION, &revision.to_be_bytes());
        operations.insert(DIGEST, &digest.to_bytes());
        self.tree.apply_batch(operations)?;
        self.tree.flush()?;
        writer.files.sync(revision)?;
        (writer.revision, writer.digest) = (revision, digest);
        Ok(revision)
    }
}

impl Store for Embedded {
    fn revision(&self) -> u64 {
        self.writer().revision
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        // The lock keeps a batch that is not durable yet out of sight.
        let _writer = self.writer();
        Ok(self.tree.get(key)?.map(|value| value.to_vec()))
    }

    fn snapshot(&self, prefix: &[u8]) -> Result<(u64, Rows), Error> {
        let writer = self.writer();
        let mut rows = Rows::new();
        for row in self.tree.scan_prefix(prefix) {
            let (key, value) = row?;
            if key.first() != Some(&0) {
                rows.push((key.to_vec(), value.to_vec()));
            }
        }
        Ok((writer.revision, rows))
    }

    fn commit(&self, batch: &Batch, expected: u64) -> Result<u64, Error> {
        if let Some(key) = batch.reserved_key() {
            return Err(Error::reserved(key));
        }
        let mut writer = self.writer();
        if let Some(reason) = &writer.poison {
            return Err(Error::Poisoned {
                reason: reason.clone(),
            });
        }
        if writer.revision != expected {
            return Err(Error::Conflict {
                expected,
                actual: writer.revision,
            });
        }
        let result = self.write(&mut writer, batch);
        if let Err(error) = &result {
            writer.poison = Some(error.to_string());
        }
        result
    }
}

impl std::fmt::Debug for Embedded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Embedded")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}
