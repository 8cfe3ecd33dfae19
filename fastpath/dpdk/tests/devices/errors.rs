//! What is refused, and in which words.

use std::path::Path;

use dpdk::{Burst, Eal, EalConfig, Error, Mempool, PoolConfig, PortConfig};

use crate::bed;

#[test]
fn eal_starts_once() {
    bed::eal();
    let error = Eal::init(&EalConfig::new().no_huge(true)).expect_err("a second time");
    assert!(matches!(error, Error::AlreadyInitialised), "{error}");
    bed::pool("still works").alloc().unwrap();
}

#[test]
fn eal_leaves_no_folder_behind() {
    bed::eal();
    for root in ["/var/run", "/run", "/tmp"] {
        let folder = Path::new(root).join(format!("dpdk/penstock-{}", std::process::id()));
        assert!(!folder.exists(), "{}", folder.display());
    }
}

#[test]
fn bad_settings_are_named_before_eal_starts() {
    let bad = [
        (EalConfig::new().file_prefix("a/b"), "file prefix `a/b`"),
        (EalConfig::new().file_prefix(""), "file prefix ``"),
        (EalConfig::new().arg("a\0b"), "EAL argument `a\\0b`"),
        (
            EalConfig::new().no_huge(true).allow_pci("0000:01:00.0"),
            "PCI devices `0000:01:00.0`",
        ),
    ];
    for (config, words) in bad {
        let text = Eal::init(&config).expect_err(words).to_string();
        assert!(text.contains(words), "{text}");
    }
    // None of these counted as the one start.
    bed::eal();
}

#[test]
fn devices_that_cannot_be_attached() {
    let eal = bed::eal();
    for (name, arguments) in [
        ("net_nosuchdriver0", ""),
        ("net_af_packet20", "iface=nosuchiface0"),
        ("net_af_packet21", ""),
        ("net_null20", "size=banana=1,nosuchargument=1"),
    ] {
        // Twice: a failure leaves nothing behind that would change the answer.
        for _ in 0..2 {
            let error = eal.attach(name, arguments).expect_err(name);
            assert!(matches!(error, Error::Attach { .. }), "{error}");
            let text = error.to_string();
            assert!(text.contains(name) && text.contains(arguments), "{text}");
            assert!(
                matches!(eal.port(name), Err(Error::NoPort { .. })),
                "{name}"
            );
        }
    }
    eal.attach("net_null20", "size=64")
        .unwrap()
        .close()
        .unwrap();
    assert!(matches!(
        eal.attach("net\0", ""),
        Err(Error::Invalid { .. })
    ));
}

#[test]
fn a_port_has_one_owner() {
    let eal = bed::eal();
    let port = eal.attach("net_null21", "").unwrap();
    assert!(matches!(
        eal.port("net_null21"),
        Err(Error::PortTaken { .. })
    ));
    assert!(matches!(
        eal.attach("net_null21", ""),
        Err(Error::PortTaken { .. })
    ));
    drop(port);
    assert!(
        matches!(eal.port("net_null21"), Err(Error::NoPort { .. })),
        "dropping unplugs"
    );
    eal.attach("net_null21", "").unwrap();
}

#[test]
fn a_port_does_not_stop_under_its_queues() {
    let eal = bed::eal();
    let pool = bed::pool("leases");
    let mut port = eal.attach("net_null22", "").unwrap();
    let config = PortConfig::default();
    let mut queues = port.start(&config, pool).unwrap();
    assert!(matches!(
        port.start(&config, pool),
        Err(Error::State { .. })
    ));
    match port.stop() {
        Err(Error::QueuesInUse { queues: 2, .. }) => {}
        other => panic!("{other:?}"),
    }
    queues.tx.clear();
    let text = port.stop().expect_err("one is left").to_string();
    assert!(text.contains("`net_null22` has 1 queues"), "{text}");
    let mut rx = queues.rx.remove(0);
    assert_eq!(rx.receive(&mut Burst::new(), 8), 8, "and it still runs");
    drop(rx);
    port.stop().unwrap();
    port.stop().unwrap();

    let mut queues = port.start(&config, pool).unwrap();
    let mut rx = queues.rx.remove(0);
    drop(queues);
    assert!(matches!(port.close(), Err(Error::QueuesInUse { .. })));
    assert_eq!(
        rx.receive(&mut Burst::new(), 8),
        8,
        "a queue outlives its port's handle"
    );
    assert!(matches!(
        eal.port("net_null22"),
        Err(Error::PortTaken { .. })
    ));
    drop(rx);
    eal.attach("net_null22", "")
        .expect("the last queue closed the port");
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn pools_that_cannot_be_made() {
    let eal = bed::eal();
    let default = PoolConfig::default;
    let bad = [
        (
            "none",
            PoolConfig {
                mbufs: 0,
                ..default()
            },
            "pool `none` of 0 mbufs",
        ),
        (
            "cache",
            PoolConfig {
                cache: 513,
                ..default()
            },
            "pool `cache`",
        ),
        (
            "small",
            PoolConfig {
                mbufs: 100,
                cache: 100,
                ..default()
            },
            "two thirds of the pool",
        ),
        (
            "room",
            PoolConfig {
                data_room: 128,
                ..default()
            },
            "data_room `128`",
        ),
        ("a name of more than 25 bytes", default(), "1 to 25 bytes"),
        ("", default(), "1 to 25 bytes"),
    ];
    for (name, config, words) in bad {
        let text = Mempool::new(eal, name, &config)
            .expect_err(name)
            .to_string();
        assert!(text.contains(words), "{name}: {text}");
    }
    let first = bed::pool("twice");
    let text = Mempool::new(eal, "twice", &default())
        .expect_err("taken")
        .to_string();
    assert!(text.contains("File exists"), "{text}");
    assert_eq!(first.in_use(), 0);
}

#[test]
fn a_pool_too_small_for_its_port() {
    let eal = bed::eal();
    let config = PoolConfig {
        data_room: 128 + 1000,
        ..PoolConfig::default()
    };
    let short = Mempool::new(eal, "short", &config).unwrap();
    let mut port = eal.attach("net_null23", "").unwrap();
    let jumbo = PortConfig {
        mtu: Some(1500),
        ..PortConfig::default()
    };
    let text = port
        .start(&jumbo, short)
        .expect_err("1518 do not fit")
        .to_string();
    assert!(
        text.contains("room for 1518 bytes, the pool's have 1000"),
        "{text}"
    );

    // A pool that runs dry: the device delivers what there is, and recovers.
    let few = PoolConfig {
        mbufs: 40,
        cache: 0,
        ..PoolConfig::default()
    };
    let few = Mempool::new(eal, "few", &few).unwrap();
    let mut queues = port.start(&PortConfig::default(), few).unwrap();
    let mut burst = Burst::new();
    assert_eq!(queues.rx[0].receive(&mut burst, 32), 32);
    assert_eq!(queues.rx[0].receive(&mut burst, 32), 0);
    burst.clear();
    assert_eq!(queues.rx[0].receive(&mut burst, 32), 32);
    drop((burst, queues));
    port.close().unwrap();
    assert_eq!((few.in_use(), short.in_use()), (0, 0));
}

#[test]
fn what_a_port_cannot_do_is_refused() {
    let pool = bed::pool("cannot");
    let mut port = bed::eal().attach("net_ring20", "").unwrap();
    let many = PortConfig {
        rx_queues: 1000,
        ..PortConfig::default()
    };
    let text = port
        .start(&many, pool)
        .expect_err("a ring has 16")
        .to_string();
    assert!(
        text.contains("`net_ring20`: configuring it failed"),
        "{text}"
    );
    let queues = port.start(&PortConfig::default(), pool).unwrap();
    assert!(port.mtu().unwrap() >= 1500);
    assert_eq!(port.mac().unwrap().len(), 6);
    assert!(port.link().unwrap().up);
    port.reset_stats().unwrap();
    assert_eq!(port.stats().unwrap(), dpdk::Stats::default());
    drop(queues);
    port.stop().unwrap();
    assert!(!port.link().unwrap().up);
}
