//! A file of many messages, for what is too much to be in memory at once.
//!
//! Each part has a header and a check of its own, like a whole file of the other kind, and
//! is written and read by itself; a last header says that none is missing. While it is
//! written the file has another name, and again while it is read: what was begun to be
//! read is never found a second time, whatever ends the reader.

use std::fs::{self, File};
use std::io::{self, BufReader, Read as _};
use std::path::PathBuf;

use prost::Message;

use super::aside::Aside;
use super::format::{HEADER, Header, decode_body, encode, header};
use super::{SnapshotError, Store, quarantined};

/// Bytes of a part.
const MOST: u64 = 1 << 24;
/// In place of a part's length: it was the last one.
const END: u64 = u64::MAX;

/// What a file ends with.
#[must_use]
pub fn end() -> [u8; HEADER] {
    header(END, 0)
}

impl Store {
    /// Begins to write what is to be kept as `name`, which [`Writer::finish`] puts in place.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn write_parts(&self, name: &str) -> Result<Writer, SnapshotError> {
        Aside::create(self, name).map(Writer)
    }

    /// What is kept as `name`, for the last time; `None` if nothing is.
    ///
    /// # Errors
    /// The file cannot be opened, or not be renamed: it is still there, or it is not known
    /// whether it is.
    pub fn take_parts(&self, name: &str) -> Result<Option<Parts>, SnapshotError> {
        let (path, taken) = (self.path(name), self.file(name, "taken"));
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.remove(&taken)?;
                return Ok(None);
            }
            Err(error) => return Err(SnapshotError::io("opening", &path)(error)),
        };
        fs::rename(&path, &taken).map_err(SnapshotError::io("renaming", &path))?;
        self.sync(&path)?;
        Ok(Some(Parts {
            file: BufReader::new(file),
            taken,
            damaged: self.file(name, "damaged"),
        }))
    }
}

/// A file that is being written; one that is not finished is removed.
#[derive(Debug)]
pub struct Writer(Aside);

impl Writer {
    /// Adds a part.
    ///
    /// # Errors
    /// There is no room, or the part is too large.
    pub fn put(&mut self, message: &impl Message) -> Result<(), SnapshotError> {
        let bytes = encode(message);
        if bytes.len() as u64 > MOST {
            return Err(SnapshotError::TooLarge {
                path: self.0.path(),
                bytes: bytes.len() as u64,
                most: MOST,
            });
        }
        self.0.write(&bytes)
    }

    /// Puts the file in place of what was kept before; on disk when this returns.
    ///
    /// # Errors
    /// What was kept before stays.
    pub fn finish(mut self) -> Result<(), SnapshotError> {
        self.0.write(&end())?;
        self.0.finish()
    }
}

/// A file that is being read, for the only time.
#[derive(Debug)]
pub struct Parts {
    file: BufReader<File>,
    taken: PathBuf,
    damaged: PathBuf,
}

impl Parts {
    /// The next part; `None`: that was all.
    ///
    /// # Errors
    /// [`SnapshotError::Damaged`] from here on, though what came before is good; or the
    /// system cannot read it.
    pub fn next_part<M: Message + Default>(&mut self) -> Result<Option<M>, SnapshotError> {
        let bytes = self.read(HEADER as u64)?;
        let header = Header::decode(&bytes).map_err(|what| self.wrong(what))?;
        let len = header.len;
        if len == END {
            if !self.read(1)?.is_empty() || bytes != end() {
                return Err(self.wrong("its end is not where it was".to_owned()));
            }
            return Ok(None);
        }
        if len > MOST {
            return Err(self.wrong(format!(
                "a part has {len} bytes, at most {MOST} are written"
            )));
        }
        let body = self.read(len)?;
        let message = decode_body(&header, &body).map_err(|what| self.wrong(what))?;
        Ok(Some(message))
    }

    /// Removes the file: all is read, or none is to be.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn discard(self) -> Result<(), SnapshotError> {
        fs::remove_file(&self.taken).map_err(SnapshotError::io("removing", &self.taken))
    }

    /// Keeps the file for a look at it, and says so in the log.
    ///
    /// # Errors
    /// It cannot be renamed.
    pub fn quarantine(self, why: &str, without: &str) -> Result<(), SnapshotError> {
        quarantined(&self.taken, &self.damaged, why, without)
    }

    /// So many bytes, or what is left.
    fn read(&mut self, bytes: u64) -> Result<Vec<u8>, SnapshotError> {
        let mut found = Vec::new();
        let read = self.file.by_ref().take(bytes).read_to_end(&mut found);
        read.map_err(SnapshotError::io("reading", &self.taken))?;
        Ok(found)
    }

    fn wrong(&self, what: String) -> SnapshotError {
        SnapshotError::Damaged {
            path: self.taken.clone(),
            what,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use penstock_slowpath_api::v1::PolicyUpdate;

    use super::*;

    fn update(generation: u64) -> PolicyUpdate {
        PolicyUpdate {
            generation,
            ..PolicyUpdate::default()
        }
    }

    fn write(dir: &Path, generations: std::ops::Range<u64>) -> Store {
        let store = Store::open(dir).expect("opens");
        let mut writer = store.write_parts("many").expect("begins");
        for generation in generations {
            writer.put(&update(generation)).expect("writes");
        }
        writer.finish().expect("finishes");
        store
    }

    /// What is read, and whether that is all.
    fn read(store: &Store) -> (Vec<u64>, bool) {
        let mut parts = store.take_parts("many").expect("reads").expect("is there");
        let mut found = Vec::new();
        let whole = loop {
            match parts.next_part::<PolicyUpdate>() {
                Ok(Some(update)) => found.push(update.generation),
                Ok(None) => break true,
                Err(SnapshotError::Damaged { .. }) => break false,
                Err(error) => panic!("{error}"),
            }
        };
        parts.discard().expect("removes");
        (found, whole)
    }

    #[test]
    fn parts_are_read_once() {
        let dir = tempfile::tempdir().expect("a directory");
        for count in [0, 1, 1000] {
            let store = write(dir.path(), 0..count);
            assert_eq!(read(&store), ((0..count).collect(), true));
            assert!(store.take_parts("many").expect("looks").is_none());
            let left = fs::read_dir(dir.path()).expect("lists").count();
            assert_eq!(left, 2, "the lock and the reserve alone");
        }
    }

    #[test]
    fn what_ends_midway_is_neither_used_nor_in_the_way() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = write(dir.path(), 0..9);
        let mut writer = store.write_parts("many").expect("begins");
        writer.put(&update(77)).expect("writes");
        drop(writer);
        // A reader that dies leaves the file as it is called then.
        let mut parts = store.take_parts("many").expect("reads").expect("is there");
        let first = parts.next_part::<PolicyUpdate>().expect("reads");
        assert_eq!(first, Some(update(0)), "of the old file");
        drop(parts);
        assert!(dir.path().join("many.taken").exists());
        drop(store);
        let store = write(dir.path(), 20..22);
        assert_eq!(read(&store), (vec![20, 21], true));
        fs::write(dir.path().join("many.taken"), "old").expect("writes");
        assert!(store.take_parts("many").expect("looks").is_none());
        assert!(!dir.path().join("many.taken").exists());
    }

    #[test]
    fn every_damage_is_noticed_and_what_came_before_is_good() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("many.snapshot");
        let store = write(dir.path(), 300..304);
        let good = fs::read(&path).expect("is there");
        let part = encode(&update(300)).len();
        assert_eq!(good.len(), 4 * part + HEADER);
        let check = |bytes: &[u8], at: usize| {
            fs::write(&path, bytes).expect("writes");
            let before = (at / part).min(4) as u64;
            let expected = (300..300 + before).collect();
            assert_eq!(read(&store), (expected, false), "at {at}");
        };
        for len in 0..good.len() {
            check(&good[..len], len);
        }
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            check(&bad, at);
        }
        check(&[&good[..], b"x"].concat(), good.len());
        let huge = header(MOST + 1, 0);
        check(&[&good[..part], &huge, &good[part..]].concat(), part);
    }
}
