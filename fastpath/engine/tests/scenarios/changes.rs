//! Everything changes at any time: once it is fenced, no packet passes that the
//! policy of that moment refuses both as an opener's and as an answer, and nothing is lost
//! from the books.

use penstock_engine::nic::{Entry, FlowAction, Op};
use penstock_flow::tuple::proto;
use penstock_flow::{Addr, Prefix, Tuple};
use penstock_rules::model::{Direction, Endpoint, Policy};
use penstock_rules::{Query, Ruleset};
use proptest::prelude::*;

use crate::bed::frames::{ACK, FIN, Layer4, RST, SYN};
use crate::bed::talk::Talk;
use crate::bed::world::{BLUE, DEVICE, group, hop_to, put_group, rule};
use crate::bed::{Bed, Fate, MS, SECOND, capacities, config};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

#[derive(Clone, Debug)]
enum Step {
    Packet {
        from: usize,
        to: usize,
        kind: u8,
        sport: u16,
        answer: bool,
    },
    /// A whole conversation, so that there is something to cut.
    Open {
        from: usize,
        to: usize,
        sport: u16,
    },
    Policy(u8),
    /// A port's address is mapped elsewhere, or back.
    Remap(usize, bool),
    /// A port is unbound, or bound again.
    Vport(usize, bool),
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Few, so that what is open is met again: on one node and across, near and
    // routed, and once the other way round.
    let pair = (
        prop_oneof![Just((0, 1)), Just((0, 2)), Just((4, 3)), Just((2, 0))],
        0..2_u16,
    )
        .prop_map(|((from, to), sport)| (from, to, sport));
    let step = prop_oneof![
        6 => (pair.clone(), prop_oneof![0..7_u8, Just(2), Just(5)], any::<bool>()).prop_map(|((from, to, sport), kind, answer)| {
            Step::Packet { from, to, kind, sport, answer }
        }),
        4 => pair.prop_map(|(from, to, sport)| Step::Open { from, to, sport }),
        3 => any::<u8>().prop_map(Step::Policy),
        1 => (0..5_usize, any::<bool>()).prop_map(|(p, away)| Step::Remap(p, away)),
        1 => (0..5_usize, any::<bool>()).prop_map(|(p, on)| Step::Vport(p, on)),
        2 => (0..200_u64).prop_map(Step::Wait),
    ];
    proptest::collection::vec(step, 1..60)
}

/// Bits choose what is closed for whom, and what opens it again.
pub(super) fn set(policy: &mut Policy, bits: u8) {
    let bit = |n: u8| bits >> n & 1 == 1;
    let mut rules = vec![];
    for (n, direction) in [(0, Direction::Ingress), (1, Direction::Egress)] {
        if bit(n) {
            rules.push(rule(
                "web",
                direction,
                Some(proto::TCP),
                &[(80, 80)],
                vec![],
            ));
        }
        if bit(n + 2) {
            rules.push(rule("udp", direction, Some(proto::UDP), &[], vec![]));
        }
    }
    put_group(policy, 7, group(BLUE, bit(4), bit(5), rules));
    for (id, port) in &mut policy.ports {
        let member = port.vni == BLUE && (id % 2 == 0 || bit(6));
        port.groups = if member { vec![7] } else { vec![] };
    }
    // a's IPv4 address is taken from it.
    let is_a = |(key, e): (&(u32, Addr), &Endpoint)| (e.port == 1).then_some(key.1);
    let all = policy.endpoints.iter().filter_map(is_a);
    let ips: Vec<_> = all.filter(|ip| !(bit(7) && ip.is_v4())).collect();
    if let Some(a) = policy.ports.get_mut(&1) {
        a.ips = ips;
    }
}

/// Whether an end of a packet has the address in it.
pub(super) fn has_address(rules: &Ruleset, port: u32, ingress: bool, tuple: &Tuple) -> bool {
    let near = if ingress { tuple.dst } else { tuple.src };
    rules
        .port(port)
        .is_some_and(|port| port.ips.contains(&near))
}

fn apply(
    bed: &mut Bed,
    step: &Step,
    away: &mut [bool; 5],
    bound: &mut [bool; 5],
) -> Option<(Talk, bool, Fate, u8)> {
    match *step {
        Step::Packet {
            from,
            to,
            kind,
            sport,
            answer,
        } if from != to => {
            let talk = Talk {
                sport: 40_000 + sport,
                ..Talk::new(NAMES[from], NAMES[to])
            };
            let flags = [SYN, SYN | ACK, ACK, FIN | ACK, RST | ACK];
            let (seq, ack) = if answer { (5001, 1001) } else { (1001, 5001) };
            let fate = match kind {
                k @ 0..=4 => talk.tcp(bed, answer, flags[usize::from(k)], seq, ack, 9),
                5 => talk.udp(bed, answer),
                _ => talk.ping(bed, answer),
            };
            Some((talk, answer, fate, kind))
        }
        Step::Open { from, to, sport } if from != to => {
            let talk = Talk {
                sport: 40_000 + sport,
                ..Talk::new(NAMES[from], NAMES[to])
            };
            talk.syn(bed);
            talk.tcp(bed, true, SYN | ACK, 5000, 1001, 0);
            talk.tcp(bed, false, ACK, 1001, 5001, 0);
            talk.udp(bed, false);
            talk.udp(bed, true);
            None
        }
        Step::Policy(bits) => {
            bed.change(|_, policy| set(policy, bits));
            None
        }
        Step::Remap(p, to_away) => {
            let place = bed.place(NAMES[p]);
            if away[p] != to_away {
                away[p] = to_away;
                for node in [0, 1] {
                    // Away: its own node sends it over the wire, where it is not.
                    let home = if node == place.node {
                        place.id
                    } else {
                        hop_to(place.node) + BLUE
                    };
                    let there = hop_to(1 - node) + BLUE;
                    let nexthop = if to_away { there } else { home };
                    let dst = Prefix::new(place.ip(false), 128).expect("a host");
                    bed.write(
                        node,
                        Op::Modify,
                        Entry::Mapping {
                            vni: BLUE,
                            dst,
                            nexthop,
                        },
                    );
                }
            }
            None
        }
        Step::Vport(p, on) => {
            let place = bed.place(NAMES[p]);
            if bound[p] != on {
                bound[p] = on;
                let entry = Entry::Vport {
                    device_port: place.device_port(),
                    vlan: place.vlan,
                    port_id: place.id,
                    vni: BLUE,
                };
                bed.write(place.node, if on { Op::Insert } else { Op::Delete }, entry);
            }
            None
        }
        Step::Wait(seconds) => {
            bed.wait(seconds * SECOND);
            None
        }
        _ => None,
    }
}

/// Whether a port's policy permits the packet or what it would be answering, from
/// or to this address.
pub(super) fn permitted(rules: &Ruleset, port: u32, ingress: bool, tuple: &Tuple) -> bool {
    let ask = |ingress: bool, t: &Tuple| {
        let (direction, peer) = if ingress {
            (Direction::Ingress, t.src)
        } else {
            (Direction::Egress, t.dst)
        };
        let query = Query {
            direction,
            port,
            peer,
            proto: t.proto,
            sport: t.sport,
            dport: t.dport,
        };
        rules.judge(&query).allow()
    };
    let opener = match tuple.reply() {
        // An echo reply answers its request.
        None => Some(Tuple {
            src: tuple.dst,
            dst: tuple.src,
            dport: 0x0800,
            ..*tuple
        }),
        reply => reply,
    };
    has_address(rules, port, ingress, tuple)
        && ((tuple.dport != 0 && ask(ingress, tuple)) || opener.is_some_and(|o| ask(!ingress, &o)))
}

fn tuple_of(talk: &Talk, kind: u8, back: bool, src: Addr, dst: Addr) -> Tuple {
    let (sport, dport) = if back {
        (talk.dport, talk.sport)
    } else {
        (talk.sport, talk.dport)
    };
    match kind {
        0..=4 => Tuple {
            src,
            dst,
            proto: proto::TCP,
            sport,
            dport,
        },
        5 => Tuple {
            src,
            dst,
            proto: proto::UDP,
            sport,
            dport,
        },
        _ => Tuple {
            src,
            dst,
            proto: proto::ICMP,
            sport: talk.sport,
            dport: if back { 0 } else { 0x0800 },
        },
    }
}

/// Flow entries come in pairs, of connections that are there.
fn books(bed: &Bed) {
    for node in &bed.nodes {
        if node.engine.pending_writes(DEVICE) != Some(0) {
            // Entries on their way out are nobody's.
            continue;
        }
        let mut offloaded = std::collections::BTreeSet::new();
        node.engine.visit_flows(bed.now, None, &mut |f| {
            if f.offloaded {
                offloaded.insert(f.tuple);
                if let Some(reply) = f.tuple.reply() {
                    offloaded.insert(reply);
                }
            }
            true
        });
        node.engine.visit_flow_entries(bed.now, DEVICE, &mut |e| {
            assert!(offloaded.contains(&e.tuple), "{e:?} carries nobody's flow");
            assert!(matches!(e.action, FlowAction::Forward(_)));
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn no_packet_passes_that_the_present_policy_refuses(
        steps in steps(),
        // Of a NIC that is written at once, or slowly.
        pace in prop_oneof![Just(0), Just(MS / 3), Just(2 * MS)],
    ) {
        let mut bed = Bed::slow(config(), capacities(), pace);
        let (mut away, mut bound) = ([false; 5], [true; 5]);
        for step in &steps {
            let fenced = bed.nodes.iter().all(|n| n.engine.fences_stand());
            let sent = apply(&mut bed, step, &mut away, &mut bound);
            bed.check();
            books(&bed);
            let Some((talk, back, fate, kind)) = sent else {
                continue;
            };
            let Fate::Delivered { port, .. } = &fate else {
                continue;
            };
            if !fenced {
                continue;
            }
            let (from, to) = if back { (talk.b, talk.a) } else { (talk.a, talk.b) };
            prop_assert_eq!(*port, to);
            let (from, to) = (bed.place(from), bed.place(to));
            let tuple = tuple_of(&talk, kind, back, from.ip(false), to.ip(false));
            for (place, ingress) in [(&from, false), (&to, true)] {
                let policy = bed.nodes[place.node].policy.clone();
                let rules = Ruleset::compile(policy).expect("compiles");
                prop_assert!(permitted(&rules, place.id, ingress, &tuple), "{step:?} {tuple:?} at {}", place.name);
            }
        }
        // All of it ends, and nothing is left.
        for _ in 0..4 {
            bed.wait(8000 * SECOND);
        }
        books(&bed);
        for n in [0, 1] {
            prop_assert_eq!(bed.counters(n).connections.live, 0);
            prop_assert_eq!(bed.counters(n).offload.live, 0);
        }
    }
}

/// `Layer4` is what the bed's talk is made of; named here so that a new kind of
/// packet is added to the steps, too.
const _: fn(Layer4) = |l4| match l4 {
    Layer4::Tcp { .. } | Layer4::Udp { .. } | Layer4::Echo { .. } => {}
};
