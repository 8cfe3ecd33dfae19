//! One suite for every store, and what only a durable one can promise.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use penstock_daemon::store::{Batch, Embedded, Error, Memory, Store};
use proptest::prelude::*;

fn batch(rows: &[(&str, Option<&str>)]) -> Batch {
    let mut batch = Batch::default();
    for (key, value) in rows {
        match value {
            Some(value) => batch.put(*key, *value),
            None => batch.delete(*key),
        }
    }
    batch
}

fn conformance(store: &dyn Store) {
    assert_eq!(store.revision(), 0);
    assert_eq!(store.snapshot(b"").unwrap(), (0, vec![]));

    let first = batch(&[("a/1", Some("x")), ("a/2", Some("y")), ("b/1", Some("z"))]);
    assert_eq!(store.commit(&first, 0).unwrap(), 1);
    assert_eq!(store.get(b"a/2").unwrap().as_deref(), Some(&b"y"[..]));
    assert_eq!(store.get(b"a/3").unwrap(), None);

    // A writer that has not seen revision 1 changes nothing.
    let late = batch(&[("a/1", None), ("c/1", Some("late"))]);
    assert!(matches!(
        store.commit(&late, 0),
        Err(Error::Conflict {
            expected: 0,
            actual: 1
        })
    ));
    assert_eq!(store.get(b"c/1").unwrap(), None);

    // Neither does a batch with one key that is not the caller's.
    for reserved in ["", "\0revision"] {
        let bad = batch(&[("a/1", None), (reserved, Some("1"))]);
        assert!(matches!(
            store.commit(&bad, 1),
            Err(Error::ReservedKey { .. })
        ));
    }

    let second = batch(&[("a/1", None), ("a/2", Some("y2")), ("nothing", None)]);
    assert_eq!(store.commit(&second, 1).unwrap(), 2);
    assert_eq!(
        store.snapshot(b"a/").unwrap(),
        (2, vec![(b"a/2".to_vec(), b"y2".to_vec())])
    );
    assert_eq!(store.snapshot(b"").unwrap().1.len(), 2);

    // An empty batch is a commit as well; large values come back whole.
    assert_eq!(store.commit(&Batch::default(), 2).unwrap(), 3);
    let large = "v".repeat(3 << 20);
    let big = batch(&[("large/1", Some(&large)), ("large/2", Some(&large))]);
    assert_eq!(store.commit(&big, 3).unwrap(), 4);
    assert_eq!(
        store.get(b"large/2").unwrap().as_deref(),
        Some(large.as_bytes())
    );
}

#[test]
fn memory_conforms() {
    conformance(&Memory::default());
}

#[test]
fn embedded_conforms_and_keeps_it_over_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let before = {
        let store = Embedded::open(dir.path()).unwrap();
        conformance(&store);
        store.snapshot(b"").unwrap()
    };
    let store = Embedded::open(dir.path()).unwrap();
    assert_eq!(store.snapshot(b"").unwrap(), before);
    assert_eq!(store.commit(&Batch::default(), 4).unwrap(), 5);
    assert!(!dir.path().join("before-open").exists());
}

#[test]
fn a_directory_has_one_owner() {
    let dir = tempfile::tempdir().unwrap();
    let store = Embedded::open(dir.path()).unwrap();
    assert!(matches!(
        Embedded::open(dir.path()),
        Err(Error::Locked { .. })
    ));
    drop(store);
    Embedded::open(dir.path()).unwrap();
}

type Operations = Vec<(u8, Option<u8>)>;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Both stores equal a plain map, restarts in between or not.
    #[test]
    fn stores_equal_a_map(
        commits in prop::collection::vec(
            (prop::collection::vec((0_u8..24, prop::option::of(any::<u8>())), 0..12), any::<bool>()),
            1..10,
        )
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut embedded = Embedded::open(dir.path()).unwrap();
        let memory = Memory::default();
        let mut model = BTreeMap::new();
        for (revision, (operations, restart)) in commits.into_iter().enumerate() {
            let operations: Operations = operations;
            let mut batch = Batch::default();
            for (key, value) in operations {
                let key = format!("k{key}").into_bytes();
                match value {
                    Some(value) => {
                        let value = vec![value; usize::from(value) * 40];
                        batch.put(key.clone(), value.clone());
                        model.insert(key, value);
                    }
                    None => {
                        batch.delete(key.clone());
                        model.remove(&key);
                    }
                }
            }
            let revision = revision as u64;
            prop_assert_eq!(embedded.commit(&batch, revision).unwrap(), revision + 1);
            prop_assert_eq!(memory.commit(&batch, revision).unwrap(), revision + 1);
            if restart {
                drop(embedded);
                embedded = Embedded::open(dir.path()).unwrap();
            }
            let rows: Vec<_> = model.clone().into_iter().collect();
            prop_assert_eq!(embedded.snapshot(b"").unwrap(), (revision + 1, rows.clone()));
            prop_assert_eq!(memory.snapshot(b"").unwrap(), (revision + 1, rows));
        }
    }
}

fn prepared(rows: u64) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let store = Embedded::open(dir.path()).unwrap();
    for revision in 0..rows {
        let row = batch(&[(&format!("k{revision}"), Some("value"))]);
        store.commit(&row, revision).unwrap();
    }
    dir
}

/// Damage that sled alone would take for an empty database: refused, the same
/// way every time, and repairing the file brings everything back.
#[test]
fn damage_is_refused_and_not_made_worse() {
    for file in ["conf", "db"] {
        let dir = prepared(20);
        let path = dir.path().join("sled").join(file);
        let good = std::fs::read(&path).unwrap();
        for size in [0, good.len() / 2] {
            std::fs::write(&path, &good[..size]).unwrap();
            for _ in 0..2 {
                let error = Embedded::open(dir.path()).expect_err("damaged");
                assert!(
                    matches!(error, Error::Damaged { .. }),
                    "{file} cut to {size}: {error}"
                );
            }
            // Put the good file where the next start will look for it.
            let copy = dir.path().join("before-open");
            let target = if copy.exists() {
                copy.join(file)
            } else {
                path.clone()
            };
            std::fs::write(target, &good).unwrap();
            let store = Embedded::open(dir.path()).unwrap();
            assert_eq!(store.revision(), 20);
            assert_eq!(store.snapshot(b"").unwrap().1.len(), 20);
        }
    }
}

/// What an interrupted start leaves of a copy that was being made, or removed, is not put
/// back and in nobody's way.
#[test]
fn half_a_copy_is_neither_used_nor_in_the_way() {
    // Beside a good database; beside a good copy, that one being damaged; beside nothing.
    for (database, copy) in [(true, false), (false, true), (false, false)] {
        let dir = prepared(20);
        let [sled, whole, half] =
            ["sled", "before-open", "before-open.partial"].map(|name| dir.path().join(name));
        std::fs::create_dir(&half).unwrap();
        std::fs::copy(sled.join("conf"), half.join("conf")).unwrap();
        if copy {
            let mut cp = Command::new("cp");
            let status = cp.arg("-a").args([&sled, &whole]).status().unwrap();
            assert!(status.success());
        }
        if !database {
            std::fs::write(sled.join("db"), "").unwrap();
        }
        for _ in 0..2 {
            let opened = Embedded::open(dir.path());
            if !database && !copy {
                let error = opened.expect_err("no database is left");
                assert!(matches!(error, Error::Damaged { .. }), "{error}");
                continue;
            }
            let store = opened.unwrap();
            assert_eq!(store.revision(), 20);
            assert_eq!(store.snapshot(b"").unwrap().1.len(), 20);
            assert!(!whole.exists() && !half.exists());
        }
    }
}

/// Changes the database behind the store's back.
fn meddle(dir: &Path, change: impl FnOnce(&sled::Db)) {
    let db = sled::open(dir.join("sled")).unwrap();
    change(&db);
    db.flush().unwrap();
}

#[test]
fn rows_that_go_or_change_by_themselves_are_noticed() {
    let changes: [fn(&sled::Db); 3] = [
        |db| drop(db.remove("k3").unwrap()),
        |db| drop(db.insert("k3", "older").unwrap()),
        |db| drop(db.remove("\0digest").unwrap()),
    ];
    for change in changes {
        let dir = prepared(5);
        meddle(dir.path(), change);
        for _ in 0..2 {
            let error = Embedded::open(dir.path()).expect_err("not what was stored");
            assert!(matches!(error, Error::Damaged { .. }), "{error}");
            assert!(error.to_string().contains("before-open"), "{error}");
        }
    }
}

#[test]
fn a_store_without_a_digest_gets_one() {
    let dir = prepared(5);
    meddle(dir.path(), |db| {
        db.remove("\0digest").unwrap();
        db.insert("\0format", "1").unwrap();
    });
    {
        let store = Embedded::open(dir.path()).unwrap();
        assert_eq!(store.snapshot(b"").unwrap().1.len(), 5);
        store.commit(&batch(&[("k9", Some("v"))]), 5).unwrap();
    }
    meddle(dir.path(), |db| drop(db.remove("k9").unwrap()));
    Embedded::open(dir.path()).expect_err("it has a digest now");
}

/// A creation that is interrupted anywhere is begun anew; a store that has lost its sidecar
/// is not taken for one.
#[test]
fn an_interrupted_creation_is_begun_anew() {
    for file in [Some("conf"), Some("db"), None] {
        let dir = prepared(0);
        let path = dir.path().join("sled");
        match file {
            Some(file) => std::fs::write(path.join(file), "").unwrap(),
            None => std::fs::remove_dir_all(&path).unwrap(),
        }
        let store = Embedded::open(dir.path()).unwrap();
        assert_eq!(store.commit(&Batch::default(), 0).unwrap(), 1);
    }
    let dir = prepared(1);
    std::fs::remove_file(dir.path().join("last_revision")).unwrap();
    std::fs::write(dir.path().join("sled/db"), "").unwrap();
    let error = Embedded::open(dir.path()).expect_err("lost").to_string();
    assert!(error.contains("last_revision is missing"), "{error}");
}

#[test]
fn less_than_promised_is_refused() {
    let dir = prepared(5);
    let backup = tempfile::tempdir().unwrap();
    let status = Command::new("cp")
        .args(["-a".as_ref(), dir.path().join("sled").as_os_str()])
        .arg(backup.path())
        .status()
        .unwrap();
    assert!(status.success());
    {
        let store = Embedded::open(dir.path()).unwrap();
        store.commit(&Batch::default(), 5).unwrap();
    }
    std::fs::remove_dir_all(dir.path().join("sled")).unwrap();
    std::fs::rename(backup.path().join("sled"), dir.path().join("sled")).unwrap();
    let error = Embedded::open(dir.path()).expect_err("older than acknowledged");
    assert!(
        error
            .to_string()
            .contains("it holds revision 5, 6 was acknowledged"),
        "{error}"
    );
    // And a lost sidecar does not pass for a first start.
    std::fs::remove_file(dir.path().join("last_revision")).unwrap();
    let error = Embedded::open(dir.path()).expect_err("no sidecar");
    assert!(
        error.to_string().contains("last_revision is missing"),
        "{error}"
    );
}

const CHILD: &str = "PENSTOCK_STORE_TEST_CHILD";

/// Not a test of its own: the process that gets killed. Prints every revision
/// once it is acknowledged.
#[test]
fn child_that_commits() {
    let Ok(spec) = std::env::var(CHILD) else {
        return;
    };
    let (count, dir) = spec.split_once(':').unwrap();
    let store = Embedded::open(Path::new(dir)).unwrap();
    let first = store.revision();
    for revision in first..first + count.parse::<u64>().unwrap() {
        let value = "x".repeat(300);
        let rows = batch(&[
            (&format!("k/{revision}"), Some(&value)),
            ("last", Some(&revision.to_string())),
        ]);
        println!("acknowledged {}", store.commit(&rows, revision).unwrap());
    }
}

fn child(program: &[&str], commits: u64, dir: &Path) -> Command {
    let exe = std::env::current_exe().unwrap();
    let mut words: Vec<_> = program.iter().map(std::ffi::OsString::from).collect();
    words.push(exe.into_os_string());
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .args(["child_that_commits", "--exact", "--nocapture"])
        .env(CHILD, format!("{commits}:{}", dir.display()))
        .stdout(Stdio::piped());
    command
}

#[test]
fn a_killed_process_loses_nothing_it_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let mut least = 0;
    for round in 0..4 {
        let mut process = child(&[], 1_000_000, dir.path()).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut acknowledged = least;
        let target = least + 40 + round * 17;
        // The child commits until it is killed, so lines keep coming.
        while acknowledged < target {
            let line = lines.next().expect("the child stopped early").unwrap();
            if let Some(at) = line.find("acknowledged ") {
                acknowledged = line[at + 13..].trim().parse().unwrap();
            }
        }
        process.kill().unwrap();
        process.wait().unwrap();
        for line in lines.map_while(Result::ok) {
            if let Some(number) = line.strip_prefix("acknowledged ")
                && let Ok(number) = number.trim().parse()
            {
                acknowledged = number;
            }
        }
        let store = Embedded::open(dir.path()).unwrap();
        let (revision, rows) = store.snapshot(b"k/").unwrap();
        assert!(revision >= acknowledged, "{revision} < {acknowledged}");
        assert_eq!(rows.len() as u64, revision);
        let last = store.get(b"last").unwrap().unwrap();
        assert_eq!(last, (revision - 1).to_string().into_bytes());
        least = revision;
    }
}

/// Sees with strace that the data file is synced at least once per commit, and
/// before the commit is acknowledged.
#[test]
fn every_commit_is_synced_before_it_is_acknowledged() {
    let works = Command::new("strace")
        .args(["-f", "-e", "trace=fdatasync", "true"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !works {
        eprintln!("SKIPPED: strace is not installed or not permitted here");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("strace.log");
    let log_name = log.to_str().unwrap();
    let strace = [
        "strace",
        "-f",
        "-y",
        "-e",
        "trace=fdatasync,write",
        "-o",
        log_name,
    ];
    let data = dir.path().join("data");
    let output = child(&strace, 25, &data).output().unwrap();
    assert!(output.status.success(), "{output:?}");

    let (mut synced, mut acknowledged) = (0, 0);
    for line in std::fs::read_to_string(&log).unwrap().lines() {
        if line.contains("fdatasync(") && line.contains("/sled/db>") {
            synced += 1;
        }
        if line.contains("write(1") && line.contains("acknowledged ") {
            acknowledged += 1;
            assert!(synced > acknowledged, "not synced before: {line}");
        }
    }
    assert_eq!(acknowledged, 25);
    // One more for the creation.
    assert_eq!(synced, 26);
}
