//! Changes behind fences: at once for every packet, on a NIC that is written at
//! once and on one that takes its time.

use penstock_engine::nic::{Capacities, Entry, FlowEntry, Hop, Op, Table};
use penstock_engine::record::FlowRecord;
use penstock_flow::tuple::proto;
use penstock_flow::{DropReason, Tuple};
use penstock_rules::model::{Direction, Policy};
use penstock_rules::{Query, Ruleset};
use proptest::prelude::*;

use super::changes::{has_address, permitted, set};
use crate::bed::frames::ACK;
use crate::bed::talk::Talk;
use crate::bed::world::{BLUE, DEVICE, GROUP, group, hop_to, put_group, rule};
use crate::bed::{Bed, Fate, MS, capacities, config};

/// The soft NIC, and slow ones.
const PACES: [u64; 3] = [0, MS / 4, MS];

fn room() -> Capacities {
    Capacities {
        fence: 16,
        flow: 1024,
        ..capacities()
    }
}

fn entries(bed: &Bed, node: usize) -> Vec<FlowEntry> {
    let mut entries = Vec::new();
    bed.nodes[node]
        .engine
        .visit_flow_entries(bed.now, DEVICE, &mut |e| entries.push(*e));
    entries
}

fn fences(bed: &Bed, node: usize) -> u32 {
    let fences = bed.nodes[node].engine.occupancy(DEVICE, Table::Fence);
    fences.expect("a NIC")
}

fn talks(b: &'static str, n: u16, dport: u16) -> Vec<Talk> {
    let talk = |i| Talk {
        sport: 40_000 + i,
        dport,
        ..Talk::new("a", b)
    };
    (0..n).map(talk).collect()
}

/// Closes `port` but for TCP to these ports.
fn close(bed: &mut Bed, port: &str, open: &[u16]) {
    let id = bed.place(port).id;
    bed.change(|_, policy| {
        let ports: Vec<_> = open.iter().map(|p| (*p, *p)).collect();
        let rules = match ports.is_empty() {
            true => vec![],
            false => vec![rule(
                "web",
                Direction::Ingress,
                Some(proto::TCP),
                &ports,
                vec![],
            )],
        };
        put_group(policy, GROUP + id, group(BLUE, true, false, rules));
        if let Some(port) = policy.ports.get_mut(&id) {
            port.groups = vec![GROUP + id];
        }
    });
}

/// Until the fences of the last change are in the NICs; the ticks it took.
fn until_fenced(bed: &mut Bed) -> u32 {
    let mut ticks = 0;
    while !bed.nodes.iter().all(|n| n.engine.fences_stand()) {
        bed.tick();
        ticks += 1;
        assert!(ticks < 100, "within a tenth of a second");
    }
    ticks
}

#[test]
fn a_slow_nic_has_what_it_has_had_the_time_for() {
    let mut bed = Bed::slow(config(), room(), MS);
    let talk = Talk::new("a", "c");
    talk.open(&mut bed);
    let offloaded = |bed: &Bed| {
        let mut seen = vec![];
        bed.nodes[0].engine.visit_flows(bed.now, None, &mut |f| {
            seen.push(f.offloaded);
            true
        });
        seen
    };
    for (installed, whole) in [(0, false), (1, false), (2, true), (2, true)] {
        assert_eq!(entries(&bed, 0).len(), installed);
        assert_eq!(offloaded(&bed), [whole]);
        assert_eq!(talk.data(&mut bed, false).at(), "c");
        bed.tick();
    }
    assert!(bed.counters(0).nic.packets > 0);
    assert_eq!(bed.counters(0).offload.installed, 1);
    talk.close(&mut bed);
    for left in [2, 1, 0] {
        assert_eq!(entries(&bed, 0).len(), left, "on its way out");
        bed.tick();
    }
    let c = bed.counters(0);
    assert_eq!((c.offload.live, c.offload.withdrawn), (0, 1));
}

#[test]
fn what_is_offered_beyond_the_queue_stays_in_software_and_no_delete_is_lost() {
    let mut bed = Bed::slow(config(), room(), MS);
    let talks = talks("c", 200, 80);
    for talk in &talks {
        talk.open(&mut bed);
    }
    let offload = bed.counters(0).offload;
    assert_eq!(offload.offered, 128, "{offload:?}");
    assert!(offload.queue_full >= 72, "{offload:?}");
    bed.settle();
    assert_eq!(entries(&bed, 0).len(), 256);
    // What stayed behind is offered again by its next packet, some in vain.
    for talk in &talks {
        talk.data(&mut bed, false);
    }
    for talk in &talks {
        talk.data(&mut bed, true);
        talk.close(&mut bed);
    }
    bed.settle();
    assert_eq!(entries(&bed, 0), []);
    assert_eq!(bed.nodes[0].engine.occupancy(DEVICE, Table::Flow), Some(0));
}

#[test]
fn what_a_change_closes_ends_at_once_and_the_rest_of_the_nic_is_left_alone() {
    for pace in PACES {
        let mut bed = Bed::slow(config(), room(), pace);
        let closed = talks("c", 30, 80);
        let other = Talk::new("a", "d");
        for talk in closed.iter().chain([&other]) {
            talk.open(&mut bed);
        }
        bed.settle();
        close(&mut bed, "c", &[]);
        let ticks = until_fenced(&mut bed);
        assert_eq!(ticks > 0, pace > 0);
        assert!(bed.nodes[1].engine.fenced().is_some());
        assert!(fences(&bed, 1) > 0);
        assert_eq!(fences(&bed, 0), 0, "nothing was closed there");
        let mut lasted = 0;
        loop {
            let talk = closed[lasted % closed.len()];
            let reason = talk.data(&mut bed, false).reason();
            let ends = [DropReason::DeniedIngress, DropReason::InvalidState];
            assert!(reason.is_some_and(|r| ends.contains(&r)), "{reason:?}");
            let before = [0, 1].map(|n| bed.counters(n).nic.packets);
            assert_eq!(
                other.data(&mut bed, lasted % 2 == 0).at(),
                ["d", "a"][(lasted + 1) % 2]
            );
            let after = [0, 1].map(|n| bed.counters(n).nic.packets);
            assert_eq!(after, before.map(|n| n + 1), "answered by both NICs");
            if bed.nodes[1].engine.fenced().is_none() {
                break;
            }
            bed.tick();
            lasted += 1;
        }
        // Not before the last entry is out.
        assert_eq!(entries(&bed, 1).len(), 2, "d's own");
        bed.settle();
        assert_eq!(fences(&bed, 1), 0);
        assert_eq!(bed.counters(1).connections.revoked, 30);
        assert_eq!(lasted > 50, pace == MS, "{lasted} ms for 60 entries");
    }
}

#[test]
fn what_stays_allowed_behind_a_fence_keeps_its_entries() {
    for pace in PACES {
        let mut bed = Bed::slow(config(), room(), pace);
        let (stays, goes) = (talks("c", 5, 80), talks("c", 5, 443));
        for talk in stays.iter().chain(&goes) {
            talk.open(&mut bed);
        }
        bed.settle();
        close(&mut bed, "c", &[80, 443]);
        bed.settle();
        assert_eq!(bed.counters(1).offload.withdrawn, 0);
        close(&mut bed, "c", &[80]);
        for _ in 0..20 {
            for talk in &stays {
                assert_eq!(talk.data(&mut bed, false).at(), "c");
            }
            bed.tick();
        }
        bed.settle();
        let c = bed.counters(1);
        assert_eq!((c.connections.revoked, c.offload.withdrawn), (5, 5));
        assert_eq!((c.offload.offered, c.offload.live), (10, 5));
        let mut rules = vec![];
        bed.nodes[1].engine.visit_flows(bed.now, None, &mut |f| {
            rules.push(f.rule.to_owned());
            true
        });
        assert_eq!(rules, ["group/rules/web"; 5], "known by their present rule");
    }
}

#[test]
fn changes_that_come_behind_a_fence_are_fenced_too_and_have_their_turn() {
    for (pace, fence) in [(0, 16), (MS, 16), (0, 2), (MS, 2)] {
        let capacities = Capacities { fence, ..room() };
        let mut bed = Bed::slow(config(), capacities, pace);
        let (c, d) = (talks("c", 20, 80), talks("d", 20, 80));
        for talk in c.iter().chain(&d) {
            talk.open(&mut bed);
        }
        bed.settle();
        close(&mut bed, "c", &[]);
        close(&mut bed, "d", &[]);
        close(&mut bed, "c", &[80]);
        close(&mut bed, "d", &[80]);
        close(&mut bed, "c", &[]);
        until_fenced(&mut bed);
        for _ in 0..5 {
            for (talk, open) in c.iter().zip(&d) {
                assert_ne!(talk.data(&mut bed, false).at(), "c");
                // Closed between, opened again before anybody looked.
                assert_eq!(open.data(&mut bed, false).at(), "d");
            }
            bed.tick();
        }
        bed.settle();
        assert_eq!((fences(&bed, 0), fences(&bed, 1)), (0, 0));
        assert_eq!(bed.counters(1).connections.revoked, 20, "of c's");
        assert_eq!(entries(&bed, 1).len(), 40, "of d's");
    }
}

#[test]
fn a_change_that_only_opens_has_no_fence() {
    let mut bed = Bed::slow(config(), room(), MS);
    close(&mut bed, "c", &[80]);
    bed.settle();
    Talk::new("a", "c").open(&mut bed);
    close(&mut bed, "c", &[80, 443]);
    for n in [0, 1] {
        assert_eq!(bed.nodes[n].engine.fenced(), None);
        assert_eq!(fences(&bed, n), 0);
    }
    assert!(
        bed.nodes[1].engine.rejudging(),
        "by the newest rules, in slices"
    );
}

#[test]
fn a_next_hop_that_leads_to_a_port_lets_nobody_in_unjudged() {
    for pace in PACES {
        let mut bed = Bed::slow(config(), room(), pace);
        let talk = Talk::new("a", "c");
        talk.open(&mut bed);
        bed.settle();
        let b = bed.place("b");
        let hop = Hop::ToPort {
            device_port: b.device_port(),
            vlan: b.vlan,
            dst_mac: b.mac,
        };
        let id = hop_to(1) + BLUE;
        bed.write(0, Op::Modify, Entry::Nexthop { id, hop });
        until_fenced(&mut bed);
        for _ in 0..3 {
            // b has no such address.
            let fate = talk.data(&mut bed, false);
            assert_eq!(fate.reason(), Some(DropReason::NoRoute), "{fate:?}");
            bed.tick();
        }
        bed.settle();
        assert_eq!(entries(&bed, 0), [], "they named it");
        assert_eq!(fences(&bed, 0), 0);
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// A connection of TCP or UDP.
    Open(usize, bool),
    /// One more packet of it, or against it.
    Data(usize, bool, bool),
    Policy(u8),
    Ticks(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..8_usize, any::<bool>()).prop_map(|(talk, tcp)| Step::Open(talk, tcp)),
        8 => (0..8_usize, any::<bool>(), any::<bool>())
            .prop_map(|(talk, tcp, back)| Step::Data(talk, tcp, back)),
        2 => any::<u8>().prop_map(Step::Policy),
        4 => (1..6_u8).prop_map(Step::Ticks),
    ];
    proptest::collection::vec(step, 1..80)
}

const PAIRS: [(&str, &str); 4] = [("a", "b"), ("a", "c"), ("e", "d"), ("c", "a")];

fn talk(n: usize) -> Talk {
    let (a, b) = PAIRS[n % 4];
    Talk {
        sport: 40_000 + n as u16,
        ..Talk::new(a, b)
    }
}

fn data(bed: &mut Bed, talk: &Talk, tcp: bool, back: bool) -> Fate {
    match tcp {
        true => talk.data(bed, back),
        false => talk.udp(bed, back),
    }
}

fn opener(bed: &Bed, talk: &Talk, tcp: bool) -> Tuple {
    Tuple {
        src: bed.place(talk.a).ip(false),
        dst: bed.place(talk.b).ip(false),
        proto: if tcp { proto::TCP } else { proto::UDP },
        sport: talk.sport,
        dport: talk.dport,
    }
}

/// What the nodes have accepted since fences have last stood on all of them.
struct History(Vec<[Ruleset; 2]>);

impl History {
    fn compiled(bed: &Bed) -> [Ruleset; 2] {
        let compile = |policy: &Policy| Ruleset::compile(policy.clone()).expect("compiles");
        [0, 1].map(|n| compile(&bed.nodes[n].policy))
    }

    /// Whether one of them lets the flow pass at both its ends.
    fn any(&self, bed: &Bed, talk: &Talk, tuple: &Tuple) -> [bool; 2] {
        [(talk.a, false), (talk.b, true)].map(|(name, ingress)| {
            let place = bed.place(name);
            let ok = |rules: &[Ruleset; 2]| permitted(&rules[place.node], place.id, ingress, tuple);
            self.0.iter().any(ok)
        })
    }

    /// Whether the newest lets the flow be opened.
    fn opens(&self, bed: &Bed, talk: &Talk, tuple: &Tuple) -> bool {
        let newest = &self.0[self.0.len() - 1];
        let ends = [
            (talk.a, Direction::Egress, tuple.dst),
            (talk.b, Direction::Ingress, tuple.src),
        ];
        ends.into_iter().all(|(name, direction, peer)| {
            let place = bed.place(name);
            let query = Query {
                direction,
                port: place.id,
                peer,
                proto: tuple.proto,
                sport: tuple.sport,
                dport: tuple.dport,
            };
            let rules = &newest[place.node];
            let ingress = direction == Direction::Ingress;
            has_address(rules, place.id, ingress, tuple) && rules.judge(&query).allow()
        })
    }
}

/// The index of ports says the same as a look at everything.
fn index_is_whole(bed: &Bed) {
    for node in &bed.nodes {
        let key = |f: &FlowRecord<'_>| (f.port, f.tuple, f.ingress);
        let mut all = vec![];
        node.engine.visit_flows(bed.now, None, &mut |f| {
            all.push(key(f));
            true
        });
        let mut by_port = vec![];
        for port in 1..=7 {
            node.engine.visit_flows(bed.now, Some(port), &mut |f| {
                assert_eq!(f.port, port);
                by_port.push(key(f));
                true
            });
        }
        all.sort_unstable();
        by_port.sort_unstable();
        assert_eq!(by_port, all);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn every_packet_is_judged_by_the_newest_policy_whose_fences_stand(
        steps in steps(),
        pace in prop_oneof![Just(0), 50_000..4_000_000_u64],
        fence in 2..12_u32,
    ) {
        let small = penstock_engine::Config { sweep_slice: 3, ..config() };
        let mut bed = Bed::slow(small, Capacities { fence, ..capacities() }, pace);
        let mut history = History(vec![History::compiled(&bed)]);
        // TCP that has been permitted without a break since it was opened. UDP may
        // have been opened from the other side.
        let mut steady = [false; 8];
        for step in steps {
            if bed.nodes.iter().all(|n| n.engine.fences_stand()) {
                history.0.drain(..history.0.len() - 1);
            }
            match step {
                Step::Open(n, tcp) => {
                    let talk = talk(n);
                    if tcp {
                        talk.syn(&mut bed);
                        talk.tcp(&mut bed, true, 0x12, 5000, 1001, 0);
                        talk.tcp(&mut bed, false, ACK, 1001, 5001, 0);
                    }
                    let passes = [false, true].map(|back| !data(&mut bed, &talk, tcp, back).at().is_empty());
                    let tuple = opener(&bed, &talk, tcp);
                    if tcp {
                        steady[n] = passes == [true; 2] && history.opens(&bed, &talk, &tuple);
                    }
                }
                Step::Data(n, tcp, back) => {
                    let talk = talk(n);
                    let fate = data(&mut bed, &talk, tcp, back);
                    let tuple = opener(&bed, &talk, tcp);
                    let passed = !fate.at().is_empty();
                    let may = history.any(&bed, &talk, &tuple);
                    prop_assert!(!passed || may == [true; 2], "{fate:?} {talk:?} {may:?}");
                    let must = tcp && steady[n];
                    prop_assert!(passed || !must, "{fate:?} {talk:?}");
                }
                Step::Policy(bits) => {
                    bed.change(|_, policy| set(policy, bits));
                    history.0.push(History::compiled(&bed));
                    for (n, steady) in steady.iter_mut().enumerate() {
                        let talk = talk(n);
                        *steady &= history.opens(&bed, &talk, &opener(&bed, &talk, true));
                    }
                }
                Step::Ticks(n) => (0..n).for_each(|_| bed.tick()),
            }
            index_is_whole(&bed);
        }
        bed.settle();
        let newest = History(vec![History::compiled(&bed)]);
        for (n, node) in bed.nodes.iter().enumerate() {
            prop_assert_eq!(fences(&bed, n), 0);
            for e in entries(&bed, n) {
                for (ip, ingress) in [(e.tuple.src, false), (e.tuple.dst, true)] {
                    let port = node.policy.ports.values().find(|p| p.ips.contains(&ip));
                    if let Some(port) = port {
                        let id = bed.place(&port.name).id;
                        prop_assert!(permitted(&newest.0[0][n], id, ingress, &e.tuple), "{e:?}");
                    }
                }
            }
        }
    }
}
