//! A file that is written beside the one that it is to replace.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::PathBuf;

use super::{SnapshotError, Store, sync};

/// Not finished, it is removed: it would only take room.
#[derive(Debug)]
pub(super) struct Aside {
    file: BufWriter<File>,
    path: PathBuf,
    aside: PathBuf,
    dir: PathBuf,
}

impl Aside {
    pub(super) fn create(store: &Store, name: &str) -> Result<Self, SnapshotError> {
        let (path, aside) = (store.path(name), store.file(name, "new"));
        let file = File::create(&aside).map_err(SnapshotError::io("creating", &path))?;
        Ok(Self {
            file: BufWriter::new(file),
            path,
            aside,
            dir: store.dir.clone(),
        })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), SnapshotError> {
        let written = self.file.write_all(bytes);
        written.map_err(SnapshotError::io("writing", &self.path))
    }

    /// Puts the file in place of what was kept before; on disk when this returns.
    ///
    /// # Errors
    /// What was kept before stays.
    pub(super) fn finish(mut self) -> Result<(), SnapshotError> {
        let error = |operation| SnapshotError::io(operation, &self.path);
        self.file.flush().map_err(error("writing"))?;
        self.file.get_ref().sync_all().map_err(error("syncing"))?;
        fs::rename(&self.aside, &self.path).map_err(error("replacing"))?;
        sync(&self.dir, &self.path)
    }

    /// What it is to be.
    pub(super) fn path(&self) -> PathBuf {
        self.path.clone()
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // Gone after `finish`.
        if let Err(error) = fs::remove_file(&self.aside)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(path = %self.aside.display(), %error, "a half-written file is left behind");
        }
    }
}
