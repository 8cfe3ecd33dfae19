//! Pools and ports on hugepages, where the machine lets us have some. Alone in its file: EAL
//! starts once per process.

#![allow(clippy::unwrap_used, reason = "a test may")]

use dpdk::{Burst, Eal, EalConfig, Mempool, PoolConfig, PortConfig};

const SETTING: &str = "/proc/sys/vm/nr_hugepages";
const PAGES: u32 = 64;

/// Puts the old number back.
struct Reserved(String);

impl Drop for Reserved {
    fn drop(&mut self) {
        if let Err(error) = std::fs::write(SETTING, &self.0) {
            eprintln!(
                "{SETTING} could not be set back to {}: {error}",
                self.0.trim()
            );
        }
    }
}

#[test]
fn pools_and_ports_on_hugepages() {
    let old = match std::fs::read_to_string(SETTING) {
        Ok(old) => old,
        Err(error) => return eprintln!("SKIPPED: no hugepages here: {SETTING}: {error}"),
    };
    let had: u32 = old.trim().parse().unwrap();
    if let Err(error) = std::fs::write(SETTING, (had + PAGES).to_string()) {
        return eprintln!("SKIPPED: hugepages cannot be reserved: {SETTING}: {error}");
    }
    let _reserved = Reserved(old);
    let got: u32 = std::fs::read_to_string(SETTING)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    if got < had + PAGES {
        return eprintln!("SKIPPED: wanted {PAGES} more hugepages, got {}", got - had);
    }
    let eal = Eal::init(&EalConfig::new().memory_mib(64)).unwrap();
    assert!(!eal.is_no_huge());
    let pool = Mempool::new(&eal, "huge", &PoolConfig::default()).unwrap();
    let mut port = eal.attach("net_ring0", "").unwrap();
    let mut queues = port.start(&PortConfig::default(), pool).unwrap();
    let mut burst = Burst::new();
    for round in 0..100_000u32 {
        assert!(pool.alloc_into(&mut burst, 32));
        burst[0].fill(&round.to_be_bytes()).unwrap();
        assert_eq!(queues.tx[0].send(&mut burst), 32);
        assert_eq!(queues.rx[0].receive(&mut burst, 64), 32);
        assert_eq!(burst[0].data(), round.to_be_bytes());
        burst.clear();
    }
    drop((burst, queues));
    port.close().unwrap();
    assert_eq!(
        (pool.available(), pool.in_use()),
        (pool.size(), 0),
        "leaked mbufs"
    );
}
