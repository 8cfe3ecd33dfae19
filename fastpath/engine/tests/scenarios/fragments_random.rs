//! Random packets in random pieces against a model that keeps one flag per byte; by one
//! engine, and by several that share the flows.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use penstock_engine::nic::{Op, Update};
use penstock_engine::{
    Config, Engine, Frame, NicConfig, Outbox, Outcome, Owner, PolicyChange, Ports, Release, Shard,
};
use penstock_flow::{Addr, Prefix};
use penstock_rules::Ruleset;
use penstock_rules::model::Direction;
use proptest::prelude::*;

use crate::bed::frames::{Headers, Layer4, build};
use crate::bed::pieces::{Cut, body, carried, piece};
use crate::bed::world::{
    self, BLUE, DEVICE, Place, UPLINK, group, put_group, rule, uplink_mac, vtep,
};
use crate::bed::{MS, SECOND, capacities, config};

/// The engines of one node, and the frames in their hands.
struct Node {
    engines: Vec<Engine>,
    waiting: Vec<BTreeMap<u32, Vec<u8>>>,
    outbox: Outbox,
    now: u64,
    delivered: Vec<(u32, Vec<u8>)>,
}

/// What is to be done by an engine.
enum Job {
    Frame(u32, Vec<u8>),
    Piece(u32, Ports, Vec<u8>),
    Resume(Release, Vec<u8>),
}

impl Node {
    fn new(shards: u16, limits: &Config) -> Self {
        let places = world::places();
        let engines: Vec<_> = (0..shards)
            .map(|index| {
                let mut engine = Engine::new(Config {
                    shard: Shard {
                        index,
                        count: shards,
                    },
                    ..limits.clone()
                });
                let nic = NicConfig {
                    device_id: DEVICE,
                    vtep: vtep(0),
                    uplink_port: UPLINK,
                    uplink_mac: uplink_mac(0),
                    underlay: Prefix::new(Addr::from_v4([192, 0, 2, 0]), 120).expect("a prefix"),
                    gateway: None,
                    mtu: 1500,
                    capacities: capacities(),
                    entry_write_ns: 0,
                };
                engine.attach_nic(nic).expect("attaches");
                for entry in world::entries(0, &places, vtep) {
                    let update = Update {
                        op: Op::Insert,
                        entry,
                    };
                    engine.write(DEVICE, &update).expect("writes");
                }
                let mut policy = world::policy(0, &places);
                let open = rule("open", Direction::Ingress, Some(17), &[(80, 80)], vec![]);
                put_group(&mut policy, 7, group(BLUE, true, false, vec![open]));
                for id in [1, 2, 5] {
                    policy.ports.get_mut(&id).expect("a port").groups = vec![7];
                }
                let rules = Ruleset::compile(policy).expect("compiles");
                engine.set_policy(100 * SECOND, PolicyChange::new(None, Arc::new(rules)));
                engine
            })
            .collect();
        Self {
            waiting: vec![BTreeMap::new(); engines.len()],
            engines,
            outbox: Outbox::new(),
            now: 100 * SECOND,
            delivered: Vec::new(),
        }
    }

    fn receive(&mut self, device_port: u32, frame: &[u8]) {
        self.now += MS / 10;
        let lcore = match self.engines[0].owner(device_port, frame) {
            Owner::Lcore(lcore) => usize::from(lcore),
            _ => 0,
        };
        self.run(lcore, Job::Frame(device_port, frame.to_vec()));
    }

    fn pass(&mut self, time: u64) {
        self.now += time;
        for lcore in 0..self.engines.len() {
            self.engines[lcore].tick(self.now, &mut self.outbox);
            self.outbox.clear();
            self.release(lcore);
        }
    }

    fn release(&mut self, lcore: usize) {
        while let Some(release) = self.engines[lcore].next_release() {
            let kept = self.waiting[lcore].remove(&release.place());
            let job = Job::Resume(release, kept.expect("a frame waits there"));
            self.run(lcore, job);
        }
    }

    fn run(&mut self, lcore: usize, job: Job) {
        let mut jobs = VecDeque::from([(lcore, job)]);
        while let Some((lcore, job)) = jobs.pop_front() {
            let engine = &mut self.engines[lcore];
            let (now, out) = (self.now, &mut self.outbox);
            let bytes = match &job {
                Job::Frame(_, bytes) | Job::Piece(_, _, bytes) | Job::Resume(_, bytes) => bytes,
            };
            let mut buffer = vec![0xee; 128];
            buffer.extend(bytes);
            buffer.resize(buffer.len() + 2048, 0xee);
            let mut frame = Frame::new(&mut buffer, 128, bytes.len()).expect("fits");
            let (port, outcome) = match &job {
                Job::Frame(port, _) => (*port, engine.process(now, *port, &mut frame, out)),
                Job::Piece(port, ports, _) => {
                    let outcome = engine.process_piece(now, *port, *ports, &mut frame, out);
                    assert!(
                        matches!(outcome, Outcome::Send { .. } | Outcome::Drop(_)),
                        "{outcome:?}"
                    );
                    (*port, outcome)
                }
                Job::Resume(release, _) => {
                    let outcome = engine.resume(now, *release, &mut frame, out);
                    assert!(!matches!(outcome, Outcome::Hold { .. }));
                    (release.device_port(), outcome)
                }
            };
            let after = frame.data().to_vec();
            match outcome {
                Outcome::Send { device_port } => self.delivered.push((device_port, after)),
                Outcome::Hold { place } => {
                    assert!(place < self.engines[lcore].places());
                    assert_eq!(after, *bytes, "as it came");
                    let before = self.waiting[lcore].insert(place, after);
                    assert_eq!(before, None, "the place is taken");
                }
                Outcome::HandOver { lcore, ports } => {
                    assert_eq!(after, *bytes, "as it came");
                    jobs.push_back((lcore.into(), Job::Piece(port, ports, after)));
                }
                Outcome::Drop(_) | Outcome::Consumed => {}
            }
            while let Some(release) = self.engines[lcore].next_release() {
                let kept = self.waiting[lcore].remove(&release.place());
                let kept = kept.expect("a frame waits there");
                jobs.push_back((lcore, Job::Resume(release, kept)));
            }
        }
        self.check();
    }

    /// Every frame is somewhere.
    fn check(&self) {
        let (mut received, mut ended) = (0, 0);
        for (engine, waiting) in self.engines.iter().zip(&self.waiting) {
            let c = engine.counters();
            assert_eq!(c.waiting, waiting.len() as u64);
            received += c.received.packets;
            ended += c.sent.packets + c.consumed + c.waiting + c.drops.iter().sum::<u64>();
        }
        assert_eq!(received, ended);
    }
}

/// A packet to be cut.
#[derive(Clone, Debug)]
struct Spec {
    /// Of the ports on node 0: a, b and e.
    from: usize,
    to: usize,
    v6: bool,
    allowed: bool,
    sport: u16,
    len: usize,
    id: u32,
    /// Where it is cut, in units of eight bytes.
    cuts: Vec<usize>,
}

/// What happens to the pieces of a packet.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// One more of its pieces.
    Piece(usize),
    /// Any range, maybe an overlap.
    Odd {
        begin: usize,
        len: usize,
        more: bool,
    },
    /// Everything is forgotten.
    Pause,
}

fn spec() -> impl Strategy<Value = Spec> {
    let ends = (
        0..3_usize,
        1..3_usize,
        any::<bool>(),
        prop::bool::weighted(0.8),
    );
    let cuts = prop::collection::vec(1..250_usize, 0..8);
    (ends, 1..4_u16, 16..2000_usize, 1..4_u32, cuts).prop_map(
        |((from, step, v6, allowed), sport, len, id, cuts)| Spec {
            from,
            to: (from + step) % 3,
            v6,
            allowed,
            sport: 40_000 + sport,
            len,
            id,
            cuts,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        60 => (0..10_usize).prop_map(Step::Piece),
        3 => (1..250_usize, 1..40_usize, any::<bool>()).prop_map(|(begin, len, more)| {
            // A whole header is the first piece's own.
            Step::Odd { begin: begin * 8, len: len * 8, more }
        }),
        1 => Just(Step::Pause),
    ]
}

impl Spec {
    fn frame(&self, places: &[Place]) -> Vec<u8> {
        let place = |i: usize| {
            let name = ["a", "b", "e"][i];
            places.iter().find(|p| p.name == name).expect("a port")
        };
        let (from, to) = (place(self.from), place(self.to));
        let h = Headers {
            src_mac: from.mac,
            dst_mac: if from.subnet == to.subnet {
                to.mac
            } else {
                penstock_flow::Mac::GATEWAY
            },
            vlan: from.vlan,
            src: from.ip(self.v6),
            dst: to.ip(self.v6),
            ttl: 64,
            l4: Layer4::Udp {
                sport: self.sport,
                dport: if self.allowed { 80 } else { 81 },
            },
        };
        let mut frame = build(&h, self.len);
        let payload = frame.len() - self.len;
        for (i, byte) in frame[payload..].iter_mut().enumerate() {
            *byte = (i * 7 + usize::from(self.sport)) as u8;
        }
        frame
    }

    fn pieces(&self, len: usize) -> Vec<Cut> {
        let mut at: Vec<usize> = self.cuts.iter().map(|c| c * 8).collect();
        at.push(8);
        at.retain(|c| *c < len);
        at.push(0);
        at.sort_unstable();
        at.dedup();
        let ends = at.iter().skip(1).copied().chain([len]);
        at.iter()
            .zip(ends)
            .map(|(&begin, end)| Cut {
                begin,
                end,
                more: end < len,
            })
            .collect()
    }
}

/// No piece ends behind this.
const MOST: usize = 4096;

/// What should be known of a packet: a flag per byte, and no thought of speed.
struct Known {
    bytes: Vec<bool>,
    cuts: Vec<Cut>,
    end: Option<usize>,
    first: bool,
    refused: bool,
    waiting: Vec<Cut>,
}

impl Known {
    fn new() -> Self {
        Self {
            bytes: vec![false; MOST],
            cuts: Vec::new(),
            end: None,
            first: false,
            refused: false,
            waiting: Vec::new(),
        }
    }

    /// What passes now, and whether all of it has come.
    fn meet(&mut self, cut: Cut) -> (Vec<Cut>, bool) {
        if self.refused || self.cuts.contains(&cut) {
            return (vec![], false);
        }
        let overlaps = self.bytes[cut.begin..cut.end].contains(&true);
        let highest = self.bytes.iter().rposition(|b| *b).map_or(0, |at| at + 1);
        let beyond = self.end.is_some_and(|end| cut.end > end || !cut.more);
        let inside = !cut.more && cut.end < highest;
        if overlaps || beyond || inside || self.cuts.len() == 64 {
            self.refused = true;
            self.waiting.clear();
            return (vec![], false);
        }
        self.bytes[cut.begin..cut.end].fill(true);
        self.cuts.push(cut);
        if !cut.more {
            self.end = Some(cut.end);
        }
        let mut passes = vec![];
        if self.first {
            passes.push(cut);
        } else if cut.begin == 0 {
            self.first = true;
            passes.push(cut);
            passes.append(&mut self.waiting);
        } else {
            self.waiting.push(cut);
        }
        let end = self.end.unwrap_or(usize::MAX);
        let whole = self.bytes.get(..end).is_some_and(|b| !b.contains(&false));
        (passes, whole)
    }
}

type Name = (usize, usize, bool, u32);

fn same(specs: &[Spec], steps: &[(usize, Step)], shards: u16) {
    let places = world::places();
    let mut node = Node::new(shards, &config());
    let mut known: BTreeMap<Name, (usize, Known)> = BTreeMap::new();
    for &(which, step) in steps {
        let which = which % specs.len();
        let spec = &specs[which];
        let frame = spec.frame(&places);
        let cuts = spec.pieces(body(&frame).len());
        let cut = match step {
            Step::Pause => {
                // Once for what waits, and once more for what was judged then.
                for _ in 0..2 {
                    node.pass(1100 * MS);
                    node.pass(3 * SECOND);
                }
                assert!(node.delivered.is_empty(), "nothing passes by itself");
                assert!(node.waiting.iter().all(BTreeMap::is_empty));
                known.clear();
                continue;
            }
            Step::Piece(i) => cuts[i % cuts.len()],
            Step::Odd { begin, len, more } => Cut {
                begin,
                end: begin + len,
                more,
            },
        };
        if cut
            == (Cut {
                begin: 0,
                end: cut.end,
                more: false,
            })
        {
            // Not cut at all.
            continue;
        }
        // Packets of one name are one to everybody. Two specs that share it, and do not
        // share their fate, would be judged by whose first piece comes: leave them out.
        let name = (spec.from, spec.to, spec.v6, spec.id);
        let (owner, entry) = known.entry(name).or_insert_with(|| (which, Known::new()));
        if *owner != which {
            continue;
        }
        let (passes, whole) = entry.meet(cut);
        // What is refused stays so for a while, whatever has come of it.
        if whole && spec.allowed {
            known.remove(&name);
        }
        let passes = if spec.allowed { passes } else { vec![] };
        let port = world::places()
            .iter()
            .find(|p| p.name == ["a", "b", "e"][spec.from])
            .map_or(0, Place::device_port);
        node.receive(port, &piece(&frame, spec.id, cut));
        let got: Vec<(Cut, Vec<u8>)> = node
            .delivered
            .drain(..)
            .map(|(_, frame)| carried(&frame).expect("a piece"))
            .collect();
        let mut whole_body = body(&frame).to_vec();
        whole_body.resize(MOST, 0);
        let want: Vec<(Cut, Vec<u8>)> = passes
            .iter()
            .map(|c| (*c, whole_body[c.begin..c.end].to_vec()))
            .collect();
        assert_eq!(got, want, "{shards} shards, {spec:?} {cut:?}");
    }
    node.pass(1100 * MS);
    assert!(node.waiting.iter().all(BTreeMap::is_empty));
}

/// With little room: nothing that should not pass does, and the room is enough.
fn bounded(specs: &[Spec], steps: &[(usize, Step)]) {
    let limits = Config {
        max_fragmented: 8,
        max_waiting_fragments: 6,
        ..config()
    };
    let places = world::places();
    let mut node = Node::new(1, &limits);
    for &(which, step) in steps {
        let spec = &specs[which % specs.len()];
        let frame = spec.frame(&places);
        let cuts = spec.pieces(body(&frame).len());
        let Step::Piece(i) = step else { continue };
        let cut = cuts[i % cuts.len()];
        let name = ["a", "b", "e"][spec.from];
        let port = places.iter().find(|p| p.name == name);
        let port = port.map_or(0, Place::device_port);
        // A name of its own for each, so that the table is always short of room.
        let id = spec.id + which as u32 * 8;
        node.receive(port, &piece(&frame, id, cut));
        assert!(node.waiting[0].len() <= 6);
        for (_, frame) in node.delivered.drain(..) {
            let ip = *penstock_flow::packet::parse(&frame)
                .expect("good")
                .ip()
                .expect("IP");
            assert!(ip.tuple.dport != 81, "denied");
        }
    }
    node.pass(1100 * MS);
    assert!(node.waiting[0].is_empty(), "no place leaks");
    assert_eq!(node.engines[0].counters().waiting, 0);
    // And all of the room is there again.
    node.pass(3 * SECOND);
    let spec = Spec {
        from: 0,
        to: 1,
        v6: false,
        allowed: true,
        sport: 1,
        len: 100,
        id: 9999,
        cuts: vec![1],
    };
    let frame = spec.frame(&places);
    let port = places[0].device_port();
    node.delivered.clear();
    for cut in spec.pieces(body(&frame).len()).into_iter().rev() {
        node.receive(port, &piece(&frame, 9999, cut));
    }
    assert_eq!(node.delivered.len(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn what_passes_is_what_the_model_lets_pass(
        specs in prop::collection::vec(spec(), 1..6),
        steps in prop::collection::vec((0..6_usize, step()), 1..120),
    ) {
        for shards in [1, 3] {
            same(&specs, &steps, shards);
        }
    }

    #[test]
    fn room_is_bounded_and_comes_back(
        specs in prop::collection::vec(spec(), 1..6),
        steps in prop::collection::vec((0..40_usize, step()), 1..300),
    ) {
        bounded(&specs, &steps);
    }
}
