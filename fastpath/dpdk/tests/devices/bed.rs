//! What the tests share.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use dpdk::{Eal, EalConfig, Mempool, PoolConfig};

static EAL: OnceLock<Eal> = OnceLock::new();
static STARTING: Mutex<()> = Mutex::new(());

/// EAL without hugepages, started on first use.
pub(crate) fn eal() -> &'static Eal {
    let _one = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    EAL.get_or_init(|| {
        Eal::init(&EalConfig::new().no_huge(true).memory_mib(1024)).expect("EAL without hugepages")
    })
}

/// A pool of the default shape with a name of its own.
pub(crate) fn pool(name: &str) -> Mempool {
    Mempool::new(eal(), name, &PoolConfig::default()).unwrap()
}

/// A test frame: addresses, a local experimental EtherType, and a number.
pub(crate) fn frame(number: u32, length: usize) -> Vec<u8> {
    let mut frame = vec![0x5a; length];
    frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame[14..18].copy_from_slice(&number.to_be_bytes());
    frame
}

/// A point in time that a wait may not pass.
pub(crate) struct Deadline {
    end: Instant,
    what: &'static str,
}

impl Deadline {
    pub(crate) fn new(seconds: u64, what: &'static str) -> Self {
        Self {
            end: Instant::now() + Duration::from_secs(seconds),
            what,
        }
    }

    pub(crate) fn check(&self) {
        assert!(
            Instant::now() < self.end,
            "waited too long for {}",
            self.what
        );
    }
}

/// Says on standard error, whether or not the runner hides output, what was not tested.
pub(crate) fn skipped(why: &str) {
    eprintln!("SKIPPED: {why}");
}
