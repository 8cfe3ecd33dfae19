//! af_packet on a veth pair, in a network namespace of its own.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dpdk::{Burst, PortConfig};

use crate::bed::{self, Deadline};

/// Set in the child that runs inside the namespace.
const INSIDE: &str = "PENSTOCK_TEST_NAMESPACE";

/// Runs the calling test again as a child in a fresh network namespace. True in the child.
fn inside(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let probe = Command::new("unshare")
        .args(["--net", "ip", "link", "show", "lo"])
        .output();
    match probe {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            bed::skipped(&format!("{test}: a network namespace needs root: {said}"));
            return false;
        }
        Err(error) => {
            bed::skipped(&format!("{test}: needs unshare (util-linux): {error}"));
            return false;
        }
    }
    let child = Command::new("unshare")
        .arg("--net")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&child.stdout),
        String::from_utf8_lossy(&child.stderr),
    );
    println!("{out}\n{err}");
    assert!(child.status.success(), "in the namespace: {}", child.status);
    assert!(out.contains("1 passed"), "the child ran something else");
    false
}

fn ip(line: &str) {
    let output = Command::new("ip")
        .args(line.split_whitespace())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "ip {line}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Two ends of a cable, up, and silent: no IPv6 autoconfiguration.
fn veth(one: &str, other: &str) {
    ip(&format!("link add {one} type veth peer name {other}"));
    for name in [one, other] {
        let path = format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6");
        if let Err(error) = std::fs::write(&path, "1") {
            println!("{path}: {error} (harmless where the kernel has no IPv6)");
        }
        ip(&format!("link set {name} up"));
    }
}

#[test]
fn frames_cross_a_veth_pair_whole() {
    if !inside("kernel::frames_cross_a_veth_pair_whole") {
        return;
    }
    const COUNT: u32 = 20_000;
    veth("va", "vb");
    let eal = bed::eal();
    let pool = bed::pool("veth");
    let config = PortConfig {
        rx_descriptors: 512,
        tx_descriptors: 512,
        mtu: Some(1480),
        promiscuous: true,
        ..PortConfig::default()
    };
    let mut a = eal.attach("net_af_packet0", "iface=va").unwrap();
    let mut b = eal.attach("net_af_packet1", "iface=vb").unwrap();
    let mut a_queues = a.start(&config, pool).unwrap();
    let mut b_queues = b.start(&config, pool).unwrap();
    assert!(b.link().unwrap().up);
    assert_eq!(b.mtu().unwrap(), 1480);
    let kernel = Command::new("ip")
        .args(["link", "show", "vb"])
        .output()
        .unwrap();
    let kernel = String::from_utf8_lossy(&kernel.stdout).into_owned();
    assert!(
        kernel.contains("mtu 1480") && kernel.contains("PROMISC"),
        "{kernel}"
    );
    assert_ne!(a.mac().unwrap(), b.mac().unwrap());

    let deadline = Deadline::new(30, "frames over the veth pair");
    let (mut sent, mut received) = (0, 0);
    let (mut out, mut back) = (Burst::new(), Burst::new());
    let length = |number: u32| 60 + (number % 1400) as usize;
    while received < COUNT {
        deadline.check();
        // At most 64 under way: the kernel's rings drop what overruns them.
        while sent < COUNT && sent - received < 64 && !out.is_full() {
            out.push(pool.alloc_from(&bed::frame(sent, length(sent))).unwrap())
                .unwrap();
            sent += 1;
        }
        a_queues.tx[0].send(&mut out);
        b_queues.rx[0].receive(&mut back, 64);
        for mbuf in back.drain() {
            assert_eq!(mbuf.data(), bed::frame(received, length(received)));
            received += 1;
        }
    }
    let (sender, receiver) = (a.stats().unwrap(), b.stats().unwrap());
    println!("veth: {sender:?} {receiver:?}");
    assert_eq!(
        (sender.opackets, receiver.ipackets),
        (u64::from(COUNT), u64::from(COUNT))
    );

    drop((a_queues, b_queues, out));
    a.close().unwrap();
    b.close().unwrap();
    assert_eq!(
        (pool.available(), pool.in_use()),
        (pool.size(), 0),
        "leaked mbufs"
    );
}

#[test]
fn vlan_tags_arrive_in_the_frame() {
    if !inside("kernel::vlan_tags_arrive_in_the_frame") {
        return;
    }
    veth("va", "vb");
    let eal = bed::eal();
    let pool = bed::pool("vlan");
    let mut a = eal.attach("net_af_packet0", "iface=va").unwrap();
    let mut b = eal.attach("net_af_packet1", "iface=vb").unwrap();
    let mut a_queues = a.start(&PortConfig::default(), pool).unwrap();
    let mut b_queues = b.start(&PortConfig::default(), pool).unwrap();

    let mut tagged = bed::frame(1, 100);
    tagged.splice(12..12, [0x81, 0x00, 0x20, 0x2a]);
    let mut burst = Burst::new();
    burst.push(pool.alloc_from(&tagged).unwrap()).unwrap();
    burst
        .push(pool.alloc_from(&bed::frame(2, 100)).unwrap())
        .unwrap();
    assert_eq!(a_queues.tx[0].send(&mut burst), 2);
    let deadline = Deadline::new(10, "a tagged frame");
    while burst.len() < 2 {
        deadline.check();
        b_queues.rx[0].receive(&mut burst, 64);
    }
    // The kernel takes the tag out and tells it beside the frame; the driver (or, in early
    // 22.11 releases, the receive queue) puts it back.
    assert_eq!(burst[0].data(), tagged);
    assert_eq!(burst[1].data(), bed::frame(2, 100));
    drop((burst, a_queues, b_queues));
    a.close().unwrap();
    b.close().unwrap();
    assert_eq!(pool.in_use(), 0);
}

/// An IPv4 datagram's part: identification 7, protocol UDP, from 10.0.0.1 to 10.0.0.2.
fn fragment(offset: usize, more: bool, payload: &[u8]) -> Vec<u8> {
    let [l0, l1] = (20 + payload.len() as u16).to_be_bytes();
    let [f0, f1] = (u16::from(more) << 13 | (offset / 8) as u16).to_be_bytes();
    let mut header = [
        0x45, 0, l0, l1, 0, 7, f0, f1, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    ];
    let sum: u32 = header
        .chunks(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    let ether = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    [&ether[..], &header, payload].concat()
}

/// The kernel would join them whichever interface they come from.
#[test]
fn fragments_arrive_as_they_were_sent_and_where() {
    if !inside("kernel::fragments_arrive_as_they_were_sent_and_where") {
        return;
    }
    veth("va", "vb");
    veth("vc", "vd");
    let eal = bed::eal();
    let pool = bed::pool("fragments");
    let mut ports = ["va", "vb", "vc", "vd"].map(|name| {
        eal.attach(&format!("net_af_packet_{name}"), &format!("iface={name}"))
            .unwrap()
    });
    let mut queues = ports
        .each_mut()
        .map(|port| port.start(&PortConfig::default(), pool).unwrap());
    // The end of one tenant's datagram and the beginning of another's.
    let sent = [
        (0, fragment(64, false, &[0xaa; 64])),
        (2, fragment(0, true, &[0xbb; 64])),
    ];
    for (from, frame) in sent {
        let mut burst = Burst::new();
        burst.push(pool.alloc_from(&frame).unwrap()).unwrap();
        assert_eq!(queues[from].tx[0].send(&mut burst), 1);
        let deadline = Deadline::new(10, "a fragment");
        while queues[from + 1].rx[0].receive(&mut burst, 64) == 0 {
            deadline.check();
        }
        assert_eq!((burst.len(), burst[0].data()), (1, &*frame));
    }
    drop(queues);
    for port in ports {
        port.close().unwrap();
    }
    assert_eq!(pool.in_use(), 0);
}

/// A packet socket hears every interface until it is bound to one, and the driver's ring is
/// there before.
#[test]
fn a_port_that_opens_hears_no_other_interface() {
    if !inside("kernel::a_port_that_opens_hears_no_other_interface") {
        return;
    }
    veth("va", "vb");
    veth("vc", "vd");
    let eal = bed::eal();
    let pool = bed::pool("fragments");
    let mut noise = eal.attach("net_af_packet_vc", "iface=vc").unwrap();
    let mut noisy = noise.start(&PortConfig::default(), pool).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let sender = dpdk::launch(eal, "noise", None, {
        let stop = Arc::clone(&stop);
        move || {
            let mut sent = 0;
            while !stop.load(Ordering::Relaxed) {
                let mut burst = Burst::new();
                let Ok(mbuf) = pool.alloc_from(&bed::frame(sent, 100)) else {
                    continue;
                };
                burst.push(mbuf).unwrap();
                sent += noisy.tx[0].send(&mut burst) as u32;
                std::thread::sleep(std::time::Duration::from_micros(20));
            }
            (sent, noisy)
        }
    })
    .unwrap();
    let mut heard = 0;
    for _ in 0..20 {
        let mut port = eal.attach("net_af_packet_va", "iface=va").unwrap();
        let mut queues = port.start(&PortConfig::default(), pool).unwrap();
        let mut burst = Burst::new();
        for _ in 0..100 {
            heard += queues.rx[0].receive(&mut burst, 64);
            burst.clear();
        }
        drop((burst, queues));
        port.close().unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    let (sent, noisy) = sender.join().unwrap();
    assert!(sent > 100, "there was something to hear");
    assert_eq!(heard, 0, "frames of another interface");
    drop(noisy);
    noise.close().unwrap();
}

#[test]
fn interfaces_come_and_go_beside_a_polled_port() {
    if !inside("kernel::interfaces_come_and_go_beside_a_polled_port") {
        return;
    }
    let eal = bed::eal();
    let pool = bed::pool("null");
    let mut steady = eal.attach("net_null0", "").unwrap();
    let mut queues = steady.start(&PortConfig::default(), pool).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let poller = dpdk::launch(eal, "poller", None, {
        let stop = Arc::clone(&stop);
        move || {
            let mut burst = Burst::new();
            while !stop.load(Ordering::Relaxed) {
                assert_eq!(queues.rx[0].receive(&mut burst, 32), 32);
                assert_eq!(queues.tx[0].send(&mut burst), 32);
            }
        }
    })
    .unwrap();

    let guests = bed::pool("guests");
    for round in 0..10 {
        veth("va", "vb");
        let mut a = eal.attach("net_af_packet0", "iface=va").unwrap();
        let mut b = eal.attach("net_af_packet1", "iface=vb").unwrap();
        let mut a_queues = a.start(&PortConfig::default(), guests).unwrap();
        let mut b_queues = b.start(&PortConfig::default(), guests).unwrap();
        let mut burst = Burst::new();
        burst
            .push(guests.alloc_from(&bed::frame(round, 64)).unwrap())
            .unwrap();
        assert_eq!(a_queues.tx[0].send(&mut burst), 1);
        let deadline = Deadline::new(10, "one frame");
        while b_queues.rx[0].receive(&mut burst, 1) == 0 {
            deadline.check();
        }
        assert_eq!(burst[0].data(), bed::frame(round, 64));
        drop((burst, a_queues, b_queues));
        a.close().unwrap();
        b.close().unwrap();
        ip("link del va");
        assert!(!poller.is_finished(), "the poller ended early");
    }
    stop.store(true, Ordering::Relaxed);
    poller.join().unwrap();
    let stats = steady.stats().unwrap();
    assert_eq!(stats.ipackets, stats.opackets);
    steady.close().unwrap();
    assert_eq!((pool.in_use(), guests.in_use()), (0, 0), "leaked mbufs");
}
