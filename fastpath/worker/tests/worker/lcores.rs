//! Several polling threads and the frames between them, with made-up ports.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use dpdk::{Burst, Eal, EalConfig, Lcore, Mempool, PoolConfig};
use penstock_engine::nic::{Entry, Hop, Op, Update};
use penstock_engine::{Config, Engine, NicConfig, PolicyChange, Shard};
use penstock_flow::{Addr, DropReason, Mac, Prefix};
use penstock_rules::Ruleset;
use penstock_slowpath_api::v1::PolicyUpdate;
use penstock_worker::lcore::{self, Clock, Core, Lcores, Numbers, Peers, Queues};
use penstock_worker::{mailbox, policy};

use crate::fixture::{IP, MAC, VNI, allow, snapshot};

/// Three threads that never sleep may have to share one processor.
const LONG: Duration = Duration::from_secs(60);
const LCORES: u16 = 3;
const FLOWS: u32 = 64;
const UPLINK: u32 = 1;
const PORTS: [u32; 2] = [17, 18];
const UDP: u32 = 17;

/// What a port has seen leave: per flow the last number, and how many came late.
#[derive(Debug, Default)]
struct Seen {
    sent: AtomicU64,
    late: AtomicU64,
    last: Mutex<Vec<u32>>,
    /// Frames that the sender has made, and whether it goes on.
    made: AtomicU64,
    goes_on: AtomicBool,
}

/// One end sends numbered frames of many flows in turn; the other takes them.
#[derive(Debug)]
struct End {
    pool: Mempool,
    sends: bool,
    next: u32,
    seen: Arc<Seen>,
}

/// A port that takes everything and has nothing.
#[derive(Debug)]
struct Nowhere;

impl Queues for Nowhere {
    fn receive(&mut self, _: &mut Burst, _: usize) -> usize {
        0
    }

    fn send(&mut self, burst: &mut Burst) -> usize {
        let count = burst.len();
        burst.clear();
        count
    }
}

/// UDP from workload 0 to workload 1; the payload is a number.
fn frame(flow: u32, number: u32) -> Vec<u8> {
    let mut frame = Vec::new();
    frame.extend(MAC[1]);
    frame.extend(MAC[0]);
    frame.extend([8, 0, 0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17, 0, 0]);
    frame.extend(IP[0].octets());
    frame.extend(IP[1].octets());
    let sum: u32 = frame[14..34]
        .chunks(2)
        .map(|b| u32::from(u16::from_be_bytes([b[0], b[1]])))
        .sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame.extend((1000 + flow as u16).to_be_bytes());
    frame.extend([0, 7, 0, 26, 0, 0]);
    frame.extend(number.to_be_bytes());
    frame.resize(60, 0);
    frame
}

impl Queues for End {
    fn receive(&mut self, burst: &mut Burst, most: usize) -> usize {
        if !self.sends || !self.seen.goes_on.load(Relaxed) || !self.pool.alloc_into(burst, most) {
            return 0;
        }
        for mbuf in burst.iter_mut() {
            let frame = frame(self.next % FLOWS, self.next / FLOWS + 1);
            mbuf.fill(&frame).expect("fits");
            self.next += 1;
        }
        self.seen.made.fetch_add(most as u64, Relaxed);
        most
    }

    fn send(&mut self, burst: &mut Burst) -> usize {
        let count = burst.len();
        let mut last = self.seen.last.lock().expect("whole");
        for mbuf in burst.drain() {
            let data = mbuf.data();
            let flow = usize::from(u16::from_be_bytes([data[34], data[35]]) - 1000);
            let number = u32::from_be_bytes(data[42..46].try_into().expect("four"));
            if number <= last[flow] {
                self.seen.late.fetch_add(1, Relaxed);
            }
            last[flow] = number;
        }
        self.seen.sent.fetch_add(count as u64, Relaxed);
        count
    }
}

struct Crew {
    lcores: Lcores,
    threads: Vec<Lcore<Core>>,
    pool: Mempool,
    seen: Arc<Seen>,
    // Last: everything else is of it.
    _eal: Eal,
}

fn engine(index: u16) -> Engine {
    let mut engine = Engine::new(Config {
        seed: 42,
        shard: Shard {
            index,
            count: LCORES,
        },
        max_connections: 1024,
        max_device_ports: 32,
        ..Config::default()
    });
    engine
        .attach_nic(NicConfig {
            device_id: 1,
            vtep: Addr::from_v4([192, 0, 2, 1]),
            uplink_port: UPLINK,
            uplink_mac: Mac([2, 0, 0, 0, 0, 1]),
            underlay: Prefix::new(Addr::from_v4([192, 0, 2, 0]), 120).expect("a prefix"),
            gateway: None,
            mtu: 1500,
            capacities: penstock_engine::nic::Capacities::default(),
            entry_write_ns: 0,
        })
        .expect("attaches");
    for (i, device_port) in PORTS.into_iter().enumerate() {
        let (id, ip, mac) = (i as u32 + 1, Addr::from_v4(IP[i].octets()), Mac(MAC[i]));
        let hop = Hop::ToPort {
            device_port,
            vlan: 0,
            dst_mac: mac,
        };
        for entry in [
            Entry::Vport {
                device_port,
                vlan: 0,
                port_id: id,
                vni: VNI,
            },
            Entry::SpoofGuard {
                port_id: id,
                mac,
                ip,
            },
            Entry::Nexthop { id, hop },
            Entry::Mapping {
                vni: VNI,
                dst: Prefix::new(ip, 128).expect("a host"),
                nexthop: id,
            },
        ] {
            let update = Update {
                op: Op::Insert,
                entry,
            };
            engine.write(1, &update).expect("takes it");
        }
    }
    engine
}

impl Crew {
    async fn start() -> Self {
        let eal = Eal::init(&EalConfig::new().no_huge(true).memory_mib(64)).expect("EAL");
        let config = PoolConfig {
            mbufs: 8191,
            ..PoolConfig::default()
        };
        let pool = Mempool::new(&eal, "frames", &config).expect("a pool");
        let clock = Clock::start();
        let (mut handles, mut threads) = (Vec::new(), Vec::new());
        for (index, peers) in (0..).zip(Peers::mesh(LCORES, 256)) {
            let (core, _attic) = Core::new(engine(index), clock, Some(pool), 32);
            let mut core = core.among(peers);
            core.crowded = true;
            // The one that announces the VTEP has the uplink: that never gets lost, and
            // only tenants' frames are counted.
            if index == 0 {
                core.add_port(UPLINK, Box::new(Nowhere)).expect("takes it");
            } else {
                core.set_home(UPLINK, 0);
            }
            let (handle, receiver) = mailbox::channel();
            let thread = dpdk::launch(&eal, &format!("lcore-{index}"), None, move || {
                lcore::run(core, receiver)
            });
            handles.push(handle);
            threads.push(thread.expect("starts"));
        }
        let crew = Self {
            lcores: Lcores::new(handles),
            threads,
            pool,
            seen: Arc::default(),
            _eal: eal,
        };
        *crew.seen.last.lock().expect("whole") = vec![0; FLOWS as usize];
        let rules = snapshot(1, vec![allow("udp", UDP, &[7])]);
        crew.policy(rules).await;
        for (port, sends) in PORTS.into_iter().zip([true, false]) {
            let end = End {
                pool,
                sends,
                next: 0,
                seen: Arc::clone(&crew.seen),
            };
            let added = crew.lcores.add_port(port, 1500, Box::new(end)).await;
            added.expect("runs").expect("takes it");
        }
        crew
    }

    async fn policy(&self, update: PolicyUpdate) {
        let none = Ruleset::default();
        let ruleset = Arc::new(policy::apply(&none, update).expect("good"));
        let change = PolicyChange::new(None, ruleset);
        let set = self.lcores.each(move |core| core.set_policy(change)).await;
        set.expect("runs");
    }

    async fn numbers(&self) -> Vec<Numbers> {
        let numbers = self.lcores.ask(LONG, |core| core.numbers(&[1])).await;
        numbers.expect("runs")
    }

    fn made(&self) -> u64 {
        self.seen.made.load(Relaxed)
    }

    /// Lets the sender send until `done`.
    async fn send_until(&self, what: &str, mut done: impl AsyncFnMut(&Self) -> bool) {
        self.seen.goes_on.store(true, Relaxed);
        let end = Instant::now() + LONG;
        while !done(self).await {
            assert!(Instant::now() < end, "waited in vain until {what}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        self.seen.goes_on.store(false, Relaxed);
    }

    /// Waits until nothing is under way; each frame must have had one end.
    async fn settle(&self) -> Numbers {
        let end = Instant::now() + LONG;
        loop {
            let sum = Numbers::merge(&self.numbers().await).expect("lcores");
            let dropped: u64 = sum.counters.drops.iter().sum();
            let behind = sum.lost.tx_full + sum.lost.handover_full;
            let ends = self.seen.sent.load(Relaxed) + dropped + behind;
            if ends == self.made() && sum.counters.received.packets == ends {
                return sum;
            }
            assert!(
                Instant::now() < end,
                "{} made, {ends} ended: {sum:?}",
                self.made()
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn join(self) -> (Mempool, Vec<Core>) {
        let cores = self.threads.into_iter().map(|t| t.join().expect("ends"));
        (self.pool, cores.collect())
    }
}

#[tokio::test]
async fn frames_keep_their_order_and_have_one_end_each() {
    let crew = Crew::start().await;
    crew.send_until("many were made", async |crew| crew.made() > 100_000)
        .await;
    crew.settle().await;
    let each = crew.numbers().await;
    for (lcore, numbers) in each.iter().enumerate() {
        assert!(numbers.counters.sent.packets > 0, "lcore {lcore} idles");
        assert!(numbers.counters.connections.live > 0, "lcore {lcore} idles");
    }
    // Lcore 0 polls the sender, lcore 1 the receiver.
    assert!(each[0].handed.given > 0 && each[0].handed.taken == 0);
    assert!(each[1].handed.taken > 0 && each[1].handed.sent == 0);
    assert!(each[2].handed.taken > 0 && each[2].handed.sent > 0);
    assert_eq!(crew.seen.late.load(Relaxed), 0);

    // One that stands still: its share is lost and counted, the others' is not.
    let stands = Arc::new(AtomicBool::new(true));
    let seen_by_job = Arc::clone(&stands);
    let stalled = crew.lcores.one(2, move |_| {
        while seen_by_job.load(Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let refusals = async |crew: &Crew| {
        let first = crew.lcores.one(0, |core| {
            core.engine.counters().dropped(DropReason::HandoverFull)
        });
        first.await.expect("runs")
    };
    let before = refusals(&crew).await;
    let refused = async |crew: &Crew| refusals(crew).await > before + 1000;
    let (stalled, ()) = tokio::join!(stalled, async {
        crew.send_until("its ring was full", refused).await;
        stands.store(false, Relaxed);
    });
    stalled.expect("runs");
    let before = crew.seen.sent.load(Relaxed);
    crew.settle().await;
    crew.send_until("it goes on", async |crew| {
        crew.seen.sent.load(Relaxed) > before + 10_000
    })
    .await;
    let sum = crew.settle().await;
    assert_eq!(crew.seen.late.load(Relaxed), 0);
    let others: u64 = DropReason::ALL
        .iter()
        .filter(|reason| **reason != DropReason::HandoverFull)
        .map(|reason| sum.counters.dropped(*reason))
        .sum();
    assert_eq!(others, 0, "{sum:?}");
    assert_eq!(sum.counters.connections.live, 2 * u64::from(FLOWS));

    // A change of policy is in force on all when it is answered.
    crew.policy(snapshot(2, vec![])).await;
    let sum = Numbers::merge(&crew.numbers().await).expect("lcores");
    assert_eq!(sum.generation, 2);
    let passed = crew.seen.sent.load(Relaxed);
    let made = crew.made();
    crew.send_until("they were judged", async |crew| crew.made() > made + 5000)
        .await;
    let sum = crew.settle().await;
    assert_eq!(crew.seen.sent.load(Relaxed), passed);
    assert!(sum.counters.dropped(DropReason::DeniedIngress) > 0);
    assert_eq!(sum.counters.connections.live, 0);

    // And the end, with everything stopped at once.
    crew.lcores.stop().await;
    let (pool, cores) = crew.join();
    drop(cores);
    assert_eq!(pool.in_use(), 0);
}

/// What an lcore had decided on, and another was to send, leaves before the change that
/// would have refused it is in force.
#[tokio::test]
async fn what_was_decided_on_before_a_change_has_left_when_it_is_in_force() {
    let crew = Crew::start().await;
    for generation in [2, 4, 6, 8] {
        let before = crew.seen.sent.load(Relaxed);
        crew.send_until("it runs", async |crew| {
            crew.seen.sent.load(Relaxed) > before + 1000
        })
        .await;
        // The receiver's lcore stands still until its rings are full.
        let stands = Arc::new(AtomicBool::new(true));
        let seen_by_job = Arc::clone(&stands);
        let stalled = crew.lcores.one(1, move |_| {
            while seen_by_job.load(Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let lost = async |crew: &Crew| {
            let second = crew.lcores.one(2, |core| core.lost().handover_full);
            second.await.expect("runs")
        };
        let lost_before = lost(&crew).await;
        let is_full = async |crew: &Crew| lost(crew).await > lost_before;
        let closing = async {
            crew.send_until("the ring was full", is_full).await;
            let close = crew.policy(snapshot(generation, vec![]));
            let release = async { stands.store(false, Relaxed) };
            tokio::join!(close, release);
        };
        let (stalled, ()) = tokio::join!(stalled, closing);
        stalled.expect("runs");
        crew.lcores.in_force().await.expect("runs");
        let sent = crew.seen.sent.load(Relaxed);
        crew.settle().await;
        assert_eq!(crew.seen.sent.load(Relaxed), sent);
        let opens = snapshot(generation + 1, vec![allow("udp", UDP, &[7])]);
        crew.policy(opens).await;
    }
    crew.lcores.stop().await;
}

#[tokio::test]
async fn a_stop_in_the_middle_leaves_no_buffer_behind() {
    let crew = Crew::start().await;
    crew.send_until("it runs", async |crew| {
        crew.seen.sent.load(Relaxed) > 10_000
    })
    .await;
    crew.seen.goes_on.store(true, Relaxed);
    // A port goes while others hand frames over for it.
    let queues = crew.lcores.remove_port(PORTS[1]).await.expect("runs");
    assert!(queues.is_some(), "its home had them");
    drop(queues);
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(
        crew.lcores
            .remove_port(PORTS[1])
            .await
            .expect("runs")
            .is_none()
    );
    crew.lcores.stop().await;
    let (pool, cores) = crew.join();
    drop(cores);
    assert_eq!(
        pool.in_use(),
        0,
        "frames between lcores, too, are given back"
    );
}
