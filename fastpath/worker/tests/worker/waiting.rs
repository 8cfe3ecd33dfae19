//! Frames that wait are buffers of the pool, and all of them go back.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use dpdk::{Burst, Eal, EalConfig, Mempool, PoolConfig};
use penstock_engine::nic::{Entry, Hop, Op, Update};
use penstock_engine::{Config, Engine, NicConfig, PolicyChange};
use penstock_flow::{Addr, Mac, Prefix};
use penstock_rules::Ruleset;
use penstock_rules::model::{Policy, Port, Subnet, Vpc};
use penstock_worker::lcore::{self, Clock, Core, Queues};
use penstock_worker::mailbox;

use crate::bed::wait_until;

const VNI: u32 = 7;
const WAIT: u64 = 2_000_000_000;

/// A port that a test holds the other end of.
#[derive(Debug)]
struct Cable {
    pool: Mempool,
    from: Receiver<Vec<u8>>,
    to: Sender<Vec<u8>>,
}

impl Queues for Cable {
    fn receive(&mut self, burst: &mut Burst, most: usize) -> usize {
        let mut received = 0;
        for frame in self.from.try_iter().take(most) {
            let mbuf = self.pool.alloc_from(&frame).expect("a buffer");
            burst.push(mbuf).expect("room");
            received += 1;
        }
        received
    }

    fn send(&mut self, burst: &mut Burst) -> usize {
        let mut sent = 0;
        for mbuf in burst.drain() {
            self.to
                .send(mbuf.data().to_vec())
                .expect("the test listens");
            sent += 1;
        }
        sent
    }
}

fn mac(i: u8) -> Mac {
    Mac([2, 0, 0, 0, 0, i])
}

fn ip(i: u8) -> Addr {
    Addr::from_v4([10, 0, 0, i])
}

fn engine() -> Engine {
    let mut engine = Engine::new(Config {
        seed: RandomState::new().hash_one(0),
        max_connections: 64,
        max_device_ports: 8,
        fragment_wait: WAIT,
        ..Config::default()
    });
    let prefix = |last| Prefix::new(Addr::from_v4([192, 0, 2, last]), 120).expect("a prefix");
    let nic = NicConfig {
        device_id: 1,
        vtep: Addr::from_v4([192, 0, 2, 1]),
        uplink_port: 1,
        uplink_mac: mac(9),
        underlay: prefix(0),
        gateway: None,
        mtu: 1500,
        capacities: penstock_engine::nic::Capacities::default(),
        entry_write_ns: 0,
    };
    engine.attach_nic(nic).expect("attaches");
    let mut policy = Policy {
        generation: 1,
        ..Policy::default()
    };
    let vpc = Vpc {
        name: "v".into(),
        default_allow: true,
        peers: Default::default(),
    };
    policy.vpcs.insert(VNI, vpc);
    let subnet = Subnet {
        name: "s".into(),
        vni: VNI,
        prefixes: Prefix::new(ip(0), 120).into_iter().collect(),
        gateways: vec![ip(254)],
        mtu: 1450,
    };
    policy.subnets.insert(1, subnet);
    for i in [2, 3] {
        let id = u32::from(i);
        let hop = Hop::ToPort {
            device_port: id,
            vlan: 0,
            dst_mac: mac(i),
        };
        for entry in [
            Entry::Vport {
                device_port: id,
                vlan: 0,
                port_id: id,
                vni: VNI,
            },
            Entry::SpoofGuard {
                port_id: id,
                mac: mac(i),
                ip: ip(i),
            },
            Entry::Nexthop { id, hop },
            Entry::Mapping {
                vni: VNI,
                dst: Prefix::new(ip(i), 128).expect("a host"),
                nexthop: id,
            },
        ] {
            let op = Op::Insert;
            engine.write(1, &Update { op, entry }).expect("writes");
        }
        let port = Port {
            name: format!("p{i}"),
            vni: VNI,
            subnet: 1,
            device_id: 1,
            attachment: format!("v{i}"),
            vlan: 0,
            mac: mac(i),
            ips: vec![ip(i)],
            groups: vec![],
        };
        policy.ports.insert(id, port);
    }
    let rules = Ruleset::compile(policy).expect("compiles");
    drop(engine.set_policy(0, PolicyChange::new(None, Arc::new(rules))));
    engine
}

/// One of three pieces of a datagram from port 2 to port 3.
fn piece(id: u16, i: u16) -> Vec<u8> {
    let mut frame = [mac(3).0, mac(2).0].concat();
    frame.extend([8, 0]);
    let more = if i == 2 { 0 } else { 0x2000 };
    let mut header = vec![0x45, 0, 0, 220];
    header.extend(id.to_be_bytes());
    header.extend((more | (i * 200 / 8)).to_be_bytes());
    header.extend([64, 17, 0, 0, 10, 0, 0, 2, 10, 0, 0, 3]);
    let sum = penstock_flow::checksum::Sum::default()
        .bytes(&header)
        .finish();
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    frame.extend(header);
    let mut data = [i as u8; 200];
    if i == 0 {
        data[..8].copy_from_slice(&[0x9c, 0x40, 0, 80, 2, 0x58, 0, 0]);
    }
    frame.extend(data);
    frame
}

#[test]
fn buffers_that_wait_go_back_to_the_pool() {
    let eal = EalConfig::new().no_huge(true).memory_mib(64);
    let eal = Eal::init(&eal).expect("starts");
    let pool = PoolConfig {
        mbufs: 1023,
        cache: 0,
        ..PoolConfig::default()
    };
    let pool = Mempool::new(&eal, "waiting", &pool).expect("a pool");
    let (mut core, _attic) = Core::new(engine(), Clock::start(), Some(pool), 8);
    let mut ends = Vec::new();
    for number in [2, 3] {
        let ((near, from), (to, far)) = (channel(), channel());
        let cable = Cable { pool, from, to };
        core.add_port(number, Box::new(cable)).expect("adds");
        ends.push((near, far));
    }
    let (handle, receiver) = mailbox::channel::<Core>();
    let thread = std::thread::spawn(move || lcore::run(core, receiver));
    let patience = Duration::from_secs(30);
    let (sender, far) = (&ends[0].0, &ends[1].1);

    // Backwards: two wait, and go on behind the first.
    for id in 0..50 {
        for i in [2, 1, 0] {
            sender.send(piece(id, i)).expect("a cable");
        }
        for i in [0, 2, 1] {
            let frame = far.recv_timeout(patience).expect("arrives");
            assert!(frame == piece(id, i), "{id}: piece {i}");
        }
    }
    wait_until("all buffers are back", || pool.in_use() == 0);

    // For a first one that never comes; more than there is room for.
    for id in 100..800 {
        sender.send(piece(id, 1)).expect("a cable");
    }
    wait_until("some wait", || pool.in_use() > 0);
    wait_until("they are over", || pool.in_use() == 0);

    // And those that wait when the thread ends.
    for id in 900..910 {
        sender.send(piece(id, 1)).expect("a cable");
    }
    wait_until("they wait", || pool.in_use() == 10);
    drop(handle);
    drop(thread.join().expect("ends"));
    assert_eq!(pool.in_use(), 0);
    assert!(far.try_recv().is_err(), "nothing else has passed");
}
