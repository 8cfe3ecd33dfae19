//! What policy wants told of packets that pass: logs, and lists in audit.

use penstock_engine::record::{DropRecord, Event};
use penstock_flow::tuple::proto;
use penstock_rules::model::{Action, Direction, Rule};

use crate::bed::talk::Talk;
use crate::bed::world::rule;
use crate::bed::{Bed, SECOND};
use crate::stateless::{LIST, admin};

fn logging(bed: &mut Bed, stateful: bool) {
    bed.change(|_, policy| {
        let one = |name: &str, direction| Rule {
            log: true,
            stateful,
            ..rule(name, direction, None, &[], vec![])
        };
        let rules = vec![one("in", Direction::Ingress), one("out", Direction::Egress)];
        admin(policy, rules);
    });
}

fn allowed(bed: &Bed, node: usize) -> Vec<DropRecord> {
    bed.nodes[node].engine.allowed().copied().collect()
}

#[test]
fn a_rule_with_a_log_tells_of_each_connection_once() {
    for (a, b, each) in [("a", "c", [1, 1]), ("a", "b", [2, 0])] {
        let mut bed = Bed::new();
        logging(&mut bed, true);
        let talk = Talk::new(a, b);
        talk.open(&mut bed);
        talk.data(&mut bed, true);
        for (node, count) in each.into_iter().enumerate() {
            let told = allowed(&bed, node);
            assert_eq!(told.len(), count, "{a}-{b}");
            assert_eq!(bed.counters(node).judged.logged, count as u64);
            for record in told {
                assert_eq!(record.event, Event::Allowed);
                let name = if record.ingress { "in" } else { "out" };
                assert_eq!(record.rule.as_str(), format!("group/rules/{name}"));
                assert_eq!((record.tuple.sport, record.tuple.dport), (40_000, 80));
                assert_eq!(
                    record.port,
                    bed.place(if record.ingress { b } else { a }).id
                );
            }
            assert_eq!(bed.nodes[node].engine.drops().count(), 0);
        }
    }
}

#[test]
fn without_connections_it_tells_of_packets_within_its_share() {
    let mut bed = Bed::new();
    bed.wait(SECOND);
    logging(&mut bed, false);
    let talk = Talk::new("a", "c");
    for _ in 0..150 {
        assert_eq!(talk.data(&mut bed, false).at(), "c");
    }
    for node in 0..2 {
        assert_eq!(allowed(&bed, node).len(), 100);
        assert_eq!(bed.counters(node).judged.logged, 150);
    }
}

#[test]
fn audit_drops_nothing_and_tells_what_it_would() {
    for named in [true, false] {
        let mut bed = Bed::new();
        bed.change(|_, policy| {
            let no = Rule {
                action: Action::Deny,
                ..rule(
                    "no",
                    Direction::Ingress,
                    Some(proto::TCP),
                    &[(80, 80)],
                    vec![],
                )
            };
            admin(policy, if named { vec![no] } else { vec![] });
            let list = policy.lists.get_mut(&LIST).expect("just put");
            list.audit = true;
            if !named {
                list.tier = penstock_rules::model::Tier::Tenant;
                list.selects_ingress = true;
            }
        });
        let talk = Talk::new("a", "c");
        talk.open(&mut bed);
        for back in [false, true, false] {
            talk.data(&mut bed, back);
        }
        let told: Vec<DropRecord> = bed.nodes[1].engine.audited().copied().collect();
        assert_eq!(told.len(), 1, "once for the connection");
        assert_eq!(told[0].event, Event::WouldDrop);
        let want = if named { "group/rules/no" } else { "" };
        assert_eq!(told[0].rule.as_str(), want);
        assert_eq!(bed.counters(1).judged.would_drop, 1);
        assert_eq!(
            bed.counters(0).judged.would_drop,
            0,
            "egress is not its matter"
        );
        assert_eq!(bed.counters(1).connections.live, 1);
    }
}
