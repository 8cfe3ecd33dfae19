//! Ten million packets, none lost, none leaked.

use dpdk::{Burst, PortConfig};

use crate::bed::{self, Deadline};

const PACKETS: u64 = 10_000_000;

#[test]
fn ring_loses_and_leaks_nothing() {
    let pool = bed::pool("ring");
    let before = pool.available();
    let mut port = bed::eal().attach("net_ring10", "").unwrap();
    let mut queues = port.start(&PortConfig::default(), pool).unwrap();
    let (mut rx, mut tx) = (queues.rx.remove(0), queues.tx.remove(0));
    let deadline = Deadline::new(60, "ten million packets over a ring");

    let (mut sent, mut received, mut refused) = (0u64, 0u64, 0u64);
    let (mut out, mut back) = (Burst::new(), Burst::new());
    let mut expected = 0u32;
    while received < PACKETS {
        deadline.check();
        // The burst sizes change, so that rings wrap at every offset, and every third round
        // does not receive, so that the ring fills up and refuses.
        let size = (sent % 61) as usize + 1;
        if sent < PACKETS && out.is_empty() {
            let size = size.min((PACKETS - sent) as usize);
            assert!(
                pool.alloc_into(&mut out, size),
                "pool empty: {} in use",
                pool.in_use()
            );
            for (number, mbuf) in out.iter_mut().enumerate() {
                mbuf.fill(&((sent + number as u64) as u32).to_be_bytes())
                    .unwrap();
            }
        }
        let offered = out.len();
        let taken = tx.send(&mut out);
        assert_eq!(out.len(), offered - taken, "what is not taken stays");
        refused += (offered - taken) as u64;
        sent += taken as u64;
        if sent % 3 == 0 || taken < offered || sent == PACKETS {
            while rx.receive(&mut back, size) > 0 {
                for mbuf in back.drain() {
                    assert_eq!(mbuf.data(), expected.to_be_bytes(), "in order, whole, once");
                    expected = expected.wrapping_add(1);
                    received += 1;
                }
            }
        }
    }
    assert_eq!(rx.receive(&mut back, 64), 0, "nothing is left in the ring");
    assert!(out.is_empty());
    let stats = port.stats().unwrap();
    println!("ring: sent {sent}, received {received}, refused and sent again {refused}, {stats:?}");
    assert_eq!(
        (sent, received),
        (PACKETS, PACKETS),
        "lost: {}",
        sent - received
    );
    assert_eq!((stats.opackets, stats.ipackets), (PACKETS, PACKETS));

    drop((rx, tx));
    port.close().unwrap();
    assert_eq!(
        (pool.available(), pool.in_use()),
        (before, 0),
        "leaked mbufs"
    );
}

#[test]
fn null_loses_and_leaks_nothing() {
    let pool = bed::pool("null");
    let before = pool.available();
    let mut port = bed::eal().attach("net_null10", "").unwrap();
    let mut queues = port.start(&PortConfig::default(), pool).unwrap();
    let (mut rx, mut tx) = (queues.rx.remove(0), queues.tx.remove(0));
    let deadline = Deadline::new(60, "ten million packets from and to nowhere");

    let (mut received, mut sent) = (0u64, 0u64);
    let mut burst = Burst::new();
    while received < PACKETS {
        deadline.check();
        let most = (received % 64) as usize + 1;
        let came = rx.receive(&mut burst, most.min((PACKETS - received) as usize));
        assert!(
            came > 0,
            "a null device always has packets while the pool has mbufs"
        );
        received += came as u64;
        for mbuf in burst.iter_mut() {
            mbuf.data_mut()[..6].copy_from_slice(&[2; 6]);
        }
        sent += tx.send(&mut burst) as u64;
        assert!(burst.is_empty());
    }
    let stats = port.stats().unwrap();
    println!("null: received {received}, sent {sent}, {stats:?}");
    assert_eq!((received, sent), (PACKETS, PACKETS));
    assert_eq!(
        (stats.ipackets, stats.opackets, stats.rx_nombuf),
        (PACKETS, PACKETS, 0)
    );

    drop((rx, tx));
    port.close().unwrap();
    assert_eq!(
        (pool.available(), pool.in_use()),
        (before, 0),
        "leaked mbufs"
    );
}

#[test]
fn two_threads_pass_packets_through_a_ring() {
    const COUNT: u64 = 2_000_000;
    let eal = bed::eal();
    let pool = bed::pool("threads");
    let mut port = eal.attach("net_ring11", "").unwrap();
    let mut queues = port.start(&PortConfig::default(), pool).unwrap();
    let (mut rx, mut tx) = (queues.rx.remove(0), queues.tx.remove(0));

    let sender = dpdk::launch(eal, "sender", None, move || {
        let deadline = Deadline::new(60, "the sender");
        let (mut sent, mut burst) = (0, Burst::new());
        while sent < COUNT {
            deadline.check();
            if burst.is_empty() && !pool.alloc_into(&mut burst, 32) {
                std::thread::yield_now();
                continue;
            }
            let taken = tx.send(&mut burst) as u64;
            sent += taken;
            if taken == 0 {
                std::thread::yield_now();
            }
        }
        sent
    });
    let receiver = dpdk::launch(eal, "receiver", None, move || {
        let deadline = Deadline::new(60, "the receiver");
        let (mut received, mut burst) = (0, Burst::new());
        while received < COUNT {
            deadline.check();
            let came = rx.receive(&mut burst, 32);
            received += came as u64;
            burst.clear();
            if came == 0 {
                std::thread::yield_now();
            }
        }
        received
    });
    let (sender, receiver) = (sender.unwrap(), receiver.unwrap());
    assert_ne!(sender.id(), receiver.id());
    assert_eq!(sender.join().unwrap(), receiver.join().unwrap());
    port.close().unwrap();
    assert_eq!(
        (pool.available(), pool.in_use()),
        (pool.size(), 0),
        "leaked mbufs"
    );
}

#[test]
fn every_queue_is_its_own() {
    let pool = bed::pool("queues");
    let mut port = bed::eal().attach("net_ring12", "").unwrap();
    let config = PortConfig {
        rx_queues: 4,
        tx_queues: 4,
        ..PortConfig::default()
    };
    let mut queues = port.start(&config, pool).unwrap();
    for (index, tx) in queues.tx.iter_mut().enumerate() {
        let mut burst = Burst::new();
        for _ in 0..=index {
            burst
                .push(pool.alloc_from(&bed::frame(index as u32, 60)).unwrap())
                .unwrap();
        }
        assert_eq!(tx.send(&mut burst), index + 1);
    }
    for (index, rx) in queues.rx.iter_mut().enumerate() {
        let mut burst = Burst::new();
        assert_eq!((rx.index(), rx.receive(&mut burst, 64)), (index, index + 1));
        assert!(
            burst
                .iter()
                .all(|mbuf| mbuf.data() == bed::frame(index as u32, 60))
        );
    }
    drop(queues);
    port.close().unwrap();
    assert_eq!(pool.in_use(), 0);
}
