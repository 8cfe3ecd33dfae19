//! Devices that EAL makes at start-up. Alone in its file: EAL starts once per process.

#![allow(clippy::unwrap_used, reason = "a test may")]

use dpdk::{Burst, Eal, EalConfig, Mempool, PoolConfig, PortConfig};

#[test]
fn devices_named_at_start_up_are_taken_by_name() {
    let config = EalConfig::new()
        .no_huge(true)
        .vdev("net_null0,size=128")
        .vdev("net_ring0");
    let eal = Eal::init(&config).unwrap();
    let pool = Mempool::new(&eal, "vdevs", &PoolConfig::default()).unwrap();
    let mut null = eal.port("net_null0").unwrap();
    let ring = eal.port("net_ring0").unwrap();
    assert_ne!(null.id(), ring.id());
    let mut queues = null.start(&PortConfig::default(), pool).unwrap();
    let mut burst = Burst::new();
    assert_eq!(queues.rx[0].receive(&mut burst, 16), 16);
    assert!(burst.iter().all(|mbuf| mbuf.len() == 128));
    drop((burst, queues));
    null.close().unwrap();
    ring.close().unwrap();
    assert_eq!(pool.in_use(), 0);
}
