//! A pool beyond EAL's memory. Alone in its file: until it is refused it takes all there is.

#![allow(clippy::unwrap_used, reason = "a test may")]

use dpdk::{Eal, EalConfig, Error, Mempool, PoolConfig};

#[test]
fn a_pool_beyond_the_memory_is_refused_and_gives_it_back() {
    let eal = Eal::init(&EalConfig::new().no_huge(true).memory_mib(64)).unwrap();
    let beyond = PoolConfig {
        mbufs: 100_000,
        ..PoolConfig::default()
    };
    for _ in 0..3 {
        let error = Mempool::new(&eal, "beyond", &beyond).expect_err("200 MiB of 64");
        assert!(matches!(error, Error::Pool { .. }), "{error}");
        let text = error.to_string();
        assert!(
            text.contains("of 100000 mbufs") && text.contains("memory given to EAL"),
            "{text}"
        );
    }
    // 47 MiB when mbufs lie side by side, 80 if each had a page to itself.
    let dense = PoolConfig {
        mbufs: 20_000,
        ..PoolConfig::default()
    };
    let pool = Mempool::new(&eal, "beyond", &dense).expect("the name and the memory are free");
    assert_eq!(pool.available(), pool.size());
}
