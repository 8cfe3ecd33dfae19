//! What a receiver's interface does not take: its sender is told, wherever it is, and
//! nothing is written down about a packet that is not sent.

use penstock_engine::Config;
use penstock_flow::packet::{self, L4};
use penstock_flow::{DropReason, Mac};
use penstock_rules::model::Direction;

use crate::bed::frames::{Layer4, build, read};
use crate::bed::talk::Talk;
use crate::bed::world::{BLUE, UPLINK, gateway, group, put_group, rule};
use crate::bed::{Bed, Fate, capacities, config};

const UDP: Layer4 = Layer4::Udp {
    sport: 40_000,
    dport: 80,
};
const TAKES: u16 = 1300;

fn narrow(bed: &mut Bed, name: &str, mtu: u16) {
    let place = bed.place(name);
    let engine = &mut bed.nodes[place.node].engine;
    engine.set_device_mtu(place.device_port(), mtu);
}

/// The MTU that `talk`'s sender is told, and about which port.
#[track_caller]
fn told(bed: &Bed, talk: &Talk, fate: &Fate) -> u32 {
    assert_eq!(fate.at(), talk.a, "{fate:?}");
    let (sender, receiver) = (bed.place(talk.a), bed.place(talk.b));
    let seen = read(fate.frame());
    assert_eq!(seen.dst, sender.ip(talk.v6));
    assert_eq!(seen.dst_mac, sender.mac);
    assert_eq!(seen.src_mac, Mac::GATEWAY);
    assert_eq!(seen.vlan, sender.vlan);
    // The sender's gateway, or the one next to the receiver.
    let near = if sender.node == receiver.node {
        &sender
    } else {
        &receiver
    };
    assert_eq!(seen.src, gateway(near.subnet, talk.v6));
    let ip = *packet::parse(fate.frame()).expect("good").ip().expect("IP");
    let L4::IcmpError(error) = ip.l4_kind else {
        panic!("{ip:?}")
    };
    assert_eq!(error.inner.dst, receiver.ip(talk.v6));
    error.mtu
}

#[test]
fn the_sender_is_told_on_this_node_and_on_another() {
    // Local; tagged; remote; remote and routed; routed on one node.
    for (a, b) in [("a", "b"), ("b", "a"), ("a", "c"), ("b", "d"), ("a", "e")] {
        for v6 in [false, true] {
            let mut bed = Bed::new();
            narrow(&mut bed, b, TAKES);
            let talk = Talk {
                v6,
                ..Talk::new(a, b)
            };
            let far = bed.place(b).node;
            let before = bed.counters(far).connections.opened;
            let fate = talk.send(&mut bed, false, UDP, 1390);
            assert_eq!(told(&bed, &talk, &fate), TAKES.into());
            assert_eq!(bed.counters(far).connections.opened, before);
            // What fits to the byte passes, and is answered.
            let headers = if v6 { 48 } else { 28 };
            let fits = usize::from(TAKES) - headers;
            assert_eq!(talk.send(&mut bed, false, UDP, fits).at(), b);
            assert_eq!(talk.udp(&mut bed, true).at(), a);
            assert_eq!(talk.udp(&mut bed, false).at(), b);
            // Now the NIC has it, and asks about what is too large.
            assert_eq!(bed.counters(far).offload.live, 1);
            let fate = talk.send(&mut bed, false, UDP, fits + 1);
            assert_eq!(told(&bed, &talk, &fate), TAKES.into());
        }
    }
}

#[test]
fn an_uplink_that_takes_less_than_it_was_said_to() {
    for (mut bed, overhead) in [(Bed::new(), 50), (Bed::over_v6(), 70)] {
        bed.nodes[0].engine.set_device_mtu(UPLINK, 1400);
        let talk = Talk::new("a", "c");
        let fate = talk.send(&mut bed, false, UDP, 1400);
        assert_eq!(fate.at(), "a");
        let ip = *packet::parse(fate.frame()).expect("good").ip().expect("IP");
        let L4::IcmpError(error) = ip.l4_kind else {
            panic!("{ip:?}")
        };
        assert_eq!(error.mtu, 1400 - overhead);
        assert_eq!(bed.counters(0).connections.opened, 0);
        let fits = 1400 - overhead as usize - 28;
        assert_eq!(talk.send(&mut bed, false, UDP, fits).at(), "c");
    }
}

#[test]
fn a_far_sender_is_told_only_what_policy_lets_it_ask_and_not_too_often() {
    let mut bed = Bed::with(
        Config {
            icmp_errors_per_second: 3,
            ..config()
        },
        capacities(),
    );
    narrow(&mut bed, "c", TAKES);
    let talk = Talk::new("a", "c");
    let fates: Vec<Fate> = (0..5)
        .map(|_| talk.send(&mut bed, false, UDP, 1390))
        .collect();
    let oversized = Fate::Dropped {
        node: 1,
        reason: DropReason::Oversized,
    };
    assert!(fates[..3].iter().all(|f| f.at() == "a"), "{fates:?}");
    assert_eq!(fates[3..], [oversized.clone(), oversized]);

    let mut bed = Bed::new();
    narrow(&mut bed, "c", TAKES);
    bed.change(|_, policy| {
        let other = rule("other", Direction::Ingress, Some(17), &[(9, 9)], vec![]);
        put_group(policy, 7, group(BLUE, true, false, vec![other]));
        if let Some(port) = policy.ports.get_mut(&3) {
            port.groups = vec![7];
        }
    });
    let fate = talk.send(&mut bed, false, UDP, 1390);
    assert_eq!(fate.reason(), Some(DropReason::DeniedIngress));
}

#[test]
fn an_error_that_is_too_large_is_not_answered() {
    let mut bed = Bed::new();
    let talk = Talk::new("a", "c");
    let sent = talk.udp(&mut bed, false).frame().to_vec();
    narrow(&mut bed, "a", 100);
    let error = crate::related::error(&bed, "c", "a", false, (3, 3, 0), &sent[14..], 200);
    let fate = bed.send("c", &error);
    assert_eq!(fate.reason(), Some(DropReason::Oversized), "{fate:?}");
}

#[test]
fn no_gateway_speaks_for_a_port_that_lives_elsewhere() {
    let mut bed = Bed::new();
    let local = Talk::new("a", "b");
    let sent = build(&local.headers(&bed, false, UDP), 64);
    assert_eq!(bed.send("a", &sent).at(), "b");
    // "Too big" from the other node, about a flow that never went there.
    let mut error = crate::related::error(&bed, "c", "a", false, (3, 4, 600), &sent[14..], 28);
    let router = gateway(1, false).v4_octets().expect("IPv4");
    crate::related::set_source(&mut error, router);
    let outer = crate::wire::from_node(1, &error);
    let fate = bed.arrive(0, UPLINK, &outer);
    assert_eq!(fate.reason(), Some(DropReason::WrongVtep));
}
