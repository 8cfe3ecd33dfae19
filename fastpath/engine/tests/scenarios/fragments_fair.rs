//! Room for packets in fragments, among tenants: one with ever so many addresses is one.

use penstock_engine::Config;
use penstock_engine::nic::{Entry, Op};
use penstock_flow::{Addr, Prefix};
use proptest::prelude::*;

use super::wire::from_node;
use crate::bed::frames::{Headers, Layer4, build};
use crate::bed::pieces::{carried, evenly, piece};
use crate::bed::talk::Talk;
use crate::bed::world::{BLUE, UPLINK, hop_to};
use crate::bed::{Bed, capacities, config};

const UDP: Layer4 = Layer4::Udp {
    sport: 40_000,
    dport: 80,
};
const LEN: usize = 3000;
const PIECE: usize = 1200;

/// A piece from one of BLUE's many addresses on node 0: which, of which packet, and which
/// piece.
type Flood = (u8, u8, usize);

#[derive(Clone, Debug)]
struct Step {
    /// Before each piece of the honest packet.
    floods: [Vec<Flood>; 3],
    /// In which order its pieces come.
    order: [usize; 3],
}

fn floods() -> impl Strategy<Value = Vec<Flood>> {
    // Mostly pieces that wait.
    let which = prop_oneof![1 => Just(0), 5 => Just(1), 5 => Just(2_usize)];
    proptest::collection::vec((any::<u8>(), 0..3_u8, which), 0..40)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let order = Just([0, 1, 2]).prop_shuffle();
    let step = ([floods(), floods(), floods()], order);
    proptest::collection::vec(
        step.prop_map(|(floods, order)| Step { floods, order }),
        1..12,
    )
}

/// Room for so few that a handful of packets is a flood.
fn bed() -> Bed {
    let small = Config {
        max_fragmented: 32,
        max_waiting_fragments: 16,
        ..config()
    };
    let mut bed = Bed::with(small, capacities());
    let many = Entry::Mapping {
        vni: BLUE,
        dst: Prefix::new(Addr::from_v4([10, 0, 9, 0]), 120).expect("a prefix"),
        nexthop: hop_to(0) + BLUE,
    };
    bed.write(1, Op::Insert, many);
    bed
}

fn flood(bed: &mut Bed, (host, id, which): Flood) {
    let headers = Talk::new("a", "c").headers(bed, false, UDP);
    let src = Addr::from_v4([10, 0, 9, host]);
    let frame = build(&Headers { src, ..headers }, LEN);
    let cut = evenly(&frame, PIECE)[which];
    let inner = piece(&frame, id.into(), cut);
    bed.arrive(1, UPLINK, &from_node(0, &inner));
}

/// Pieces that `y` got of what `x` has sent of one packet.
fn honest(bed: &mut Bed, id: u32, step: &Step) -> usize {
    let frame = build(&Talk::new("x", "y").headers(bed, false, UDP), LEN);
    let cuts = evenly(&frame, PIECE);
    let mut got = 0;
    for (floods, which) in step.floods.iter().zip(step.order) {
        for each in floods {
            flood(bed, *each);
        }
        let fate = bed.send("x", &piece(&frame, id, cuts[which]));
        let released = std::mem::take(&mut bed.released);
        for fate in released.iter().chain([&fate]) {
            if fate.at() == "y" {
                assert!(carried(fate.frame()).is_some(), "a piece");
                got += 1;
            }
        }
    }
    got
}

#[test]
fn a_tenant_with_many_addresses_leaves_room_for_others() {
    let mut bed = bed();
    for round in 0..20_u32 {
        // One packet of each, and one piece that waits.
        let all = |id| (0..=255).map(move |host| (host, id, 1)).collect();
        let step = Step {
            floods: [all(0), all(1), all(2)],
            order: [2, 1, 0],
        };
        assert_eq!(honest(&mut bed, round, &step), 3, "{round}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn no_other_tenant_keeps_a_packet_out(steps in steps()) {
        let mut bed = bed();
        for (id, step) in (0..).zip(&steps) {
            prop_assert_eq!(honest(&mut bed, id, step), 3, "{} {:?}", id, step);
        }
    }
}
