//! The same with hugepages, where the machine lets us have some.

use dpdk::{Burst, Eal, EalConfig, Error, Mempool, PoolConfig, PortConfig};

use crate::bed;

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
        Err(error) => return bed::skipped(&format!("no hugepages here: {SETTING}: {error}")),
    };
    let had: u32 = old.trim().parse().unwrap();
    if let Err(error) = std::fs::write(SETTING, (had + PAGES).to_string()) {
        return bed::skipped(&format!("hugepages cannot be reserved: {SETTING}: {error}"));
    }
    let _reserved = Reserved(old);
    let got: u32 = std::fs::read_to_string(SETTING)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    if got < had + PAGES {
        return bed::skipped(&format!("wanted {PAGES} more hugepages, got {}", got - had));
    }
    let eal = match Eal::init(&EalConfig::new().memory_mib(64)) {
        Ok(eal) => eal,
        Err(Error::AlreadyInitialised) => {
            return bed::skipped("needs a process of its own (run with nextest)");
        }
        Err(error) => panic!("{error}"),
    };
    assert!(!eal.is_no_huge());
    let pool = Mempool::new(&eal, "huge", &PoolConfig::default()).unwrap();
    let mut port = eal.attach("net_ring0", "").unwrap();
    let mut queues = port.start(&PortConfig::default(), pool).unwrap();
    let mut burst = Burst::new();
    for round in 0..100_000u32 {
        assert!(pool.alloc_into(&mut burst, 32));
        burst[0].fill(&bed::frame(round, 60)).unwrap();
        assert_eq!(queues.tx[0].send(&mut burst), 32);
        assert_eq!(queues.rx[0].receive(&mut burst, 64), 32);
        assert_eq!(burst[0].data(), bed::frame(round, 60));
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
