//! Room that is kept for a full disk: a file that is given up for a small one, such as the
//! election ids without which no controller could come and close what is to be closed.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

const BYTES: usize = 64 << 10;
/// What may be written in its place: a few of them.
const SMALL: usize = 8 << 10;

fn path(dir: &Path) -> PathBuf {
    dir.join("reserve")
}

/// Keeps the room. Without it the worker works as well, on a disk that is not full.
pub(super) fn keep(dir: &Path) {
    let path = path(dir);
    let kept = fs::metadata(&path).is_ok_and(|file| file.len() == BYTES as u64);
    if kept {
        return;
    }
    // Written, not only sized: a hole has no room.
    let written = File::create(&path).and_then(|mut file| {
        file.write_all(&[0; BYTES])?;
        file.sync_all()
    });
    if let Err(error) = written {
        tracing::warn!(path = %path.display(), %error, "no room is kept for a full disk");
        give_back(&path);
    }
}

/// Gives the room up for a file of so many bytes; whether there was any.
pub(super) fn give_up(dir: &Path, bytes: usize) -> bool {
    let path = path(dir);
    if bytes > SMALL || !path.exists() {
        return false;
    }
    tracing::error!(path = %path.display(), "the disk is full: the room kept for small files is given up");
    give_back(&path)
}

fn give_back(path: &Path) -> bool {
    match fs::remove_file(path) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "it is not removed");
            false
        }
    }
}
