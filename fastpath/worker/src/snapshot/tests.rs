use std::io::Write as _;

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

/// A file system with room for so many KiB, gone with this value.
struct Disk(tempfile::TempDir);

impl Disk {
    /// `None`, loudly: mounting is not allowed here.
    fn new(kib: u32) -> Option<Self> {
        let dir = tempfile::tempdir().expect("a directory");
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={kib}k"), "tmpfs"])
            .arg(dir.path())
            .status()
            .expect("mount runs");
        if !mounted.success() {
            println!("SKIPPED: a full disk needs root, to mount one");
            return None;
        }
        Some(Self(dir))
    }

    /// Fills all but so many KiB.
    fn fill(&self, but: u64) {
        let path = self.0.path().join("filler");
        let mut filler = File::create(path).expect("creates");
        while filler.write_all(&[7; 1024]).is_ok() {}
        let len = filler.metadata().expect("is there").len();
        filler.set_len(len - (but * 1024).min(len)).expect("cuts");
    }

    fn empty(&self) {
        fs::remove_file(self.0.path().join("filler")).expect("was there");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let unmounted = std::process::Command::new("umount")
            .arg(self.0.path())
            .status();
        assert!(unmounted.expect("umount runs").success());
    }
}

fn large(generation: u64) -> PolicyUpdate {
    PolicyUpdate {
        generation,
        vpcs: vec![Default::default(); 40_000],
        ..PolicyUpdate::default()
    }
}

/// What a full disk does not take leaves neither an older version nor half a file, and what
/// is small still finds room.
#[test]
fn a_full_disk_keeps_nothing_that_is_old() {
    let Some(disk) = Disk::new(1024) else {
        return;
    };
    let dir = disk.0.path();
    let store = Store::open(dir).expect("opens");
    store.save("policy", &update(1)).expect("saves");
    disk.fill(20);
    assert!(store.save("policy", &large(2)).is_err());
    assert_eq!(store.load("policy").expect("reads"), Some(update(1)));
    assert!(store.save_or_forget("policy", &large(2)).is_err());
    assert_eq!(store.load::<PolicyUpdate>("policy").expect("reads"), None);
    assert!(!dir.join("policy.new").exists(), "it would take the room");

    disk.empty();
    disk.fill(0);
    store
        .save("election-1", &update(3))
        .expect("from the reserve");
    assert_eq!(store.load("election-1").expect("reads"), Some(update(3)));
    drop(store);
    // Without a reserve it still starts.
    let store = Store::open(dir).expect("opens");
    disk.empty();
    store.save("policy", &large(4)).expect("saves");
    drop(store);
    drop(Store::open(dir).expect("opens"));
    assert!(dir.join("reserve").exists(), "and is kept again");
}
