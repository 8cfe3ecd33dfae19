//! After a restart that has lost the table.

use penstock_flow::DropReason;
use penstock_flow::tuple::proto;
use penstock_rules::model::Direction;

use crate::bed::talk::Talk;
use crate::bed::world::{BLUE, GROUP, group, put_group, rule};
use crate::bed::{Bed, SECOND};

/// A bed whose ports a and c are closed but for TCP 80 in at c and out at a.
fn bed() -> Bed {
    let mut bed = Bed::new();
    bed.change(|_, policy| {
        for (id, port, direction) in [
            (GROUP, 1, Direction::Egress),
            (GROUP + 1, 3, Direction::Ingress),
        ] {
            let web = rule("web", direction, Some(proto::TCP), &[(80, 80)], vec![]);
            put_group(policy, id, group(BLUE, true, true, vec![web]));
            if let Some(port) = policy.ports.get_mut(&port) {
                port.groups = vec![id];
            }
        }
    });
    for node in &mut bed.nodes {
        node.engine.recover_until(bed.now + 30 * SECOND);
    }
    bed
}

#[test]
fn what_either_end_may_open_is_taken_up_from_either_side() {
    for first_back in [false, true] {
        let mut bed = bed();
        let talk = Talk::new("a", "c");
        for i in 0..6 {
            let back = first_back == (i % 2 == 0);
            let fate = talk.data(&mut bed, back);
            assert_eq!(fate.at(), if back { "a" } else { "c" }, "{fate:?}");
        }
        for n in [0, 1] {
            let c = bed.counters(n);
            assert_eq!((c.connections.adopted, c.connections.live), (1, 1));
            assert!(c.nic.packets >= 4, "in the NIC again");
            bed.nodes[n].engine.visit_flows(bed.now, None, &mut |f| {
                assert_eq!((f.tuple.dport, f.ingress), (80, n == 1), "its true opener");
                assert_eq!(f.rule, "group/rules/web");
                true
            });
        }
        talk.close(&mut bed);
    }
}

#[test]
fn what_neither_may_open_and_what_comes_later_is_not() {
    let mut bed = bed();
    let ssh = Talk {
        dport: 22,
        ..Talk::new("a", "c")
    };
    assert_eq!(
        ssh.data(&mut bed, false).reason(),
        Some(DropReason::DeniedEgress)
    );
    assert_eq!(
        ssh.data(&mut bed, true).reason(),
        Some(DropReason::DeniedEgress)
    );
    bed.wait(31 * SECOND);
    assert_eq!(
        Talk::new("a", "c").data(&mut bed, false).reason(),
        Some(DropReason::InvalidState)
    );
}

#[test]
fn what_a_change_cuts_is_not_taken_up_again() {
    let mut bed = bed();
    let talk = Talk::new("a", "c");
    assert!(talk.data(&mut bed, false).reason().is_none(), "taken up");
    // From now on only c could open it, and nobody did.
    bed.change(|_, policy| {
        for (id, port, direction) in [
            (GROUP, 1, Direction::Ingress),
            (GROUP + 1, 3, Direction::Egress),
        ] {
            let any = rule("any", direction, Some(proto::TCP), &[], vec![]);
            put_group(policy, id, group(BLUE, true, true, vec![any]));
            if let Some(port) = policy.ports.get_mut(&port) {
                port.groups = vec![id];
            }
        }
    });
    for _ in 0..3 {
        assert!(talk.data(&mut bed, false).reason().is_some(), "cut");
        bed.tick();
    }
}
