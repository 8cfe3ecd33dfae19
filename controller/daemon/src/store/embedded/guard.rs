//! Opening a directory without making damage worse.
//!
//! Layout: `lock`, `last_revision` (the sidecar: what has been acknowledged),
//! `sled/` (the database) and, only between an open and the check that follows
//! it, `before-open/`: a copy of `sled/` as it was found. A start that finds
//! such a copy puts it back first, so a failed open can be repeated for ever
//! and loses nothing.

use std::fs::{self, File, TryLockError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use super::super::Error;
use super::digest::Digest;
use super::durable::{self, Files, decode_promise, sync_directory, sync_file};
use super::{DIGEST, FORMAT, FORMAT_BEFORE, FORMAT_VERSION, REVISION};

/// Takes the directory for this process.
pub(super) fn lock(directory: &Path) -> Result<File, Error> {
    let path = directory.join("lock");
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(Error::io("open", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::Locked { path }),
        Err(TryLockError::Error(error)) => Err(Error::io("lock", path)(error)),
    }
}

/// A database that has passed.
pub(super) struct Opened {
    pub(super) tree: ::sled::Db,
    pub(super) files: Files,
    pub(super) revision: u64,
    pub(super) digest: Digest,
}

/// Opens or creates the database.
pub(super) fn open(directory: &Path) -> Result<Opened, Error> {
    let database = directory.join("sled");
    let copy = directory.join("before-open");
    let sidecar = directory.join("last_revision");
    let damaged = |reason: String| Error::Damaged {
        path: directory.to_owned(),
        reason,
    };

    let promised = match fs::read(&sidecar) {
        Ok(bytes) => Some(decode_promise(&bytes).ok_or_else(|| {
            damaged(format!(
                "{} is unreadable; restore the directory from a backup",
                sidecar.display()
            ))
        })?),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(Error::io("read", sidecar)(error)),
    };

    match promised {
        None if has_files(&database)? || copy.exists() => Err(damaged(format!(
            "{} is missing; restore it, or remove {} and {} to begin with an empty store",
            sidecar.display(),
            database.display(),
            copy.display()
        ))),
        None => create(&database, &sidecar),
        // Nothing was ever acknowledged: whatever is wrong, a creation was interrupted.
        Some(0) => match reopen(directory, 0) {
            Err(Error::Damaged { reason, .. }) => {
                tracing::warn!(
                    reason,
                    "the store's creation did not finish; beginning anew"
                );
                remove_tree(&copy)?;
                remove_tree(&database)?;
                create(&database, &sidecar)
            }
            other => other,
        },
        Some(promised) => reopen(directory, promised),
    }
}

/// Opens what is there, which has to have all that was promised.
fn reopen(directory: &Path, promised: u64) -> Result<Opened, Error> {
    let database = directory.join("sled");
    let copy = directory.join("before-open");
    let sidecar = directory.join("last_revision");
    let damaged = |reason: String| Error::Damaged {
        path: directory.to_owned(),
        reason,
    };
    if copy.exists() {
        tracing::warn!(copy = %copy.display(), "the last start did not finish; putting its copy back");
        remove_tree(&database)?;
        copy_tree(&copy, &database)?;
    }
    check_files(&database).map_err(&damaged)?;
    if !copy.exists() {
        let partial = directory.join("before-open.partial");
        remove_tree(&partial)?;
        copy_tree(&database, &partial)?;
        fs::rename(&partial, &copy).map_err(Error::io("rename", &partial))?;
        sync_directory(directory)?;
    }

    let advice = format!(
        "the files as they were found are kept in {}; restore the directory from a backup",
        copy.display()
    );
    let refused = |reason: String| damaged(format!("{reason}; {advice}"));
    let tree = open_tree(&database).map_err(refused)?;
    if !tree.was_recovered() {
        return Err(refused(format!(
            "the database came up empty, revision {promised} was acknowledged"
        )));
    }
    let revision = catch_unwind(AssertUnwindSafe(|| read_revision(&tree)))
        .unwrap_or_else(|_| Err("the embedded database gave up on its rows".to_owned()))
        .map_err(refused)?;
    if revision < promised {
        return Err(refused(format!(
            "it holds revision {revision}, {promised} was acknowledged"
        )));
    }
    let digest = check_rows(&tree).map_err(refused)?;
    let mut files = Files::new(&database, &sidecar)?;
    files.sync(revision)?;
    // Its name goes first, and at once: half a copy must never be put back.
    let spent = directory.join("before-open.partial");
    remove_tree(&spent)?;
    fs::rename(&copy, &spent).map_err(Error::io("rename", &copy))?;
    sync_directory(directory)?;
    remove_tree(&spent)?;
    Ok(Opened {
        tree,
        files,
        revision,
        digest,
    })
}

/// An empty store where there is nothing. The sidecar comes first: from then on, nothing
/// but a promise of revision 0 says that a creation may have been interrupted.
fn create(database: &Path, sidecar: &Path) -> Result<Opened, Error> {
    durable::promise(sidecar, 0)?;
    let tree = open_tree(database).map_err(|reason| Error::Damaged {
        path: database.to_owned(),
        reason,
    })?;
    let mut batch = ::sled::Batch::default();
    batch.insert(FORMAT, FORMAT_VERSION);
    batch.insert(REVISION, &0_u64.to_be_bytes());
    batch.insert(DIGEST, &Digest::default().to_bytes());
    tree.apply_batch(batch)?;
    tree.flush()?;
    let mut files = Files::new(database, sidecar)?;
    files.sync(0)?;
    Ok(Opened {
        tree,
        files,
        revision: 0,
        digest: Digest::default(),
    })
}

/// Whether there is a file in the directory or in one below it.
fn has_files(directory: &Path) -> Result<bool, Error> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(Error::io("list", directory)(error)),
    };
    for entry in entries {
        let entry = entry.map_err(Error::io("list", directory))?;
        let kind = entry.file_type().map_err(Error::io("read", entry.path()))?;
        if !kind.is_dir() || has_files(&entry.path())? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn open_tree(database: &Path) -> Result<::sled::Db, String> {
    // sled 0.34 panics on some damaged files.
    catch_unwind(AssertUnwindSafe(|| {
        ::sled::Config::new()
            .path(database)
            .flush_every_ms(None)
            .open()
    }))
    .map_err(|_| "the embedded database gave up on its files".to_owned())?
    .map_err(|error| error.to_string())
}

fn read_revision(tree: &::sled::Db) -> Result<u64, String> {
    let row = |key| tree.get(key).map_err(|error| error.to_string());
    match row(FORMAT)? {
        Some(version) if version == FORMAT_VERSION || version == FORMAT_BEFORE => {}
        Some(version) => {
            return Err(format!(
                "it is written in format {:?}, this penstockd reads {:?}",
                String::from_utf8_lossy(&version),
                String::from_utf8_lossy(FORMAT_VERSION)
            ));
        }
        None => return Err("it has no format row".to_owned()),
    }
    row(REVISION)?
        .and_then(|bytes| bytes.as_ref().try_into().ok().map(u64::from_be_bytes))
        .ok_or_else(|| "it has no readable revision row".to_owned())
}

/// Reads every row and compares them all with what they should add up to: sled notices by
/// itself neither a file of its that is missing nor one that is from another day.
fn check_rows(tree: &::sled::Db) -> Result<Digest, String> {
    let found = catch_unwind(AssertUnwindSafe(|| {
        let mut digest = Digest::default();
        for row in tree.iter() {
            let (key, value) = row.map_err(|error| error.to_string())?;
            if key.first() != Some(&0) {
                digest.add(&key, &value);
            }
        }
        Ok::<_, String>(digest)
    }))
    .map_err(|_| "the embedded database gave up on its rows".to_owned())??;
    let row = |key| tree.get(key).map_err(|error| error.to_string());
    match row(DIGEST)? {
        Some(bytes) if bytes == found.to_bytes() => Ok(found),
        Some(_) => Err("rows are missing, or are not what was stored".to_owned()),
        // Written before there was one.
        None if row(FORMAT)?.is_some_and(|version| version == FORMAT_BEFORE) => {
            let mut batch = ::sled::Batch::default();
            batch.insert(FORMAT, FORMAT_VERSION);
            batch.insert(DIGEST, &found.to_bytes());
            let written = tree.apply_batch(batch).and_then(|()| tree.flush());
            written.map_err(|error| error.to_string()).map(|_| found)
        }
        None => Err("it has no digest row".to_owned()),
    }
}

/// What sled would silently replace by an empty database.
fn check_files(database: &Path) -> Result<(), String> {
    let conf = database.join("conf");
    let bytes = fs::read(&conf).map_err(|error| format!("{}: {error}", conf.display()))?;
    let intact = bytes.len() > 8
        && bytes
            .split_last_chunk::<4>()
            .is_some_and(|(text, sum)| crc32fast::hash(text).to_le_bytes() == *sum);
    if !intact {
        return Err(format!(
            "{} ({} bytes) is empty or fails its check sum; restore the directory from a backup",
            conf.display(),
            bytes.len()
        ));
    }
    let data = database.join("db");
    let size = fs::metadata(&data)
        .map_err(|error| format!("{}: {error}", data.display()))?
        .len();
    if size == 0 {
        return Err(format!(
            "{} is empty; restore the directory from a backup",
            data.display()
        ));
    }
    Ok(())
}

fn copy_tree(from: &Path, to: &Path) -> Result<(), Error> {
    fs::create_dir_all(to).map_err(Error::io("create", to))?;
    for entry in fs::read_dir(from).map_err(Error::io("list", from))? {
        let entry = entry.map_err(Error::io("list", from))?;
        let target: PathBuf = to.join(entry.file_name());
        let kind = entry.file_type().map_err(Error::io("read", entry.path()))?;
        if kind.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target).map_err(Error::io("copy", entry.path()))?;
            sync_file(&target)?;
        }
    }
    sync_directory(to)
}

fn remove_tree(path: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::io("remove", path)(error)),
    }
}
