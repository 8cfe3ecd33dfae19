//! Several engines of one worker against one: the same packets, the same ends, the
//! same bytes, whichever engine receives them.

use penstock_engine::Owner;
use penstock_engine::counters::{Offload, Traffic};
use penstock_flow::build::{Encap, Template};
use penstock_flow::{Addr, DropReason};
use proptest::collection::vec;
use proptest::prelude::*;

use super::errors::unreachable;
use crate::bed::crowd::Crowd;
use crate::bed::frames::{ACK, FIN, Layer4, RST, SYN, build};
use crate::bed::pieces::{evenly, piece};
use crate::bed::talk::Talk;
use crate::bed::world::{BLUE, RED, UPLINK, gateway, uplink_mac, vtep};
use crate::bed::{Bed, Fate, MS, SECOND, capacities, config};

const NAMES: [&str; 7] = ["a", "b", "c", "d", "e", "x", "y"];

const ORDERS: [[usize; 3]; 6] = [
    [0, 1, 2],
    [0, 2, 1],
    [1, 0, 2],
    [1, 2, 0],
    [2, 0, 1],
    [2, 1, 0],
];

#[derive(Clone, Debug)]
struct Pair {
    from: usize,
    to: usize,
    v6: bool,
    /// One of a few ports.
    port: u16,
}

#[derive(Clone, Debug)]
enum Step {
    /// TCP opened, and data both ways.
    Open(Pair),
    /// One packet of it, in whichever direction.
    One(Pair, u8, bool),
    /// An error about the frame delivered so long ago, from its receiver.
    Unreachable(usize),
    /// To the gateway.
    Ping(Pair),
    /// In fragments, in one of their orders.
    Pieces(Pair, u8, bool, usize),
    /// Like `One`, then damaged, maybe cut.
    Damaged(Pair, u8, Vec<(u16, u8)>, Option<u8>),
    /// In a tunnel from the other node, or one that says so.
    Tunnel(Pair, u8, u16),
    /// All closed to new connections, or all open.
    Policy(bool),
    Wait(u64),
}

fn any_pair() -> impl Strategy<Value = Pair> {
    (0..7_usize, 0..7_usize, any::<bool>(), 0..6_u16).prop_map(|(from, to, v6, port)| Pair {
        from,
        to,
        v6,
        port,
    })
}

fn any_step() -> impl Strategy<Value = Step> {
    let damage = vec((any::<u16>(), any::<u8>()), 1..3);
    prop_oneof![
        4 => any_pair().prop_map(Step::Open),
        8 => (any_pair(), any::<u8>(), any::<bool>()).prop_map(|(p, k, b)| Step::One(p, k, b)),
        3 => (0..8_usize).prop_map(Step::Unreachable),
        1 => any_pair().prop_map(Step::Ping),
        2 => (any_pair(), any::<u8>(), damage, any::<Option<u8>>())
            .prop_map(|(p, k, d, c)| Step::Damaged(p, k, d, c)),
        2 => (any_pair(), any::<u8>(), any::<u16>()).prop_map(|(p, k, s)| Step::Tunnel(p, k, s)),
        3 => (any_pair(), any::<u8>(), any::<bool>(), 0..ORDERS.len())
            .prop_map(|(p, k, b, o)| Step::Pieces(p, k, b, o)),
        1 => any::<bool>().prop_map(Step::Policy),
        1 => (0..20_u64).prop_map(Step::Wait),
    ]
}

impl Pair {
    fn talk(&self) -> Talk {
        Talk {
            v6: self.v6,
            sport: 40_000 + self.port,
            ..Talk::new(NAMES[self.from], NAMES[self.to])
        }
    }

    /// One frame; who sends it.
    fn frame(&self, bed: &Bed, kind: u8, back: bool) -> (&'static str, Vec<u8>) {
        self.frame_of(bed, kind, back, 40)
    }

    fn frame_of(&self, bed: &Bed, kind: u8, back: bool, len: usize) -> (&'static str, Vec<u8>) {
        let talk = self.talk();
        let (mut sport, mut dport) = (talk.sport, talk.dport);
        if back {
            (sport, dport) = (dport, sport);
        }
        let (seq, ack) = if back { (5001, 1001) } else { (1001, 5001) };
        let l4 = match kind % 8 {
            0 => Layer4::Udp { sport, dport },
            1 => Layer4::Echo {
                id: talk.sport,
                reply: back,
            },
            n => Layer4::Tcp {
                sport,
                dport,
                flags: [SYN, SYN | ACK, ACK, ACK | FIN, RST, 0][usize::from(n) - 2],
                seq,
                ack,
            },
        };
        let sender = if back { talk.b } else { talk.a };
        (sender, build(&talk.headers(bed, back, l4), len))
    }

    fn handshake(&self, bed: &Bed) -> Vec<(&'static str, Vec<u8>)> {
        let talk = self.talk();
        [
            (false, SYN, 1000, 0),
            (true, SYN | ACK, 5000, 1001),
            (false, ACK, 1001, 5001),
            (true, ACK, 5001, 1001),
        ]
        .map(|(back, flags, seq, ack)| {
            let (mut sport, mut dport) = (talk.sport, talk.dport);
            if back {
                (sport, dport) = (dport, sport);
            }
            let l4 = Layer4::Tcp {
                sport,
                dport,
                flags,
                seq,
                ack,
            };
            let frame = build(&talk.headers(bed, back, l4), 10);
            (if back { talk.b } else { talk.a }, frame)
        })
        .into()
    }
}

fn tunnelled(inner: Vec<u8>, from: usize, vni: u32, sport: u16) -> Vec<u8> {
    let template = Template::new(&Encap {
        src_mac: uplink_mac(from),
        dst_mac: uplink_mac(1 - from),
        src: vtep(from),
        dst: vtep(1 - from),
        vni,
        ttl: 64,
    })
    .expect("one family");
    let mut out = vec![0; template.len()];
    out.extend(inner);
    template.write(&mut out, sport, 0).expect("fits");
    out
}

/// The one and the many, side by side.
struct Both {
    one: Bed,
    many: Crowd,
    delivered: Vec<(&'static str, Vec<u8>)>,
    /// Of the packet that was fragmented last; 0: none was.
    id: u32,
    /// What is sent now is in fragments.
    pieces: bool,
}

impl Both {
    fn new(count: u16, chance: u64) -> Self {
        let mut both = Self {
            one: Bed::unresolved(config(), capacities()),
            many: Crowd::unresolved(count, &config(), chance),
            delivered: Vec::new(),
            id: 0,
            pieces: false,
        };
        both.one.tick();
        both.many.tick();
        both
    }

    fn arrive(&mut self, node: usize, port: u32, frame: &[u8]) -> Result<Fate, TestCaseError> {
        let expected = self.one.arrive(node, port, frame);
        let fate = self.many.arrive(node, port, frame);
        prop_assert_eq!(self.named(&fate), self.named(&expected));
        let released = std::mem::take(&mut self.many.released);
        let expected = std::mem::take(&mut self.one.released);
        prop_assert_eq!(released.len(), expected.len());
        for (fate, expected) in released.iter().zip(&expected) {
            prop_assert_eq!(self.named(fate), self.named(expected));
        }
        if let Fate::Delivered { port, frame } = &fate {
            self.delivered.push((port, frame.clone()));
        }
        Ok(fate)
    }

    /// With the reason where it must be the same: the home of a packet in fragments does
    /// not hear why its first one was dropped elsewhere.
    fn named(&self, fate: &Fate) -> Fate {
        match fate {
            Fate::Dropped { node, .. } if self.pieces => Fate::Dropped {
                node: *node,
                reason: DropReason::Fragment,
            },
            other => other.clone(),
        }
    }

    fn counters_agree(&self, node: usize) -> Result<(), TestCaseError> {
        let mut many = self.many.counters(node);
        let mut one = self.one.counters(node).clone();
        for counters in [&mut many, &mut one] {
            // Each engine has fences of its own, so they do not open at the same time, and
            // its own slices in which connections are looked at again.
            counters.slow.packets += counters.nic.packets;
            counters.slow.bytes += counters.nic.bytes;
            counters.nic = Traffic::default();
            counters.offload = Offload::default();
            counters.connections.rejudged = 0;
            if self.id > 0 {
                let all = counters.drops.iter().sum();
                counters.drops.fill(0);
                counters.drops[0] = all;
            }
        }
        prop_assert_eq!(many, one);
        Ok(())
    }

    fn send(&mut self, from: &str, frame: &[u8]) -> Result<Fate, TestCaseError> {
        let place = self.one.place(from);
        self.arrive(place.node, place.device_port(), frame)
    }

    fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Open(pair) => {
                for (from, frame) in pair.handshake(&self.one) {
                    self.send(from, &frame)?;
                }
            }
            Step::One(pair, kind, back) => {
                let (from, frame) = pair.frame(&self.one, kind, back);
                self.send(from, &frame)?;
            }
            Step::Unreachable(ago) => {
                let Some(at) = self.delivered.len().checked_sub(ago + 1) else {
                    return Ok(());
                };
                let (from, frame) = self.delivered[at].clone();
                // A tag of its receiver's is no part of what it quotes.
                let place = self.one.place(from);
                let plain = if place.vlan == 0 {
                    frame
                } else {
                    [&frame[..12], &frame[16..]].concat()
                };
                let Some(to) = source(&plain) else {
                    return Ok(());
                };
                if !self.one.places.iter().any(|p| p.ips.contains(&to)) {
                    return Ok(());
                }
                let mut error = unreachable(&self.one, from, to, &plain);
                if place.vlan != 0 {
                    error.splice(12..12, [0x81, 0, 0, place.vlan as u8]);
                }
                self.send(from, &error)?;
            }
            Step::Ping(pair) => {
                let (from, _) = pair.frame(&self.one, 1, false);
                let talk = pair.talk();
                let l4 = Layer4::Echo {
                    id: 9,
                    reply: false,
                };
                let mut headers = talk.headers(&self.one, false, l4);
                let subnet = self.one.place(from).subnet;
                headers.dst = gateway(subnet, pair.v6);
                headers.dst_mac = penstock_flow::Mac::GATEWAY;
                self.send(from, &build(&headers, 8))?;
            }
            Step::Pieces(pair, kind, back, order) => {
                let (from, frame) = pair.frame_of(&self.one, kind % 2, back, 2500);
                self.id += 1;
                let cuts = evenly(&frame, 1000);
                self.pieces = true;
                for i in ORDERS[order] {
                    self.send(from, &piece(&frame, self.id, cuts[i]))?;
                }
                self.pieces = false;
            }
            Step::Damaged(pair, kind, damage, cut) => {
                let (from, mut frame) = pair.frame(&self.one, kind, false);
                for (at, value) in damage {
                    let at = usize::from(at) % frame.len();
                    frame[at] = value;
                }
                if let Some(cut) = cut {
                    frame.truncate(usize::from(cut));
                }
                self.send(from, &frame)?;
            }
            Step::Tunnel(pair, kind, sport) => {
                let (from, inner) = pair.frame(&self.one, kind, false);
                let place = self.one.place(from);
                let plain = if place.vlan == 0 {
                    inner
                } else {
                    [&inner[..12], &inner[16..]].concat()
                };
                let vni = if sport % 16 == 0 { 9 } else { place.vni };
                let frame = tunnelled(plain, place.node, vni, sport);
                self.arrive(1 - place.node, UPLINK, &frame)?;
            }
            Step::Policy(open) => {
                let change = |_: usize, policy: &mut penstock_rules::model::Policy| {
                    for vni in [BLUE, RED] {
                        policy.vpcs.get_mut(&vni).expect("a VPC").default_allow = open;
                    }
                };
                self.one.change(change);
                self.many.change(change);
            }
            Step::Wait(seconds) => {
                self.one.now += seconds * SECOND;
                self.many.pass(seconds * SECOND);
                // Long enough to ask a neighbour and to have its answer.
                for _ in 0..3 {
                    self.one.tick();
                    self.many.tick();
                }
            }
        }
        self.one.now += MS;
        self.many.pass(MS);
        self.one.check();
        prop_assert_eq!(self.one.now, self.many.now());
        for node in 0..2 {
            self.counters_agree(node)?;
        }
        Ok(())
    }
}

fn source(frame: &[u8]) -> Option<Addr> {
    let parsed = penstock_flow::packet::parse(frame).ok()?;
    parsed.ip().map(|ip| ip.tuple.src)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn many_engines_do_what_one_does(
        count in 2..6_u16,
        chance in any::<u64>(),
        steps in vec(any_step(), 1..60),
    ) {
        let mut both = Both::new(count, chance);
        for step in steps {
            both.step(step)?;
        }
    }
}

/// The property above would hold if one engine did everything.
#[test]
fn the_flows_are_spread() {
    let mut both = Both::new(4, 1);
    let mut per_lcore = [0; 4];
    for port in 0..40 {
        let pair = Pair {
            from: 0,
            to: 2,
            v6: false,
            port,
        };
        for (from, frame) in pair.handshake(&both.one) {
            let fate = both.send(from, &frame).expect("the same");
            assert!(!fate.at().is_empty(), "{fate:?}");
        }
    }
    for (lcore, bed) in both.many.beds.iter().enumerate() {
        per_lcore[lcore] = bed.counters(0).connections.live;
    }
    assert_eq!(per_lcore.iter().sum::<u64>(), 40);
    // Fewer than a flow table takes, so that one engine does the same.
    let mut both = Both::new(4, 2);
    for port in 0..10 {
        let pair = Pair {
            from: 0,
            to: 2,
            v6: false,
            port,
        };
        both.step(Step::Pieces(pair, 0, false, 0))
            .expect("the same");
    }
    assert!(both.many.pieces > 5, "homes hand over");
    assert!(per_lcore.iter().all(|live| *live > 0), "{per_lcore:?}");
}

#[test]
fn one_engine_asks_the_underlay_for_all() {
    let mut crowd = Crowd::unresolved(4, &config(), 7);
    for _ in 0..300 {
        crowd.pass(SECOND);
        crowd.tick();
    }
    let [first, others @ ..] = &crowd.own[..] else {
        panic!("engines")
    };
    assert!(*first > 10, "{:?}", crowd.own);
    assert_eq!(others, [0, 0, 0]);
    for port in 0..20 {
        let pair = Pair {
            from: 0,
            to: 2,
            v6: false,
            port,
        };
        let (from, frame) = pair.frame(&crowd.beds[0], 0, false);
        assert_eq!(crowd.send(from, &frame).at(), "c");
    }
}

#[test]
fn an_engine_that_hears_nothing_asks_for_itself_and_seldom() {
    let mut crowd = Crowd::unresolved(4, &config(), 7);
    crowd.overhear = false;
    for _ in 0..3000 {
        crowd.tick();
    }
    // Answers reach any of the engines: an unlucky one asks again.
    assert!(crowd.own.iter().all(|own| *own > 0), "{:?}", crowd.own);
    let silent: u32 = crowd.own.iter().skip(1).sum();
    assert!(silent < 40, "{:?}", crowd.own);
}

/// "Too big" about a tunnel lowers the way's MTU in every engine.
#[test]
fn what_a_router_says_about_a_tunnel_holds_for_all() {
    let mut crowd = Crowd::unresolved(4, &config(), 3);
    crowd.tick();
    let pair = |port| Pair {
        from: 0,
        to: 2,
        v6: false,
        port,
    };
    let (_, inner) = pair(0).frame(&crowd.beds[0], 0, false);
    let quote = tunnelled(inner, 0, BLUE, 50_000);
    let mut error = Vec::new();
    etherparse::PacketBuilder::ethernet2(uplink_mac(1).0, uplink_mac(0).0)
        .ipv4([192, 0, 2, 254], vtep(0).v4_octets().expect("IPv4"), 64)
        .icmpv4_raw(
            3,
            4,
            [0, 0, 1350_u16.to_be_bytes()[0], 1350_u16.to_be_bytes()[1]],
        )
        .write(&mut error, &quote[14..])
        .expect("writes");
    let owner = crowd.beds[0].nodes[0].engine.owner(UPLINK, &error);
    assert_eq!(owner, Owner::Everyone);
    assert_eq!(crowd.arrive(0, UPLINK, &error), Fate::Consumed);
    for port in 0..20 {
        let talk = pair(port).talk();
        let l4 = Layer4::Udp {
            sport: talk.sport,
            dport: talk.dport,
        };
        let large = build(&talk.headers(&crowd.beds[0], false, l4), 1350);
        let fate = crowd.send("a", &large);
        assert_eq!(fate.at(), "a", "told that it is too big: {fate:?}");
    }
}

#[test]
fn what_was_refused_on_its_way_is_accounted_for() {
    let mut bed = Bed::new();
    let port = bed.place("a").device_port();
    let before = bed.counters(0).received.packets;
    let engine = &mut bed.nodes[0].engine;
    engine.refuse(port, 60, DropReason::HandoverFull);
    let of_port = engine.port_counters(port).expect("counted");
    assert_eq!((of_port.received.packets, of_port.dropped), (1, 1));
    assert_eq!(engine.counters().dropped(DropReason::HandoverFull), 1);
    assert_eq!(engine.counters().received.packets, before + 1);
    bed.check();
}
