//! Who reaches whom, and what arrives.

use penstock_flow::{DropReason, Mac};

use crate::bed::Bed;
use crate::bed::frames::read;
use crate::bed::talk::Talk;

/// Same subnet and routed; local pair and across; both families.
const PAIRS: [(&str, &str, bool); 6] = [
    ("a", "b", false),
    ("a", "c", false),
    ("a", "e", true),
    ("a", "d", true),
    // One device port, two VLANs.
    ("b", "e", true),
    ("x", "y", false),
];

#[test]
fn tcp_udp_and_ping_in_both_families_everywhere() {
    for (a, b, routed) in PAIRS {
        for v6 in [false, true] {
            let mut bed = Bed::new();
            let talk = Talk {
                v6,
                ..Talk::new(a, b)
            };
            talk.open(&mut bed);
            for back in [false, true] {
                let (to, from) = if back { (a, b) } else { (b, a) };
                for fate in [
                    talk.data(&mut bed, back),
                    talk.udp(&mut bed, back),
                    talk.ping(&mut bed, back),
                ] {
                    assert_eq!(fate.at(), to, "{talk:?} back {back}: {fate:?}");
                    let seen = read(fate.frame());
                    let (from, to) = (bed.place(from), bed.place(to));
                    assert_eq!((seen.src, seen.dst), (from.ip(v6), to.ip(v6)));
                    assert_eq!((seen.dst_mac, seen.vlan), (to.mac, to.vlan));
                    let (mac, ttl) = if routed {
                        (Mac::GATEWAY, 63)
                    } else {
                        (from.mac, 64)
                    };
                    assert_eq!((seen.src_mac, seen.ttl), (mac, ttl));
                }
            }
        }
    }
}

#[test]
fn tenants_with_the_same_addresses_never_meet() {
    let mut bed = Bed::new();
    Talk::new("a", "c").open(&mut bed);
    Talk::new("x", "y").open(&mut bed);
    // d's address exists in blue only.
    let stranger = Talk::new("x", "d");
    assert_eq!(stranger.syn(&mut bed).reason(), Some(DropReason::NoRoute));
    for (a, b) in [("a", "c"), ("x", "y")] {
        for back in [false, true] {
            let fate = Talk::new(a, b).data(&mut bed, back);
            assert_eq!(fate.at(), if back { a } else { b });
        }
    }
}
