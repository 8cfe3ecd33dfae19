//! `make bench-smoke`: packets per second of one polling thread.
//!
//! The loop, the engine and the buffers are the worker's own ([`lcore::run`]);
//! only the ports are made up: they fill fresh buffers from a template instead
//! of reading a device, and free what is sent. What that costs is the row
//! `source`. Frames are 64 bytes, UDP over IPv4, between two ports of one node;
//! flows come in turn, so every packet meets another flow than the one before.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use anyhow::{Context as _, bail};
use dpdk::{Burst, Eal, EalConfig, Mempool, PoolConfig};
use penstock_engine::nic::{Capacities, Entry, Hop, Op, Update};
use penstock_engine::{Config, Engine, NicConfig, PolicyChange};
use penstock_flow::{Addr, Mac, Prefix};
use penstock_rules::Ruleset;
use penstock_rules::model::{self, Direction, Policy};
use penstock_worker::lcore::{self, Clock, Core, Queues};
use penstock_worker::mailbox;

const RUNS: usize = 5;
const FLOWS: u32 = 10_000;
const WARM_UP: u64 = 4 * FLOWS as u64;
const ESTABLISHED: u64 = 10_000_000;
const FIRST: u64 = 500_000;
const VNI: u32 = 1001;
const UPLINK: u32 = 1;
const PORTS: [u32; 2] = [2, 3];

fn main() -> anyhow::Result<()> {
    let eal = Eal::init(&EalConfig::new().no_huge(true).memory_mib(256))?;
    let pool = Mempool::new(
        &eal,
        "frames",
        &PoolConfig {
            mbufs: 16_383,
            ..PoolConfig::default()
        },
    )?;
    let json = std::env::var("JSON").is_ok_and(|v| !v.is_empty());
    let cases: [(&str, Case); 3] = [
        (
            "established",
            Case {
                flows: FLOWS,
                warm_up: WARM_UP,
                frames: ESTABLISHED,
                nic: true,
            },
        ),
        (
            "established-software",
            Case {
                flows: FLOWS,
                warm_up: WARM_UP,
                frames: ESTABLISHED,
                nic: false,
            },
        ),
        (
            "first-packet",
            Case {
                flows: u32::MAX,
                warm_up: 0,
                frames: FIRST,
                nic: true,
            },
        ),
    ];
    if !json {
        println!(
            "one polling thread, 64-byte UDP/IPv4, {FLOWS} established flows; measured, {RUNS} runs"
        );
    }
    // One after the other, round by round, so that a noisy moment hits all.
    let mut rates = vec![Vec::new(); cases.len()];
    let mut source = Vec::new();
    for _ in 0..RUNS {
        for (rates, (name, case)) in rates.iter_mut().zip(&cases) {
            rates.push(case.run(&eal, pool).with_context(|| (*name).to_owned())?);
        }
        source.push(source_alone(&eal, pool)?);
    }
    for (rates, (name, _)) in rates.into_iter().zip(&cases) {
        print(json, name, "rate", "Mpps", rates);
    }
    print(json, "source", "cost", "ns", source);
    Ok(())
}

/// A load and what it runs on.
#[derive(Clone, Copy)]
struct Case {
    /// Tuples in turn.
    flows: u32,
    /// Frames before the clock starts.
    warm_up: u64,
    /// Frames that are timed.
    frames: u64,
    /// Whether the soft NIC's flow table takes established flows.
    nic: bool,
}

impl Case {
    /// Mpps.
    fn run(self, eal: &Eal, pool: Mempool) -> anyhow::Result<f64> {
        let meter = Arc::new(Meter::default());
        let clock = Clock::start();
        let mut core = self.core(clock, pool)?;
        for (way, number) in PORTS.into_iter().enumerate() {
            // First packets go one way only: answers would be second packets.
            let quota = if way == 1 && self.flows == u32::MAX {
                0
            } else {
                self.warm_up + self.frames
            };
            let source = Source::new(pool, way == 1, self.flows, quota, Arc::clone(&meter));
            core.add_port(number, Box::new(source))?;
        }
        let (handle, receiver) = mailbox::channel::<Core>();
        let thread = dpdk::launch(eal, "bench", None, move || lcore::run(core, receiver))?;
        let expected = if self.flows == u32::MAX {
            self.frames
        } else {
            2 * (self.warm_up + self.frames)
        };
        let time = meter.time(2 * self.warm_up, expected)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()?;
        let traffic = runtime.block_on(handle.call(|core: &mut Core| {
            core.stop();
            let counters = core.engine.counters();
            (
                counters.nic.packets,
                counters.slow.packets,
                counters.connections.opened,
            )
        }))?;
        drop(thread.join()?);
        self.check(expected, meter.sent.load(Relaxed), traffic)?;
        let timed = expected - 2 * self.warm_up;
        Ok(timed as f64 / time / 1e6)
    }

    /// A run that did something else than its name says must not print a figure.
    fn check(
        self,
        expected: u64,
        sent: u64,
        (nic, slow, opened): (u64, u64, u64),
    ) -> anyhow::Result<()> {
        if sent != expected {
            bail!("{sent} of {expected} frames were forwarded");
        }
        let first = self.flows == u32::MAX;
        let is_as_named = match (first, self.nic) {
            (true, _) => opened >= expected && slow >= expected,
            (false, true) => nic as f64 > 0.99 * (expected - 4 * u64::from(FLOWS)) as f64,
            (false, false) => nic == 0 && slow >= expected,
        };
        if !is_as_named {
            bail!(
                "the packets took another way: {nic} NIC, {slow} slow path, {opened} connections"
            );
        }
        Ok(())
    }

    fn core(self, clock: Clock, pool: Mempool) -> anyhow::Result<Core> {
        let mut engine = Engine::new(Config {
            max_connections: 1 << 21,
            max_connections_per_port: 1 << 21,
            max_device_ports: 8,
            seed: RandomState::new().hash_one(0),
            ..Config::default()
        });
        let v4 = |last| Addr::from_v4([10, 0, 0, last]);
        engine.attach_nic(NicConfig {
            device_id: 1,
            vtep: Addr::from_v4([192, 168, 50, 1]),
            uplink_port: UPLINK,
            uplink_mac: Mac([2, 0, 0, 0, 0, 1]),
            underlay: Prefix::new(Addr::from_v4([192, 168, 50, 0]), 120).context("a prefix")?,
            gateway: None,
            mtu: 1600,
            capacities: Capacities {
                flow: if self.nic { 1 << 17 } else { 0 },
                ..Capacities::default()
            },
            entry_write_ns: 0,
        })?;
        for (index, device_port) in (0..).zip(PORTS) {
            let (id, ip) = (u32::from(index) + 1, v4(index + 1));
            let mac = mac(index);
            let hop = Hop::ToPort {
                device_port,
                vlan: 0,
                dst_mac: mac,
            };
            let dst = Prefix::new(ip, 128).context("a prefix")?;
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
                    dst,
                    nexthop: id,
                },
            ] {
                engine.write(
                    1,
                    &Update {
                        op: Op::Insert,
                        entry,
                    },
                )?;
            }
        }
        let ruleset = Arc::new(Ruleset::compile(policy())?);
        let (mut core, _attic) = Core::new(engine, clock, Some(pool), 8);
        core.set_policy(PolicyChange::new(None, ruleset));
        Ok(core)
    }
}

/// Two ports of one group that may send each other UDP.
fn policy() -> Policy {
    let group = "tenants/t/vpcs/v/securityGroups/g";
    let rule = |direction, name: &str| model::Rule {
        protocol: Some(model::Protocol::Number(17)),
        ports: vec![(1, u16::MAX)],
        peers: model::Peers::Any(vec![model::Peer::Group(1)]),
        ..model::Rule::allow(format!("{group}/rules/{name}"), direction)
    };
    let mut policy = Policy {
        generation: 1,
        ..Policy::default()
    };
    policy.vpcs.insert(
        VNI,
        model::Vpc {
            name: "tenants/t/vpcs/v".into(),
            default_allow: false,
            peers: std::collections::BTreeSet::new(),
        },
    );
    policy.groups.insert(
        1,
        model::Group {
            name: group.into(),
            vni: VNI,
        },
    );
    policy.lists.insert(
        1,
        model::List {
            selects_ingress: true,
            selects_egress: true,
            rules: vec![
                rule(Direction::Ingress, "in"),
                rule(Direction::Egress, "out"),
            ],
            ..model::List::of_group(group.into(), VNI, 1)
        },
    );
    policy.subnets.insert(
        1,
        model::Subnet {
            name: "tenants/t/vpcs/v/subnets/s".into(),
            vni: VNI,
            prefixes: Prefix::new(Addr::from_v4([10, 0, 0, 0]), 120)
                .into_iter()
                .collect(),
            gateways: vec![Addr::from_v4([10, 0, 0, 254])],
            mtu: 1500,
        },
    );
    for index in 0..2 {
        let (id, ip, mac) = (
            u32::from(index) + 1,
            Addr::from_v4([10, 0, 0, index + 1]),
            mac(index),
        );
        policy.endpoints.insert(
            (VNI, ip),
            model::Endpoint {
                mac,
                port: id,
                groups: vec![1],
            },
        );
        policy.ports.insert(
            id,
            model::Port {
                name: format!("tenants/t/vpcs/v/ports/p{index}"),
                vni: VNI,
                subnet: 1,
                device_id: 1,
                attachment: format!("p{index}"),
                vlan: 0,
                mac,
                ips: vec![ip],
                groups: vec![1],
            },
        );
    }
    policy
}

fn mac(index: u8) -> Mac {
    Mac([2, 0, 0, 0, 1, index + 1])
}

/// What both sources have sent and got rid of, seen by the main thread.
#[derive(Debug, Default)]
struct Meter {
    received: AtomicU64,
    sent: AtomicU64,
}

impl Meter {
    /// Seconds from `from` frames received to `to` frames sent.
    fn time(&self, from: u64, to: u64) -> anyhow::Result<f64> {
        let deadline = Instant::now() + std::time::Duration::from_secs(120);
        let wait = |counter: &AtomicU64, goal: u64| {
            while counter.load(Relaxed) < goal {
                if Instant::now() > deadline {
                    bail!(
                        "{} of {goal} frames after two minutes",
                        counter.load(Relaxed)
                    );
                }
                std::thread::sleep(std::time::Duration::from_micros(100));
            }
            anyhow::Ok(Instant::now())
        };
        let begin = wait(&self.received, from.max(1))?;
        Ok((wait(&self.sent, to)? - begin).as_secs_f64())
    }
}

/// A port that fills buffers from a template, and frees what it is to send.
#[derive(Debug)]
struct Source {
    pool: Mempool,
    template: [u8; 60],
    back: bool,
    flows: u32,
    next: u32,
    left: u64,
    meter: Arc<Meter>,
}

impl Source {
    fn new(pool: Mempool, back: bool, flows: u32, left: u64, meter: Arc<Meter>) -> Self {
        let (from, to) = if back { (1, 0) } else { (0, 1) };
        let mut template = [0; 60];
        template[..6].copy_from_slice(&mac(to).0);
        template[6..12].copy_from_slice(&mac(from).0);
        template[12..14].copy_from_slice(&[8, 0]);
        // IPv4, 46 bytes, TTL 64, UDP, and a UDP header without checksum.
        template[14..24].copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17]);
        template[26..30].copy_from_slice(&[10, 0, 0, from + 1]);
        template[30..34].copy_from_slice(&[10, 0, 0, to + 1]);
        template[38..40].copy_from_slice(&[0, 26]);
        let sum: u32 = template[14..34]
            .chunks(2)
            .map(|b| u32::from(u16::from_be_bytes([b[0], b[1]])))
            .sum();
        let sum = (sum & 0xffff) + (sum >> 16);
        template[24..26].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        Self {
            pool,
            template,
            back,
            flows,
            next: 0,
            left,
            meter,
        }
    }
}

impl Queues for Source {
    fn receive(&mut self, burst: &mut Burst, most: usize) -> usize {
        let count = most.min(usize::try_from(self.left).unwrap_or(most));
        if count == 0 || !self.pool.alloc_into(burst, count) {
            return 0;
        }
        for mbuf in burst.iter_mut() {
            let flow = self.next;
            self.next = if self.next + 1 == self.flows {
                0
            } else {
                self.next + 1
            };
            let near = (1000 + flow % 50_000) as u16;
            let far = (1 + flow / 50_000) as u16;
            let (sport, dport) = if self.back { (far, near) } else { (near, far) };
            self.template[34..36].copy_from_slice(&sport.to_be_bytes());
            self.template[36..38].copy_from_slice(&dport.to_be_bytes());
            if mbuf.fill(&self.template).is_err() {
                return 0;
            }
        }
        self.left -= count as u64;
        self.meter.received.fetch_add(count as u64, Relaxed);
        count
    }

    fn send(&mut self, burst: &mut Burst) -> usize {
        let count = burst.len();
        burst.clear();
        self.meter.sent.fetch_add(count as u64, Relaxed);
        count
    }
}

/// Nanoseconds per frame of the made-up ports themselves.
fn source_alone(eal: &Eal, pool: Mempool) -> anyhow::Result<f64> {
    let thread = dpdk::launch(eal, "bench", None, move || {
        let mut source = Source::new(pool, false, FLOWS, ESTABLISHED, Arc::new(Meter::default()));
        let mut burst = Burst::new();
        let begin = Instant::now();
        while source.receive(&mut burst, 32) > 0 {
            source.send(&mut burst);
        }
        begin.elapsed().as_nanos() as f64 / ESTABLISHED as f64
    })?;
    Ok(thread.join()?)
}

fn print(json: bool, case: &str, metric: &str, unit: &str, mut values: Vec<f64>) {
    values.sort_by(f64::total_cmp);
    let (min, value, max) = (
        values[0],
        values[values.len() / 2],
        values[values.len() - 1],
    );
    if json {
        println!(
            r#"{{"bench":"smoke","case":"{case}","metric":"{metric}","value":{value:.4},"unit":"{unit}","label":"measured","min":{min:.4},"max":{max:.4},"runs":{RUNS}}}"#
        );
    } else {
        println!("{case:22} {metric:5} {value:8.2} {unit}   ({min:.2} - {max:.2})");
    }
}
