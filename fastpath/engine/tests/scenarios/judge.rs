//! First packets meet the verdict of both ends' policies, whatever these are.

use penstock_flow::tuple::proto;
use penstock_flow::{DropReason, Prefix};
use penstock_rules::model::{Direction, Peer};
use penstock_rules::{Query, Ruleset};
use proptest::prelude::*;

use crate::bed::talk::Talk;
use crate::bed::world::{BLUE, group, put_group, rule};
use crate::bed::{Bed, Fate};

type RuleSpec = (bool, Option<u8>, u16, u16, u8);
type GroupSpec = (bool, bool, Vec<RuleSpec>);

fn rules() -> impl Strategy<Value = Vec<RuleSpec>> {
    let protocol = prop_oneof![
        Just(None),
        Just(Some(proto::TCP)),
        Just(Some(proto::UDP)),
        Just(Some(proto::ICMP))
    ];
    proptest::collection::vec(
        (any::<bool>(), protocol, 78..82_u16, 0..3_u16, 0..5_u8),
        0..5,
    )
}

fn groups() -> impl Strategy<Value = Vec<GroupSpec>> {
    proptest::collection::vec((any::<bool>(), any::<bool>(), rules()), 3)
}

fn peer(kind: u8, bed: &Bed) -> Vec<Peer> {
    let host = |name: &str| {
        let prefix = Prefix::new(bed.place(name).ip(false), 128).expect("a host");
        Peer::Cidr {
            prefix,
            except: vec![],
        }
    };
    match kind {
        0 => vec![],
        1 => vec![Peer::Group(1)],
        2 => vec![Peer::Group(2)],
        3 => vec![host("a"), host("d")],
        _ => vec![host("c")],
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_engine_and_the_rulesets_agree(
        groups in groups(),
        members in proptest::collection::vec((any::<bool>(), any::<bool>(), any::<bool>()), 5),
        open in any::<bool>(),
        packets in proptest::collection::vec((0..5_usize, 0..5_usize, 0..3_u8, 77..84_u16), 30),
    ) {
        const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
        let mut bed = Bed::new();
        let view = Bed::new();
        bed.change(|_, policy| {
            if let Some(vpc) = policy.vpcs.get_mut(&BLUE) {
                vpc.default_allow = open;
            }
            for (i, (ingress, egress, specs)) in groups.iter().enumerate() {
                let rules = specs.iter().enumerate().map(|(n, (inward, protocol, low, span, who))| {
                    let direction = if *inward { Direction::Ingress } else { Direction::Egress };
                    let ports = match protocol {
                        Some(proto::TCP | proto::UDP) => vec![(*low, low + span)],
                        _ => vec![],
                    };
                    rule(&format!("g{i}r{n}"), direction, *protocol, &ports, peer(*who, &view))
                });
                put_group(policy, 1 + i as u32, group(BLUE, *ingress, *egress, rules.collect()));
            }
            let of = |id: u32| {
                let m = members[(id as usize - 1) % 5];
                let mut list = vec![];
                for (i, is) in [m.0, m.1, m.2].into_iter().enumerate() {
                    if is {
                        list.push(1 + i as u32);
                    }
                }
                list
            };
            for (id, port) in &mut policy.ports {
                if port.vni == BLUE {
                    port.groups = of(*id);
                }
            }
            for ((vni, _), endpoint) in &mut policy.endpoints {
                if *vni == BLUE {
                    endpoint.groups = of(endpoint.port);
                }
            }
        });
        let rulesets: Vec<Ruleset> = bed
            .nodes
            .iter()
            .map(|n| Ruleset::compile(n.policy.clone()).expect("compiles"))
            .collect();
        for (i, (from, to, kind, dport)) in packets.into_iter().enumerate() {
            if from == to {
                continue;
            }
            let talk = Talk { sport: 20_000 + i as u16, dport, ..Talk::new(NAMES[from], NAMES[to]) };
            let fate = match kind {
                0 => talk.syn(&mut bed),
                1 => talk.udp(&mut bed, false),
                _ => talk.ping(&mut bed, false),
            };
            let (a, b) = (bed.place(talk.a), bed.place(talk.b));
            let (proto, dport) = match kind {
                0 => (proto::TCP, dport),
                1 => (proto::UDP, dport),
                _ => (proto::ICMP, 0x0800),
            };
            let ask = |node: usize, direction, port, peer| {
                let query = Query { direction, port, peer, proto, sport: talk.sport, dport };
                rulesets[node].judge(&query).allow()
            };
            let out = ask(a.node, Direction::Egress, a.id, b.ip(false));
            let inn = ask(b.node, Direction::Ingress, b.id, a.ip(false));
            match (out, inn) {
                (false, _) => prop_assert_eq!(fate, Fate::Dropped { node: a.node, reason: DropReason::DeniedEgress }),
                (true, false) => prop_assert_eq!(fate, Fate::Dropped { node: b.node, reason: DropReason::DeniedIngress }),
                (true, true) => prop_assert_eq!(fate.at(), talk.b),
            }
        }
    }
}
