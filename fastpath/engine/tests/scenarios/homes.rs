//! Tables that speak of interfaces by numbers that are others' now: after a restart
//! that has lost the numbers, or whose tables are older than its policy.

use penstock_engine::Homes;
use penstock_flow::DropReason;

use crate::bed::talk::Talk;
use crate::bed::world::Place;
use crate::bed::{Bed, Fate};

/// Says on node 0 which port is behind which place's interface; all others are at home.
fn tell(bed: &mut Bed, moved: &[(&Place, &Place)]) {
    let homes = bed.places.iter().filter(|p| p.node == 0).map(|place| {
        let at = moved.iter().find(|(port, _)| port.id == place.id);
        let on = at.map_or(place, |(_, on)| on);
        (on.device_port(), on.vlan, place.id)
    });
    let homes = Homes::new(64, homes);
    bed.nodes[0].engine.set_homes(homes);
}

/// "a" and "x" are of two VPCs and have the same addresses.
#[test]
fn an_interface_carries_nothing_while_policy_gives_it_to_another_port() {
    let mut bed = Bed::new();
    let (blue, red) = (bed.place("a"), bed.place("x"));
    assert_ne!(blue.vni, red.vni);
    assert_eq!(blue.ips, red.ips);
    let there = |talk: Talk, bed: &mut Bed| talk.udp(bed, false);
    let out = [Talk::new("a", "c"), Talk::new("x", "y")];
    let back = [Talk::new("c", "a"), Talk::new("y", "x")];
    // Nobody has said anything: the tables alone decide.
    for talk in out.into_iter().chain(back) {
        assert_eq!(there(talk, &mut bed).at(), talk.b);
    }

    tell(&mut bed, &[(&blue, &red), (&red, &blue)]);
    for talk in out {
        let new = Talk { sport: 9, ..talk };
        for talk in [talk, new] {
            let fate = there(talk, &mut bed);
            assert_eq!(fate.reason(), Some(DropReason::PortNotReady), "{fate:?}");
        }
    }
    // Nor does it get what is for the port that the tables see there.
    for talk in back {
        let new = Talk { sport: 9, ..talk };
        let fate = there(new, &mut bed);
        assert_eq!(fate.reason(), Some(DropReason::PortNotReady), "{fate:?}");
    }
    let bystander = there(Talk::new("b", "c"), &mut bed);
    assert!(matches!(bystander, Fate::Delivered { .. }), "{bystander:?}");

    tell(&mut bed, &[]);
    for talk in out.into_iter().chain(back) {
        let new = Talk { sport: 10, ..talk };
        assert_eq!(there(new, &mut bed).at(), talk.b);
    }
}
