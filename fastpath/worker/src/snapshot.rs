//! What survives a restart: the last accepted policy, each NIC's controller
//! tables, the highest election ids seen, and, over a stop in good order, connections.
//!
//! Each is one file in the data directory: magic, format version, length and CRC
//! before a prost-encoded message; or many of these, one after the other ([`parts`]).
//! A file is replaced whole (write aside, fsync,
//! rename, fsync of the directory), so a power cut leaves the old or the new one.
//! What is damaged is moved aside and treated as absent: the worker then
//! starts closed. What the system does not let us read, move or remove ends the start.
//!
//! Where the disk is full, what is in force and what is kept would part: then nothing is
//! kept, rather than what is older. Small files have a [`reserve`] for that case.

mod aside;
mod format;
pub mod parts;
mod reserve;

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use prost::Message;

use aside::Aside;
pub use format::{decode, encode};

/// Bytes of a file with one message; a larger one is not read, nor written.
const MOST: u64 = 1 << 30;

/// What the worker is without policy, a NIC's tables or ports' numbers.
const CLOSED: &str =
    "starting without it, so its ports carry nothing until a controller sends it anew";

/// A data directory, held by this process alone.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    // Locked as long as it is open.
    _lock: File,
}

/// Why something could not be kept or found again.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The system refused.
    #[error("{operation} {path}: {source}; check that data_dir exists, is writable and has room")]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Another worker has it.
    #[error("{path} is in use by another worker; give each its own data_dir")]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// There is too much of it.
    #[error("{path}: a message has {bytes} bytes, at most {most} are kept")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// What the message has.
        bytes: u64,
        /// What it may have.
        most: u64,
    },
    /// The file is not what was written.
    #[error("{path} is damaged ({what})")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        what: String,
    },
}

impl SnapshotError {
    /// The disk has no room.
    fn is_full(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        matches!(self, Self::Io { source, .. } if matches!(source.kind(), StorageFull | QuotaExceeded))
    }

    /// Of the system's words.
    fn io(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            operation,
            path,
            source,
        }
    }
}

impl Store {
    /// Makes the directory where needed and takes it.
    ///
    /// # Errors
    /// It cannot be made or written, or another worker has it.
    pub fn open(dir: &Path) -> Result<Self, SnapshotError> {
        let error = SnapshotError::io;
        fs::create_dir_all(dir).map_err(error("creating", dir))?;
        let path = dir.join("lock");
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(error("opening", &path))?;
        match lock.try_lock() {
            Ok(()) => {
                reserve::keep(dir);
                Ok(Self {
                    dir: dir.to_owned(),
                    _lock: lock,
                })
            }
            Err(fs::TryLockError::WouldBlock) => Err(SnapshotError::Locked {
                path: dir.to_owned(),
            }),
            Err(fs::TryLockError::Error(source)) => Err(error("locking", &path)(source)),
        }
    }

    /// Replaces what is kept as `name`; on disk when this returns.
    ///
    /// # Errors
    /// The old content stays.
    pub fn save(&self, name: &str, message: &impl Message) -> Result<(), SnapshotError> {
        let bytes = encode(message);
        match self.write(name, &bytes) {
            Err(error) if error.is_full() && reserve::give_up(&self.dir, bytes.len()) => {
                self.write(name, &bytes)
            }
            other => other,
        }
    }

    /// Like [`save`](Self::save), for what must not be older than what is in force.
    ///
    /// # Errors
    /// Nothing is kept as `name` any more, or the error says that the old content stays.
    pub fn save_or_forget(&self, name: &str, message: &impl Message) -> Result<(), SnapshotError> {
        let Err(error) = self.save(name, message) else {
            return Ok(());
        };
        // Removing takes no room.
        self.remove(&self.path(name))?;
        Err(error)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), SnapshotError> {
        if bytes.len() as u64 > MOST {
            let path = self.path(name);
            let (bytes, most) = (bytes.len() as u64, MOST);
            return Err(SnapshotError::TooLarge { path, bytes, most });
        }
        let mut aside = Aside::create(self, name)?;
        aside.write(bytes)?;
        aside.finish()
    }

    /// Makes the directory's entries, of which one is new or gone, durable.
    fn sync(&self, path: &Path) -> Result<(), SnapshotError> {
        sync(&self.dir, path)
    }

    /// Removes a file, if it is there.
    fn remove(&self, path: &Path) -> Result<(), SnapshotError> {
        match fs::remove_file(path) {
            Ok(()) => self.sync(path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(SnapshotError::io("removing", path)(error)),
        }
    }

    /// What is kept as `name`; `None` if nothing is.
    ///
    /// # Errors
    /// The file is unreadable, or damaged.
    pub fn load<M: Message + Default>(&self, name: &str) -> Result<Option<M>, SnapshotError> {
        let path = self.path(name);
        let bytes = match read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(SnapshotError::io("reading", &path)(error)),
        };
        if bytes.len() as u64 > MOST {
            let what = format!("it has over {MOST} bytes");
            return Err(SnapshotError::Damaged { path, what });
        }
        decode(&bytes)
            .map(Some)
            .map_err(|what| SnapshotError::Damaged { path, what })
    }

    /// Like [`load`](Self::load), for what the worker can start without, closed. A damaged
    /// file is moved aside.
    ///
    /// # Errors
    /// The file is unreadable, or cannot be moved.
    pub fn load_or_start_closed<M: Message + Default>(
        &self,
        name: &str,
    ) -> Result<Option<M>, SnapshotError> {
        match self.load(name) {
            Err(SnapshotError::Damaged { what, .. }) => {
                self.quarantine(name, &what)?;
                Ok(None)
            }
            other => other,
        }
    }

    /// Moves a file aside whose content cannot be used, and says so in the log, and that the
    /// worker starts closed.
    ///
    /// # Errors
    /// It cannot be moved.
    pub fn quarantine(&self, name: &str, why: &str) -> Result<(), SnapshotError> {
        let (path, aside) = (self.path(name), self.file(name, "damaged"));
        quarantined(&path, &aside, why, CLOSED)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.file(name, "snapshot")
    }

    fn file(&self, name: &str, kind: &str) -> PathBuf {
        self.dir.join(format!("{name}.{kind}"))
    }
}

/// Makes a directory's entries, of which `path` is new or gone, durable.
fn sync(dir: &Path, path: &Path) -> Result<(), SnapshotError> {
    let synced = File::open(dir).and_then(|dir| dir.sync_all());
    synced.map_err(SnapshotError::io("syncing the directory of", path))
}

fn quarantined(path: &Path, aside: &Path, why: &str, without: &str) -> Result<(), SnapshotError> {
    tracing::error!(
        path = %path.display(),
        kept_as = %aside.display(),
        why,
        "snapshot cannot be used: {without}"
    );
    fs::rename(path, aside).map_err(SnapshotError::io("moving aside", path))
}

/// The file's bytes, up to one more than it may have.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
