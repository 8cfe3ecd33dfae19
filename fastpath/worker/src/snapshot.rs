//! What survives a restart: the last accepted policy, each NIC's controller
//! tables, the highest election ids seen, and, over a stop in good order, connections.
//!
//! Each is one file in the data directory: magic, format version, length and CRC
//! before a prost-encoded message. A file is replaced whole (write aside, fsync,
//! rename, fsync of the directory), so a power cut leaves the old or the new one.
//! What cannot be read is moved aside and treated as absent: the worker then
//! starts closed.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use prost::Message;

const MAGIC: &[u8; 8] = b"PENSTOCK";
/// Of the layout and of the messages in it.
const VERSION: u32 = 1;
const HEADER: usize = 8 + 4 + 8 + 4;
/// Bytes of a file; a larger one is not read, nor written.
const MOST: u64 = 1 << 30;

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
    #[error("{path} would have {bytes} bytes; at most {MOST} are kept")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// What it would have.
        bytes: u64,
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

impl Store {
    /// Makes the directory where needed and takes it.
    ///
    /// # Errors
    /// It cannot be made or written, or another worker has it.
    pub fn open(dir: &Path) -> Result<Self, SnapshotError> {
        let error = |operation, path: &Path| {
            let path = path.to_owned();
            move |source| SnapshotError::Io {
                operation,
                path,
                source,
            }
        };
        fs::create_dir_all(dir).map_err(error("creating", dir))?;
        let path = dir.join("lock");
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(error("opening", &path))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self {
                dir: dir.to_owned(),
                _lock: lock,
            }),
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
        let path = self.path(name);
        let aside = self.dir.join(format!("{name}.new"));
        let error = |operation| {
            let path = path.clone();
            move |source| SnapshotError::Io {
                operation,
                path,
                source,
            }
        };
        let bytes = encode(message);
        if bytes.len() as u64 > MOST {
            let bytes = bytes.len() as u64;
            return Err(SnapshotError::TooLarge { path, bytes });
        }
        let mut file = File::create(&aside).map_err(error("creating"))?;
        file.write_all(&bytes).map_err(error("writing"))?;
        file.sync_all().map_err(error("syncing"))?;
        fs::rename(&aside, &path).map_err(error("replacing"))?;
        self.sync(path)
    }

    /// Makes the directory's entries, of which one is new or gone, durable.
    fn sync(&self, path: PathBuf) -> Result<(), SnapshotError> {
        File::open(&self.dir)
            .and_then(|dir| dir.sync_all())
            .map_err(|source| SnapshotError::Io {
                operation: "syncing the directory of",
                path,
                source,
            })
    }

    /// What is kept as `name`, for the last time: it is gone when this returns; a damaged
    /// file is moved aside.
    ///
    /// # Errors
    /// The file is unreadable, or damaged, or cannot be removed.
    pub fn take<M: Message + Default>(&self, name: &str) -> Result<Option<M>, SnapshotError> {
        match self.load(name) {
            Ok(None) => Ok(None),
            Ok(content) => {
                self.discard(name)?;
                Ok(content)
            }
            Err(SnapshotError::Damaged { path, what }) => {
                self.quarantine(name, &what)?;
                Err(SnapshotError::Damaged { path, what })
            }
            Err(error) => Err(error),
        }
    }

    /// Removes what is kept as `name`, if anything is.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn discard(&self, name: &str) -> Result<(), SnapshotError> {
        let path = self.path(name);
        match fs::remove_file(&path) {
            Ok(()) => self.sync(path),
            Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(source) => Err(SnapshotError::Io {
                operation: "removing",
                path,
                source,
            }),
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
            Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => {
                return Err(SnapshotError::Io {
                    operation: "reading",
                    path,
                    source,
                });
            }
        };
        if bytes.len() as u64 > MOST {
            let what = format!("it has over {MOST} bytes");
            return Err(SnapshotError::Damaged { path, what });
        }
        decode(&bytes)
            .map(Some)
            .map_err(|what| SnapshotError::Damaged { path, what })
    }

    /// Like [`load`](Self::load), for content that the worker can start without: a
    /// damaged file is logged and moved aside.
    ///
    /// # Errors
    /// The file is unreadable, or cannot be moved.
    pub fn load_or_start_closed<M: Message + Default>(
        &self,
        name: &str,
    ) -> Result<Option<M>, SnapshotError> {
        match self.load(name) {
            Err(SnapshotError::Damaged { path, what }) => {
                self.quarantine(name, &what)?;
                tracing::debug!(path = %path.display(), "moved aside");
                Ok(None)
            }
            other => other,
        }
    }

    /// Moves a file aside whose content cannot be used, and says so in the log.
    ///
    /// # Errors
    /// It cannot be moved.
    pub fn quarantine(&self, name: &str, why: &str) -> Result<(), SnapshotError> {
        let path = self.path(name);
        let aside = self.dir.join(format!("{name}.damaged"));
        tracing::error!(
            path = %path.display(),
            kept_as = %aside.display(),
            why,
            "snapshot cannot be used: starting without it, so its ports carry nothing until a controller sends it anew"
        );
        fs::rename(&path, &aside).map_err(|source| SnapshotError::Io {
            operation: "moving aside",
            path,
            source,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.snapshot"))
    }
}

/// The file's bytes, up to one more than it may have.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// All bytes of a file with this message.
#[must_use]
pub fn encode(message: &impl Message) -> Vec<u8> {
    let body = message.encode_to_vec();
    let mut bytes = Vec::with_capacity(HEADER + body.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&crc32fast::hash(&body).to_le_bytes());
    bytes.extend_from_slice(&body);
    bytes
}

/// A file's message, from all its bytes.
///
/// # Errors
/// What is wrong with them.
pub fn decode<M: Message + Default>(bytes: &[u8]) -> Result<M, String> {
    let (magic, rest) = bytes.split_first_chunk::<8>().ok_or("cut short")?;
    let (version, rest) = rest.split_first_chunk::<4>().ok_or("cut short")?;
    let (len, rest) = rest.split_first_chunk::<8>().ok_or("cut short")?;
    let (crc, body) = rest.split_first_chunk::<4>().ok_or("cut short")?;
    if magic != MAGIC {
        return Err("not a snapshot".to_owned());
    }
    let version = u32::from_le_bytes(*version);
    if version != VERSION {
        return Err(format!(
            "format version {version}, this worker reads {VERSION}"
        ));
    }
    if u64::from_le_bytes(*len) != body.len() as u64 {
        return Err("its length is wrong".to_owned());
    }
    if u32::from_le_bytes(*crc) != crc32fast::hash(body) {
        return Err("its checksum is wrong".to_owned());
    }
    M::decode(body).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use penstock_slowpath_api::v1::PolicyUpdate;

    use super::*;

    fn update(generation: u64) -> PolicyUpdate {
        PolicyUpdate {
            generation,
            ..PolicyUpdate::default()
        }
    }

    #[test]
    fn what_was_saved_last_comes_back() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Store::open(dir.path()).expect("opens");
        assert_eq!(store.load::<PolicyUpdate>("policy").expect("absent"), None);
        for generation in [1, 2] {
            store.save("policy", &update(generation)).expect("saves");
        }
        drop(store);
        let store = Store::open(dir.path()).expect("opens again");
        assert_eq!(store.load("policy").expect("reads"), Some(update(2)));
    }

    #[test]
    fn a_directory_has_one_owner() {
        let dir = tempfile::tempdir().expect("a directory");
        let _first = Store::open(dir.path()).expect("opens");
        assert!(matches!(
            Store::open(dir.path()),
            Err(SnapshotError::Locked { .. })
        ));
    }

    #[test]
    fn every_damage_is_noticed_and_kept_aside() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Store::open(dir.path()).expect("opens");
        let path = dir.path().join("policy.snapshot");
        store.save("policy", &update(300)).expect("saves");
        let good = fs::read(&path).expect("is there");
        for len in 0..good.len() {
            fs::write(&path, &good[..len]).expect("cuts");
            assert!(
                store.load::<PolicyUpdate>("policy").is_err(),
                "cut to {len}"
            );
        }
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            fs::write(&path, &bad).expect("flips");
            assert!(store.load::<PolicyUpdate>("policy").is_err(), "byte {at}");
        }
        let none = store.load_or_start_closed::<PolicyUpdate>("policy");
        assert_eq!(none.expect("starts"), None);
        assert!(!path.exists());
        assert!(dir.path().join("policy.damaged").exists());
    }
}
