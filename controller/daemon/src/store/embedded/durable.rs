//! Making what sled has written survive a power cut.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::super::Error;

/// The files behind an open database.
#[derive(Debug)]
pub(super) struct Files {
    data: File,
    data_path: PathBuf,
    blobs: PathBuf,
    /// Blob files are written once and named by a number that is never reused.
    synced_blobs: BTreeSet<OsString>,
    sidecar: File,
    sidecar_path: PathBuf,
}

impl Files {
    /// Syncs everything that an open or a creation has touched.
    pub(super) fn new(database: &Path, sidecar_path: &Path) -> Result<Self, Error> {
        for name in ["conf", "db"] {
            sync_file(&database.join(name))?;
        }
        let sidecar = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(sidecar_path)
            .map_err(Error::io("open", sidecar_path))?;
        let data_path = database.join("db");
        let data = File::open(&data_path).map_err(Error::io("open", &data_path))?;
        let mut files = Self {
            data,
            data_path,
            blobs: database.join("blobs"),
            synced_blobs: BTreeSet::new(),
            sidecar,
            sidecar_path: sidecar_path.to_owned(),
        };
        files.sync_blobs()?;
        sync_directory(database)?;
        for ancestor in database.ancestors().skip(1).take(2) {
            sync_directory(ancestor)?;
        }
        Ok(files)
    }

    /// Makes the state that carries `revision` durable, then promises it.
    pub(super) fn sync(&mut self, revision: u64) -> Result<(), Error> {
        self.sync_blobs()?;
        self.data
            .sync_data()
            .map_err(Error::io("sync", &self.data_path))?;
        // One sector: written whole or not at all.
        self.sidecar
            .write_all_at(&encode_promise(revision), 0)
            .and_then(|()| self.sidecar.sync_data())
            .map_err(Error::io("write", &self.sidecar_path))
    }

    fn sync_blobs(&mut self) -> Result<(), Error> {
        let mut present = BTreeSet::new();
        let entries = std::fs::read_dir(&self.blobs).map_err(Error::io("list", &self.blobs))?;
        for entry in entries {
            present.insert(entry.map_err(Error::io("list", &self.blobs))?.file_name());
        }
        let mut fresh = false;
        for name in present.difference(&self.synced_blobs) {
            let path = self.blobs.join(name);
            match File::open(&path).and_then(|file| file.sync_all()) {
                Ok(()) => fresh = true,
                // sled has dropped it since it was listed.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(Error::io("sync", path)(error)),
            }
        }
        if fresh {
            sync_directory(&self.blobs)?;
        }
        self.synced_blobs = present;
        Ok(())
    }
}

/// Writes a sidecar where there is none, for good.
pub(super) fn promise(path: &Path, revision: u64) -> Result<(), Error> {
    // Aside first: half a sidecar would pass for a damaged one.
    let aside = path.with_extension("new");
    File::create(&aside)
        .and_then(|file| {
            file.write_all_at(&encode_promise(revision), 0)?;
            file.sync_all()?;
            std::fs::rename(&aside, path)
        })
        .map_err(Error::io("write", path))?;
    match path.parent() {
        Some(parent) => sync_directory(parent),
        None => Ok(()),
    }
}

/// The sidecar's content: the revision and its check sum.
fn encode_promise(revision: u64) -> [u8; 12] {
    let mut bytes = [0; 12];
    let (number, sum) = bytes.split_at_mut(8);
    number.copy_from_slice(&revision.to_be_bytes());
    sum.copy_from_slice(&crc32fast::hash(number).to_be_bytes());
    bytes
}

/// The revision that a sidecar promises; `None` if its bytes are not one.
pub(super) fn decode_promise(bytes: &[u8]) -> Option<u64> {
    let (number, sum) = bytes.split_at_checked(8)?;
    (sum == crc32fast::hash(number).to_be_bytes())
        .then(|| number.try_into().ok().map(u64::from_be_bytes))
        .flatten()
}

pub(super) fn sync_file(path: &Path) -> Result<(), Error> {
    File::open(path)
        .and_then(|file| file.sync_all())
        .map_err(Error::io("sync", path))
}

/// Makes names created in or renamed into a directory durable.
pub(super) fn sync_directory(path: &Path) -> Result<(), Error> {
    // The parent of a relative path of one segment.
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    sync_file(path)
}
