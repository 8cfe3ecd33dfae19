//! Devices come and go while another port is being polled.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use dpdk::{Burst, PortConfig};

use crate::bed::{self, Deadline};

#[test]
fn attach_and_detach_beside_a_polled_port() {
    let eal = bed::eal();
    let pool = bed::pool("steady");
    let mut steady = eal.attach("net_ring30", "").unwrap();
    let mut queues = steady.start(&PortConfig::default(), pool).unwrap();
    let (mut rx, mut tx) = (queues.rx.remove(0), queues.tx.remove(0));
    let stop = Arc::new(AtomicBool::new(false));
    let passed = Arc::new(AtomicU64::new(0));

    let poller = dpdk::launch(eal, "poller", None, {
        let (stop, passed) = (Arc::clone(&stop), Arc::clone(&passed));
        move || {
            let mut burst = Burst::new();
            let mut sent = 0u64;
            while !stop.load(Ordering::Relaxed) {
                assert!(pool.alloc_into(&mut burst, 32));
                sent += tx.send(&mut burst) as u64;
                burst.clear();
                let came = rx.receive(&mut burst, 64);
                passed.fetch_add(came as u64, Ordering::Relaxed);
                burst.clear();
            }
            sent
        }
    })
    .unwrap();

    let deadline = Deadline::new(60, "the poller to get on");
    let guest_pool = bed::pool("guest");
    for round in 0..50 {
        let name = format!("net_ring{}", 31 + round % 3);
        let before = passed.load(Ordering::Relaxed);
        let mut port = eal.attach(&name, "").unwrap();
        let mut queues = port.start(&PortConfig::default(), guest_pool).unwrap();
        let mut burst = Burst::new();
        burst
            .push(guest_pool.alloc_from(&bed::frame(round, 64)).unwrap())
            .unwrap();
        assert_eq!(queues.tx[0].send(&mut burst), 1);
        assert_eq!(queues.rx[0].receive(&mut burst, 64), 1);
        assert_eq!(burst[0].data(), bed::frame(round, 64));
        while passed.load(Ordering::Relaxed) == before {
            deadline.check();
            assert!(!poller.is_finished(), "the poller ended early");
            std::thread::yield_now();
        }
        drop((burst, queues));
        port.close().unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    let sent = poller.join().unwrap();
    assert_eq!(
        sent,
        passed.load(Ordering::Relaxed),
        "lost on the polled port"
    );
    let stats = steady.stats().unwrap();
    assert_eq!((stats.opackets, stats.ipackets), (sent, sent));
    steady.close().unwrap();
    assert_eq!((pool.in_use(), guest_pool.in_use()), (0, 0), "leaked mbufs");
}
