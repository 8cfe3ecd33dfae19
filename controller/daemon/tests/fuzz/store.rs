//! penstockd's store, whatever is in it. A directory opens with all that was acknowledged,
//! or is refused with a reason; rows are served as they are, or the first that cannot be
//! is named. Nothing panics, and a refusal changes nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use penstock_api::v1;
use penstock_api::v1::resource::Spec;
use penstock_daemon::registry::Registry;
use penstock_daemon::store::{Batch, Embedded, Error, Memory, Rows, Store};
use penstock_daemon::world::{LoadError, Row};
use prost::Message as _;

/// The property.
pub(crate) fn store(bytes: &[u8]) {
    match bytes.split_first() {
        Some((first, rest)) if first % 4 == 0 => files(&mut Choices(rest)),
        Some((_, rest)) => rows(&mut Choices(rest)),
        None => {}
    }
}

/// Bytes as a sequence of choices; after the last one, every choice is the first.
struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
            None => 0,
        }
    }

    fn word(&mut self) -> usize {
        usize::from(self.byte()) << 16 | usize::from(self.byte()) << 8 | usize::from(self.byte())
    }

    fn some(&mut self) -> &'a [u8] {
        let len = usize::from(self.byte()).min(self.0.len());
        let (some, rest) = self.0.split_at(len);
        self.0 = rest;
        some
    }
}

fn rows(c: &mut Choices<'_>) {
    let store = Arc::new(Memory::default());
    let mut batch = Batch::default();
    for _ in 0..1 + c.byte() % 8 {
        let (key, value) = row(c);
        batch.put(key, value);
    }
    let Ok(revision) = store.commit(&batch, 0) else {
        return;
    };
    let (_, before) = store.snapshot(b"").expect("reads");
    let opened = Registry::open(Arc::clone(&store) as Arc<dyn Store>);
    let stored: BTreeMap<&[u8], Option<&[u8]>> = batch.iter().collect();
    match opened {
        Ok(registry) => {
            let world = registry.hub().world();
            assert_eq!(world.revision, revision);
            let mut served = 0;
            for (key, value) in &stored {
                let row = value.and_then(|value| Row::decode(value).ok());
                let named = row.filter(|row| Row::key(row.name()) == *key);
                let Some(row) = named.filter(|row| world.rows.contains_key(row.name())) else {
                    continue;
                };
                assert!(*world.rows[row.name()] == row, "served otherwise: {row:?}");
                served += 1;
            }
            assert_eq!(served, world.rows.len(), "rows from nowhere");
            let rows = stored.keys().filter(|key| key.starts_with(&Row::key("")));
            assert_eq!(rows.count(), served, "rows that are passed over");
            match registry.next_epoch() {
                Ok(epoch) => assert!(epoch > 0),
                Err(Error::Row { key, .. }) => assert_eq!(key, "election-epoch"),
                Err(Error::LastEpoch) => {
                    let last: &[u8] = &u64::MAX.to_be_bytes();
                    assert_eq!(stored.get(&b"election-epoch"[..]), Some(&Some(last)));
                }
                Err(error) => panic!("{error}"),
            }
        }
        Err(LoadError::Row { key, .. } | LoadError::Store(Error::Row { key, .. })) => {
            let mut keys = stored.keys().map(|key| String::from_utf8_lossy(key));
            assert!(keys.any(|it| it == key), "{key:?} is no row");
        }
        Err(LoadError::Invalid(why) | LoadError::NoNumber(why)) => assert!(!why.is_empty()),
        Err(error) => panic!("{error}"),
    }
    // Only a registry that opened has given out an epoch.
    let (now, after) = store.snapshot(b"").expect("reads");
    assert_eq!(
        now == revision,
        before == after,
        "changed without a revision"
    );
}

fn row(c: &mut Choices<'_>) -> (Vec<u8>, Vec<u8>) {
    let value = |c: &mut Choices<'_>, len: usize| {
        let mut value = c.some().to_vec();
        if !c.byte().is_multiple_of(4) {
            value.resize(len, 1);
        }
        value
    };
    match c.byte() % 8 {
        0 => (b"election-epoch".to_vec(), value(c, 8)),
        1 => (b"next-id/Port".to_vec(), value(c, 4)),
        2 => (c.some().to_vec(), c.some().to_vec()),
        3 if c.byte().is_multiple_of(2) => {
            let text = b"app=web in tenants/a/vpcs/v".to_vec();
            (format!("anonymous-id/{:08x}", c.byte()).into_bytes(), text)
        }
        3 => (Row::key("tenants/a"), c.some().to_vec()),
        _ => {
            let row = resource(c);
            let key = Row::key(&row.resource.name);
            let mut bytes = row.encode_to_vec();
            for _ in 0..c.byte() % 3 {
                let at = c.word() % bytes.len();
                bytes[at] ^= c.byte();
            }
            (key, bytes)
        }
    }
}

fn resource(c: &mut Choices<'_>) -> Row {
    let (name, spec) = match c.byte() % 8 {
        0 | 1 => ("tenants/a", Some(Spec::Tenant(v1::Tenant::default()))),
        2 | 3 => (
            "tenants/a/vpcs/v",
            Some(Spec::Vpc(v1::Vpc {
                vni: 7,
                cidrs: vec!["10.0.0.0/8".into()],
                ..Default::default()
            })),
        ),
        4 => (
            "nodes/n",
            Some(Spec::Node(v1::Node {
                worker_address: "127.0.0.1:1".into(),
                nics: vec![v1::Nic {
                    device_id: 1,
                    vtep: "192.0.2.1".into(),
                    underlay_mtu: 0,
                }],
            })),
        ),
        5 if c.byte().is_multiple_of(2) => (
            "tenants/a/vpcs/v/policies/p",
            Some(Spec::Policy(selecting())),
        ),
        5 => ("tenants/b", Some(Spec::Tenant(v1::Tenant::default()))),
        6 => ("tenants/a", None),
        _ => ("", Some(Spec::Tenant(v1::Tenant::default()))),
    };
    let number = |byte: u8| u64::from(byte % 8 != 7);
    Row {
        resource: v1::Resource {
            name: name.to_owned(),
            metadata: Some(v1::Metadata {
                generation: number(c.byte()),
                ..Default::default()
            }),
            spec,
            ..Default::default()
        },
        id: number(c.byte()) as u32 * 5,
        revision: 1,
    }
}

/// A policy for the ports that a selector chooses.
fn selecting() -> v1::Policy {
    let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    v1::Policy {
        tier: v1::Tier::Admin.into(),
        applies_to: Some(v1::AppliesTo {
            selector: Some(v1::Selector {
                match_labels: [label("app", "web")].into(),
                ..Default::default()
            }),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// Commits in the directory that is damaged.
const COMMITS: u64 = 24;
/// A value so large that the database gives it a file of its own.
const LARGE: usize = 600_000;

fn content() -> BTreeMap<Vec<u8>, Vec<u8>> {
    let row = |i: u64| (format!("k{}", i % 10).into_bytes(), vec![i as u8; 200]);
    let mut rows: BTreeMap<_, _> = (0..COMMITS).map(row).collect();
    rows.insert(b"large".to_vec(), vec![7; LARGE]);
    rows
}

/// The files of a good store, by their path in its directory.
fn good() -> &'static BTreeMap<String, Vec<u8>> {
    static GOOD: OnceLock<BTreeMap<String, Vec<u8>>> = OnceLock::new();
    GOOD.get_or_init(|| {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Embedded::open(dir.path()).expect("opens");
        for i in 0..COMMITS {
            let mut batch = Batch::default();
            batch.put(format!("k{}", i % 10), vec![i as u8; 200]);
            if i == COMMITS / 2 {
                batch.put("large", vec![7; LARGE]);
            }
            store.commit(&batch, i).expect("commits");
        }
        drop(store);
        let mut files = BTreeMap::new();
        collect(dir.path(), dir.path(), &mut files);
        files
    })
}

fn collect(root: &Path, dir: &Path, files: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(dir).expect("lists") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(root, &path, files);
        } else {
            let name = path.strip_prefix(root).expect("inside");
            let bytes = fs::read(&path).expect("reads");
            files.insert(name.to_string_lossy().into_owned(), bytes);
        }
    }
}

fn files(c: &mut Choices<'_>) {
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let dir = dir.expect("a directory");
    let mut files = good().clone();
    let mut damaged = false;
    for _ in 0..c.byte() % 4 {
        let names: Vec<String> = files.keys().cloned().collect();
        let name = &names[usize::from(c.byte()) % names.len()];
        damaged |= damage(c, name, &mut files);
    }
    for (name, bytes) in &files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().expect("inside")).expect("makes");
        fs::write(path, bytes).expect("writes");
    }
    // Blobs lie in a folder that is there even without any.
    fs::create_dir_all(dir.path().join("sled/blobs")).expect("makes");
    for _ in 0..2 {
        match read(dir.path()) {
            // Without a trace of a store, this is the first start.
            Ok((0, rows)) if !files.keys().any(|name| name.starts_with("sled/")) => {
                assert!(rows.is_empty() && !files.contains_key("last_revision"));
            }
            Ok((revision, rows)) => {
                assert!(
                    revision >= COMMITS,
                    "acknowledged revisions are gone: {revision}"
                );
                let rows: BTreeMap<_, _> = rows.into_iter().collect();
                let wrong = content()
                    .into_iter()
                    .find(|(key, value)| rows.get(key) != Some(value));
                let wrong = wrong.map(|(key, _)| String::from_utf8_lossy(&key).into_owned());
                assert_eq!(wrong, None, "a row is served that was not written");
            }
            Err(error) => {
                assert!(damaged, "a good store is refused: {error}");
                assert!(!error.to_string().is_empty());
            }
        }
    }
}

fn read(dir: &Path) -> Result<(u64, Rows), Error> {
    Embedded::open(dir)?.snapshot(b"")
}

/// Whether anything has changed.
fn damage(c: &mut Choices<'_>, name: &str, files: &mut BTreeMap<String, Vec<u8>>) -> bool {
    let Some(bytes) = files.get_mut(name) else {
        return false;
    };
    let before = bytes.clone();
    match c.byte() % 8 {
        0 => {
            files.remove(name);
            return true;
        }
        1 => {
            let len = c.word() % (bytes.len() + 1);
            bytes.truncate(len);
        }
        2 => bytes.extend_from_slice(c.some()),
        3 => {
            let some = c.some();
            let at = c.word() % bytes.len().max(1);
            for (byte, value) in bytes.iter_mut().skip(at).zip(some) {
                *byte = *value;
            }
        }
        _ => {
            let at = c.word() % bytes.len().max(1);
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= c.byte();
            }
        }
    }
    *bytes != before
}
