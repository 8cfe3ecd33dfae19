//! How fast a burst goes through: receive, swap the addresses, send, on one thread.
//!
//! ```text
//! cargo run --release -p dpdk --example burst -- [device] [seconds] [burst]
//! ```
//!
//! `device` is `null` (the default: the price of the calls and of a pool) or `ring` (frames
//! go round, so the pool is left alone). Without hugepages, so that it runs everywhere.

use std::time::{Duration, Instant};

use dpdk::{Burst, Eal, EalConfig, Error, Mempool, PoolConfig, PortConfig};

fn main() -> Result<(), Error> {
    let mut words = std::env::args().skip(1);
    let device = words.next().unwrap_or_else(|| "null".to_owned());
    let mut number = |default: u64| words.next().and_then(|w| w.parse().ok()).unwrap_or(default);
    let (seconds, size) = (number(2), number(32) as usize);

    let eal = Eal::init(&EalConfig::new().no_huge(true))?;
    let pool = Mempool::new(&eal, "frames", &PoolConfig::default())?;
    let mut port = eal.attach(&format!("net_{device}0"), "")?;
    let mut queues = port.start(&PortConfig::default(), pool)?;
    let poller = dpdk::launch(&eal, "poller", Some(0), move || {
        let (rx, tx) = (&mut queues.rx[0], &mut queues.tx[0]);
        let mut burst = Burst::new();
        if device == "ring" {
            for _ in 0..512 / size {
                for _ in 0..size {
                    let frame = pool.alloc_from(&[2; 64])?;
                    burst
                        .push(frame)
                        .map_err(|_| Error::PoolEmpty { name: "burst" })?;
                }
                tx.send(&mut burst);
            }
        }
        for _ in 0..5 {
            let (start, mut frames) = (Instant::now(), 0u64);
            while start.elapsed() < Duration::from_secs(seconds) {
                for _ in 0..10_000 {
                    frames += rx.receive(&mut burst, size) as u64;
                    for mbuf in burst.iter_mut() {
                        swap_addresses(mbuf.data_mut());
                    }
                    tx.send(&mut burst);
                }
            }
            let rate = frames as f64 / start.elapsed().as_secs_f64() / 1e6;
            println!("{device}, bursts of {size}: {rate:.1} Mpps");
        }
        Ok(())
    })?;
    poller.join()?
}

fn swap_addresses(frame: &mut [u8]) {
    if let Some((addresses, _)) = frame.split_first_chunk_mut::<12>() {
        let (destination, source) = addresses.split_at_mut(6);
        destination.swap_with_slice(source);
    }
}
