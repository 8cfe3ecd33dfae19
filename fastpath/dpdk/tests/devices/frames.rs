//! Frames, bursts and pools: who owns what, and what fits.

use std::cell::Cell;

use dpdk::{Burst, Error, HEADROOM, Mempool, PoolConfig};

use crate::bed;

#[test]
fn a_frame_is_changed_in_place() {
    let pool = bed::pool("place");
    let mut mbuf = pool.alloc_from(&[7; 60]).unwrap();
    let headroom = usize::from(HEADROOM);
    assert_eq!(
        (mbuf.headroom(), mbuf.len(), mbuf.tailroom()),
        (headroom, 60, 2048 - 60)
    );

    // Encapsulate: fifty bytes in front.
    let (buffer, start, len) = mbuf.frame_parts();
    buffer[start - 50..start].fill(9);
    mbuf.set_bounds(start - 50, len + 50).unwrap();
    assert_eq!((mbuf.headroom(), mbuf.len()), (headroom - 50, 110));
    assert_eq!(mbuf.data()[49..51], [9, 7]);

    // Decapsulate: the other way.
    let (_, start, len) = mbuf.frame_parts();
    mbuf.set_bounds(start + 50, len - 50).unwrap();
    assert_eq!(mbuf.data(), [7; 60]);
    mbuf.data_mut()[0] = 1;
    assert_eq!(mbuf.data()[..2], [1, 7]);
    drop(mbuf);
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn too_long_data_is_refused_and_changes_nothing() {
    let pool = bed::pool("long");
    let mut mbuf = pool.alloc_from(b"before").unwrap();
    let room = 2048;
    match mbuf.fill(&[1; 2049]) {
        Err(Error::TooLong {
            length: 2049,
            room: said,
        }) => assert_eq!(said, room),
        other => panic!("{other:?}"),
    }
    assert_eq!(mbuf.data(), b"before");
    mbuf.fill(&[1; 2048]).unwrap();
    assert_eq!((mbuf.len(), mbuf.tailroom()), (room, 0));

    let whole = room + usize::from(HEADROOM);
    for (start, length) in [
        (0, whole + 1),
        (whole, 1),
        (whole + 1, 0),
        (1, usize::MAX),
        (usize::MAX, 1),
    ] {
        assert!(
            matches!(mbuf.set_bounds(start, length), Err(Error::Bounds { .. })),
            "{start}"
        );
        assert_eq!(mbuf.len(), room);
    }
    for (start, length) in [(0, whole), (whole, 0), (0, 0)] {
        mbuf.set_bounds(start, length).unwrap();
        assert_eq!((mbuf.headroom(), mbuf.data().len()), (start, length));
    }
    drop(mbuf);
    assert!(pool.alloc_from(&[0; 5000]).is_err());
    assert_eq!(pool.in_use(), 0, "a refused frame keeps no mbuf");
}

#[test]
fn a_burst_owns_what_is_in_it() {
    let pool = bed::pool("burst");
    let mut burst = Burst::new();
    for number in 0..Burst::CAPACITY as u32 {
        burst
            .push(pool.alloc_from(&number.to_be_bytes()).unwrap())
            .unwrap();
    }
    assert!(burst.is_full());
    let extra = pool.alloc().unwrap();
    let extra = burst
        .push(extra)
        .expect_err("a full burst hands the mbuf back");
    assert_eq!(pool.in_use(), 65);
    drop(extra);
    assert!(!pool.alloc_into(&mut burst, 1), "nothing fits");

    assert_eq!(burst.pop().unwrap().data(), 63u32.to_be_bytes());
    burst.swap(0, 1);
    let numbers = Cell::new(0u32);
    for mbuf in burst.drain().take(10) {
        let number = match numbers.get() {
            0 => 1u32,
            1 => 0,
            n => n,
        };
        assert_eq!(mbuf.data(), number.to_be_bytes());
        numbers.set(numbers.get() + 1);
    }
    assert!(burst.is_empty(), "what the iterator did not yield is freed");
    assert_eq!(pool.in_use(), 0);

    assert!(pool.alloc_into(&mut burst, 64));
    burst.clear();
    assert!(pool.alloc_into(&mut burst, 3));
    assert_eq!(pool.in_use(), 3);
    drop(burst);
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn an_empty_pool_is_an_answer() {
    let config = PoolConfig {
        mbufs: 63,
        cache: 0,
        ..PoolConfig::default()
    };
    let pool = Mempool::new(bed::eal(), "tiny", &config).unwrap();
    assert_eq!((pool.size(), pool.available(), pool.in_use()), (63, 63, 0));
    let mut burst = Burst::new();
    assert!(!pool.alloc_into(&mut burst, 64), "more than there are");
    assert_eq!((burst.len(), pool.in_use()), (0, 0), "all or none");
    assert!(pool.alloc_into(&mut burst, 63));
    let error = pool.alloc().expect_err("none is left");
    assert!(
        matches!(error, Error::PoolEmpty { name: "tiny" }),
        "{error}"
    );
    burst.clear();
    assert_eq!((pool.available(), pool.in_use()), (63, 0));
    pool.alloc().unwrap();
}

#[test]
fn mbufs_may_be_freed_by_another_thread() {
    let pool = bed::pool("elsewhere");
    let mut burst = Burst::new();
    assert!(pool.alloc_into(&mut burst, 64));
    std::thread::spawn(move || drop(burst)).join().unwrap();
    assert_eq!((pool.available(), pool.in_use()), (pool.size(), 0));
}
