//! The same two nodes with several engines each.
//!
//! Every engine is in a bed of its own, which has the engine with the same index of
//! both nodes. A frame is received by any of a node's engines and processed by its
//! owner, as a worker's lcores do it.

use penstock_engine::{Config, Counters, Frame, Outcome, Owner, Ports, Shard};
use penstock_flow::Mac;
use penstock_rules::model::Policy;

use super::world::UPLINK;
use super::{Bed, Fate, HEADROOM, MS, capacities, in_buffer, vlan_of};

pub(crate) struct Crowd {
    pub(crate) beds: Vec<Bed>,
    /// Frames that each engine wanted sent itself.
    pub(crate) own: Vec<u32>,
    /// Whether what is for everyone gets to everyone.
    pub(crate) overhear: bool,
    /// What has become of frames that had waited, oldest first.
    pub(crate) released: Vec<Fate>,
    /// Fragments that their home has handed over.
    pub(crate) pieces: u32,
    chance: u64,
}

impl Crowd {
    /// Everything open, as after the controller's writes, before the first tick.
    pub(crate) fn unresolved(count: u16, config: &Config, chance: u64) -> Self {
        let bed = |index| {
            let shard = Shard { index, count };
            let config = Config {
                shard,
                ..config.clone()
            };
            Bed::unresolved(config, capacities())
        };
        Self {
            beds: (0..count).map(bed).collect(),
            own: vec![0; usize::from(count)],
            overhear: true,
            released: Vec::new(),
            pieces: 0,
            chance,
        }
    }

    pub(crate) fn now(&self) -> u64 {
        self.beds[0].now
    }

    pub(crate) fn change(&mut self, change: impl Fn(usize, &mut Policy)) {
        for bed in &mut self.beds {
            bed.change(&change);
        }
    }

    /// One millisecond.
    pub(crate) fn tick(&mut self) {
        self.pass(MS);
        for node in 0..2 {
            for lcore in 0..self.beds.len() {
                let bed = &mut self.beds[lcore];
                let now = bed.now;
                let here = &mut bed.nodes[node];
                here.engine.tick(now, &mut here.outbox);
                self.drain(lcore, node);
                self.release(lcore, node);
            }
        }
        self.check();
    }

    /// Time goes by, and nothing looks at it.
    pub(crate) fn pass(&mut self, time: u64) {
        for bed in &mut self.beds {
            bed.now += time;
        }
    }

    /// A host sends a frame, which is then followed to its end.
    pub(crate) fn send(&mut self, from: &str, frame: &[u8]) -> Fate {
        let place = self.beds[0].place(from);
        let fate = self.arrive(place.node, place.device_port(), frame);
        self.check();
        fate
    }

    /// A frame arrives at a device port of a node, at one of its engines.
    pub(crate) fn arrive(&mut self, node: usize, device_port: u32, bytes: &[u8]) -> Fate {
        let received = self.any();
        let owner = self.beds[received].nodes[node]
            .engine
            .owner(device_port, bytes);
        let lcore = match owner {
            Owner::Here | Owner::Everyone => received,
            Owner::Lcore(lcore) => usize::from(lcore),
        };
        if let Owner::Lcore(lcore) = owner {
            assert_ne!(usize::from(lcore), received, "handed to itself");
        }
        if owner == Owner::Everyone && self.overhear {
            for (other, bed) in self.beds.iter_mut().enumerate() {
                if other != received {
                    let now = bed.now;
                    bed.nodes[node].engine.observe(now, device_port, bytes);
                }
            }
        }
        let (outcome, frame) = self.beds[lcore].process(node, device_port, bytes);
        if let Outcome::Hold { place } = outcome {
            let here = &mut self.beds[lcore].nodes[node];
            let before = here.waiting.insert(place, frame.clone());
            assert_eq!(before, None, "the place is taken");
        }
        self.drain(lcore, node);
        let fate = self.follow(lcore, node, device_port, outcome, frame);
        self.release(lcore, node);
        fate
    }

    fn follow(
        &mut self,
        lcore: usize,
        node: usize,
        received_on: u32,
        outcome: Outcome,
        frame: Vec<u8>,
    ) -> Fate {
        match outcome {
            Outcome::Drop(reason) => Fate::Dropped { node, reason },
            Outcome::Consumed => Fate::Consumed,
            Outcome::Hold { .. } => Fate::Waits { node },
            Outcome::HandOver { lcore: to, ports } => {
                assert_ne!(usize::from(to), lcore, "handed to itself");
                self.piece(to.into(), node, received_on, ports, &frame)
            }
            Outcome::Send {
                device_port: UPLINK,
            } => self.underlay(node, &frame),
            Outcome::Send { device_port } => {
                let here = (node, device_port, vlan_of(&frame));
                let places = &self.beds[0].places;
                let port = places
                    .iter()
                    .find(|p| (p.node, p.device_port(), p.vlan) == here)
                    .map_or("?", |p| p.name);
                Fate::Delivered { port, frame }
            }
        }
    }

    /// A fragment, as its home has handed it over.
    fn piece(
        &mut self,
        lcore: usize,
        node: usize,
        device_port: u32,
        ports: Ports,
        bytes: &[u8],
    ) -> Fate {
        self.pieces += 1;
        let (mut buffer, len) = in_buffer(bytes);
        let mut frame = Frame::new(&mut buffer, HEADROOM, len).expect("fits");
        let now = self.now();
        let here = &mut self.beds[lcore].nodes[node];
        let outcome =
            here.engine
                .process_piece(now, device_port, ports, &mut frame, &mut here.outbox);
        let frame = frame.data().to_vec();
        self.drain(lcore, node);
        if let Outcome::Hold { .. } | Outcome::HandOver { .. } = outcome {
            panic!("it goes further: {outcome:?}");
        }
        self.follow(lcore, node, device_port, outcome, frame)
    }

    /// What waits no longer goes on.
    fn release(&mut self, lcore: usize, node: usize) {
        let now = self.now();
        while let Some(release) = self.beds[lcore].nodes[node].engine.next_release() {
            let here = &mut self.beds[lcore].nodes[node];
            let kept = here.waiting.remove(&release.place());
            let (mut buffer, len) = in_buffer(&kept.expect("a frame waits there"));
            let mut frame = Frame::new(&mut buffer, HEADROOM, len).expect("fits");
            let device_port = release.device_port();
            let outcome = here
                .engine
                .resume(now, release, &mut frame, &mut here.outbox);
            let frame = frame.data().to_vec();
            self.drain(lcore, node);
            let fate = self.follow(lcore, node, device_port, outcome, frame);
            self.released.push(fate);
        }
    }

    /// What the engines of a node have counted together.
    pub(crate) fn counters(&self, node: usize) -> Counters {
        let mut sum = Counters::default();
        for bed in &self.beds {
            sum.merge(bed.counters(node));
        }
        sum
    }

    fn underlay(&mut self, from: usize, frame: &[u8]) -> Fate {
        let dst = Mac(frame[..6].try_into().expect("a frame"));
        let other = 1 - from;
        if dst.is_multicast() || dst == self.beds[0].macs[other] {
            self.arrive(other, UPLINK, frame)
        } else {
            Fate::Lost
        }
    }

    fn drain(&mut self, lcore: usize, node: usize) {
        let outbox = &mut self.beds[lcore].nodes[node].outbox;
        let frames: Vec<_> = outbox.frames().map(|(p, f)| (p, f.to_vec())).collect();
        outbox.clear();
        for (port, frame) in frames {
            self.own[lcore] += 1;
            // Others are for hosts, which do not answer.
            if port == UPLINK {
                self.underlay(node, &frame);
            }
        }
    }

    #[track_caller]
    fn check(&self) {
        for bed in &self.beds {
            bed.check();
        }
    }

    fn any(&mut self) -> usize {
        // Knuth's constants; the high bits are the random ones.
        self.chance = self
            .chance
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.chance >> 33) as usize % self.beds.len()
    }
}
