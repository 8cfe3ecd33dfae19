//! Two engines and a wire between them, in memory.
//!
//! The bed plays controller, hosts and underlay: it writes the tables, hands
//! frames over, and follows each frame to its end. After every step it checks
//! that no frame has vanished unaccounted.
#![allow(dead_code, reason = "each test program uses a part of the bed")]

pub(crate) mod crowd;
pub(crate) mod frames;
pub(crate) mod pieces;
pub(crate) mod talk;
pub(crate) mod world;

use std::collections::BTreeMap;
use std::sync::Arc;

use penstock_engine::nic::{Capacities, Entry, Op, Update};
use penstock_engine::{Config, Engine, Frame, NicConfig, Outbox, Outcome, PolicyChange};
use penstock_flow::{Addr, DropReason, Mac, Prefix};
use penstock_rules::Ruleset;
use penstock_rules::model::Policy;

use world::{DEVICE, Place, UPLINK, uplink_mac, vtep};

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1000 * MS;
pub(crate) const HEADROOM: usize = 128;
const TAILROOM: usize = 2048;

/// How a frame ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// A host has it; maybe its sender, as an answer.
    Delivered {
        port: &'static str,
        frame: Vec<u8>,
    },
    Dropped {
        node: usize,
        reason: DropReason,
    },
    Consumed,
    /// It waits there; what becomes of it is in `Bed::released`.
    Waits {
        node: usize,
    },
    /// It left on an uplink for someone who is not here.
    Lost,
}

impl Fate {
    /// Dropped on `node` for want of room.
    pub(crate) const fn full(node: usize) -> Self {
        Self::Dropped {
            node,
            reason: DropReason::TableFull,
        }
    }

    pub(crate) fn at(&self) -> &'static str {
        match self {
            Self::Delivered { port, .. } => port,
            _ => "",
        }
    }

    pub(crate) fn reason(&self) -> Option<DropReason> {
        match self {
            Self::Dropped { reason, .. } => Some(*reason),
            _ => None,
        }
    }

    #[track_caller]
    pub(crate) fn frame(&self) -> &[u8] {
        match self {
            Self::Delivered { frame, .. } => frame,
            other => panic!("not delivered: {other:?}"),
        }
    }
}

pub(crate) struct Node {
    pub(crate) engine: Engine,
    pub(crate) outbox: Outbox,
    pub(crate) policy: Policy,
    /// Frames that wait, by place.
    pub(crate) waiting: BTreeMap<u32, Vec<u8>>,
}

pub(crate) struct Bed {
    pub(crate) nodes: Vec<Node>,
    pub(crate) places: Vec<Place>,
    pub(crate) now: u64,
    pub(crate) macs: [Mac; 2],
    /// What the engines have told ports by themselves: node, device port, frame.
    pub(crate) told: Vec<(usize, u32, Vec<u8>)>,
    /// What has become of frames that had waited, oldest first.
    pub(crate) released: Vec<Fate>,
}

pub(crate) fn config() -> Config {
    Config {
        seed: 0x5eed,
        max_connections: 256,
        sweep_slice: 64,
        max_device_ports: 64,
        ..Config::default()
    }
}

pub(crate) fn capacities() -> Capacities {
    Capacities {
        vport: 16,
        underlay: 16,
        spoof_guard: 32,
        fence: 4,
        flow: 64,
        acl: 16,
        mapping: 64,
        nexthop: 32,
        ..Capacities::default()
    }
}

impl Bed {
    /// Everything open, neighbours resolved.
    pub(crate) fn new() -> Self {
        Self::with(config(), capacities())
    }

    pub(crate) fn with(config: Config, capacities: Capacities) -> Self {
        let mut bed = Self::unresolved(config, capacities);
        bed.tick();
        bed
    }

    /// As after the controller's writes, before the first tick.
    pub(crate) fn unresolved(config: Config, capacities: Capacities) -> Self {
        let underlay = Prefix::new(Addr::from_v4([192, 0, 2, 0]), 120).expect("a prefix");
        Self::over(config, capacities, vtep, underlay, 0)
    }

    /// With IPv6 outside.
    pub(crate) fn over_v6() -> Self {
        let underlay = Prefix::new(world::addr("2001:db8::"), 64).expect("a prefix");
        let mut bed = Self::over(config(), capacities(), world::vtep6, underlay, 0);
        bed.tick();
        bed
    }

    /// With NICs that take their time for each entry.
    pub(crate) fn slow(config: Config, capacities: Capacities, entry_write_ns: u64) -> Self {
        let underlay = Prefix::new(Addr::from_v4([192, 0, 2, 0]), 120).expect("a prefix");
        let mut bed = Self::over(config, capacities, vtep, underlay, entry_write_ns);
        bed.tick();
        bed
    }

    fn over(
        config: Config,
        capacities: Capacities,
        vtep: fn(usize) -> Addr,
        underlay: Prefix,
        entry_write_ns: u64,
    ) -> Self {
        let places = world::places();
        let nodes = (0..2)
            .map(|n| {
                let mut engine = Engine::new(config.clone());
                engine
                    .attach_nic(NicConfig {
                        device_id: DEVICE,
                        vtep: vtep(n),
                        uplink_port: UPLINK,
                        uplink_mac: uplink_mac(n),
                        underlay,
                        gateway: None,
                        mtu: 1500,
                        capacities,
                        entry_write_ns,
                    })
                    .expect("attaches");
                for entry in world::entries(n, &places, vtep) {
                    engine
                        .write(
                            DEVICE,
                            &Update {
                                op: Op::Insert,
                                entry,
                            },
                        )
                        .unwrap_or_else(|e| panic!("{entry:?}: {e}"));
                }
                Node {
                    engine,
                    outbox: Outbox::new(),
                    policy: world::policy(n, &places),
                    waiting: BTreeMap::new(),
                }
            })
            .collect();
        let mut bed = Self {
            nodes,
            places,
            now: 100 * SECOND,
            macs: [uplink_mac(0), uplink_mac(1)],
            told: Vec::new(),
            released: Vec::new(),
        };
        bed.push_policies();
        bed
    }

    pub(crate) fn place(&self, name: &str) -> Place {
        let found = self.places.iter().find(|p| p.name == name);
        found.unwrap_or_else(|| panic!("no port {name}")).clone()
    }

    pub(crate) fn write(&mut self, node: usize, op: Op, entry: Entry) {
        self.nodes[node]
            .engine
            .write(DEVICE, &Update { op, entry })
            .unwrap_or_else(|e| panic!("{op:?} {entry:?}: {e}"));
    }

    /// Changes the policy of all nodes; each gets the next generation.
    pub(crate) fn change(&mut self, change: impl Fn(usize, &mut Policy)) {
        for (n, node) in self.nodes.iter_mut().enumerate() {
            change(n, &mut node.policy);
            node.policy.generation += 1;
        }
        self.push_policies();
    }

    fn push_policies(&mut self) {
        for node in &mut self.nodes {
            let rules = Ruleset::compile(node.policy.clone()).expect("compiles");
            let change = PolicyChange::new(node.engine.ruleset(), Arc::new(rules));
            node.engine.set_policy(self.now, change);
        }
    }

    /// One millisecond: timers, and what the engines want to send.
    pub(crate) fn tick(&mut self) {
        self.now += MS;
        for n in 0..self.nodes.len() {
            let node = &mut self.nodes[n];
            node.engine.tick(self.now, &mut node.outbox);
            self.drain(n);
            self.release(n);
        }
        self.check();
    }

    /// Until nothing is behind a fence and no write is on its way.
    #[track_caller]
    pub(crate) fn settle(&mut self) {
        for _ in 0..5000 {
            let rests = |node: &Node| {
                node.engine.fenced().is_none()
                    && node.engine.fences_stand()
                    && node.engine.pending_writes(DEVICE) == Some(0)
            };
            if self.nodes.iter().all(rests) {
                return;
            }
            self.tick();
        }
        panic!(
            "it does not come to rest: {:?}",
            self.nodes[0].engine.fenced()
        );
    }

    pub(crate) fn wait(&mut self, time: u64) {
        // Wheels are exact to a tick; between there is nothing to see.
        let end = self.now + time;
        for _ in 0..8 {
            self.now += time / 8;
            self.now = self.now.min(end);
            self.tick();
        }
    }

    pub(crate) fn drain(&mut self, n: usize) {
        let frames: Vec<(u32, Vec<u8>)> = self.nodes[n]
            .outbox
            .frames()
            .map(|(p, f)| (p, f.to_vec()))
            .collect();
        self.nodes[n].outbox.clear();
        for (port, frame) in frames {
            if port == UPLINK {
                self.underlay(n, &frame);
            } else {
                self.told.push((n, port, frame));
            }
        }
    }

    /// A host sends a frame, which is then followed to its end.
    pub(crate) fn send(&mut self, from: &str, frame: &[u8]) -> Fate {
        let place = self.place(from);
        let fate = self.arrive(place.node, place.device_port(), frame);
        self.check();
        fate
    }

    /// A frame arrives at a device port of a node.
    pub(crate) fn arrive(&mut self, n: usize, device_port: u32, bytes: &[u8]) -> Fate {
        let (outcome, frame) = self.process(n, device_port, bytes);
        if let Outcome::Hold { place } = outcome {
            assert!(place < self.nodes[n].engine.places());
            let before = self.nodes[n].waiting.insert(place, frame.clone());
            assert_eq!(before, None, "the place is taken");
        }
        self.drain(n);
        let fate = self.follow(n, outcome, frame);
        self.release(n);
        fate
    }

    fn follow(&mut self, n: usize, outcome: Outcome, frame: Vec<u8>) -> Fate {
        match outcome {
            Outcome::Drop(reason) => Fate::Dropped { node: n, reason },
            Outcome::Consumed => Fate::Consumed,
            Outcome::Hold { .. } => Fate::Waits { node: n },
            Outcome::HandOver { .. } => panic!("a node has one engine here"),
            Outcome::Send {
                device_port: UPLINK,
            } => self.underlay(n, &frame),
            Outcome::Send { device_port } => {
                let vlan = vlan_of(&frame);
                let port = self
                    .places
                    .iter()
                    .find(|p| (p.node, p.device_port(), p.vlan) == (n, device_port, vlan))
                    .map_or("?", |p| p.name);
                Fate::Delivered { port, frame }
            }
        }
    }

    /// What waits no longer goes on.
    fn release(&mut self, n: usize) {
        while let Some(release) = self.nodes[n].engine.next_release() {
            let kept = self.nodes[n].waiting.remove(&release.place());
            let (mut buffer, len) = in_buffer(&kept.expect("a frame waits there"));
            let mut frame = Frame::new(&mut buffer, HEADROOM, len).expect("fits");
            let node = &mut self.nodes[n];
            let outcome = node
                .engine
                .resume(self.now, release, &mut frame, &mut node.outbox);
            assert!(!matches!(outcome, Outcome::Hold { .. }), "waits again");
            let frame = frame.data().to_vec();
            self.drain(n);
            let fate = self.follow(n, outcome, frame);
            self.released.push(fate);
        }
    }

    pub(crate) fn process(
        &mut self,
        n: usize,
        device_port: u32,
        bytes: &[u8],
    ) -> (Outcome, Vec<u8>) {
        let (mut buffer, len) = in_buffer(bytes);
        let mut frame = Frame::new(&mut buffer, HEADROOM, len).expect("fits");
        let node = &mut self.nodes[n];
        let outcome = node
            .engine
            .process(self.now, device_port, &mut frame, &mut node.outbox);
        (outcome, frame.data().to_vec())
    }

    /// The wire: a switch that knows the uplinks' MACs.
    fn underlay(&mut self, from: usize, frame: &[u8]) -> Fate {
        let dst = Mac(frame[..6].try_into().expect("a frame"));
        let other = 1 - from;
        if dst.is_multicast() || dst == self.macs[other] {
            self.arrive(other, UPLINK, frame)
        } else {
            Fate::Lost
        }
    }

    /// In = sent + dropped + consumed + waiting, on every node.
    #[track_caller]
    pub(crate) fn check(&self) {
        for node in &self.nodes {
            let c = node.engine.counters();
            let dropped: u64 = c.drops.iter().sum();
            assert_eq!(
                c.received.packets,
                c.sent.packets + dropped + c.consumed + c.waiting,
                "{c:?}"
            );
            assert_eq!(
                c.sent.packets,
                c.nic.packets + c.slow.packets + c.answered,
                "{c:?}"
            );
            assert_eq!(c.waiting, node.waiting.len() as u64);
            let mut live = 0;
            node.engine.visit_flows(self.now, None, &mut |record| {
                live += 1;
                // Found by what either end sends. A few are enough: this is asked often.
                let both = [Some(record.tuple), record.tuple.reply()];
                for tuple in both.into_iter().filter(|_| live <= 2) {
                    let found = tuple.map(|tuple| node.engine.flow(self.now, record.port, &tuple));
                    let found = found.map(|flow| flow.map(|flow| (flow.tuple, flow.state)));
                    assert!(found.is_none_or(|f| f == Some((record.tuple, record.state))));
                }
                true
            });
            assert_eq!(c.connections.live, live);
            let mut entries = 0;
            node.engine
                .visit_flow_entries(self.now, DEVICE, &mut |_| entries += 1);
            if node.engine.pending_writes(DEVICE) == Some(0) {
                assert_eq!(c.offload.live * 2, entries);
            }
        }
    }

    pub(crate) fn counters(&self, node: usize) -> &penstock_engine::Counters {
        self.nodes[node].engine.counters()
    }
}

/// A buffer with room around the frame, and the frame's length.
pub(crate) fn in_buffer(bytes: &[u8]) -> (Vec<u8>, usize) {
    let mut buffer = vec![0xee; HEADROOM + bytes.len() + TAILROOM];
    buffer[HEADROOM..HEADROOM + bytes.len()].copy_from_slice(bytes);
    (buffer, bytes.len())
}

fn vlan_of(frame: &[u8]) -> u16 {
    if frame.get(12..14) == Some(&[0x81, 0]) {
        u16::from_be_bytes([frame[14], frame[15]]) & 0xfff
    } else {
        0
    }
}
