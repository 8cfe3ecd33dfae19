//! Ports that change their VPC, or lose an address. Policy comes first and the tables
//! follow, on NICs of any pace: nothing that was allowed before lasts.

use penstock_engine::nic::{Entry, Hop, Op};
use penstock_flow::{DropReason, Prefix};
use penstock_rules::model::{Endpoint, Policy};

use crate::bed::frames::{ACK, SYN};
use crate::bed::talk::Talk;
use crate::bed::world::{BLUE, GROUP, Place, RED, group, hop_to, put_group};
use crate::bed::{Bed, Fate, MS, capacities, config};

const PACES: [u64; 2] = [0, MS];
/// RED's subnet with the addresses of BLUE's first one.
const RED_SUBNET: u32 = 21;

fn until_fenced(bed: &mut Bed) {
    for _ in 0..100 {
        if bed.nodes.iter().all(|n| n.engine.fences_stand()) {
            return;
        }
        bed.tick();
    }
    panic!("no fence within a tenth of a second");
}

/// Closes a port's ingress on its node.
fn close(policy: &mut Policy, port: u32, vni: u32) {
    put_group(policy, GROUP, group(vni, true, false, vec![]));
    if let Some(port) = policy.ports.get_mut(&port) {
        port.groups = vec![GROUP];
    }
}

/// Moves `from` into RED: in the policy, and what the bed knows of it.
fn move_to_red(bed: &mut Bed, from: &Place) {
    bed.change(|_, policy| {
        for ip in &from.ips {
            if let Some(endpoint) = policy.endpoints.remove(&(BLUE, *ip)) {
                policy.endpoints.insert((RED, *ip), endpoint);
            }
        }
        if let Some(port) = policy.ports.get_mut(&from.id) {
            (port.vni, port.subnet) = (RED, RED_SUBNET);
            close(policy, from.id, RED);
        }
    });
    for place in &mut bed.places {
        if place.id == from.id {
            (place.vni, place.subnet) = (RED, RED_SUBNET);
        }
    }
}

fn mapping(place: &Place, n: usize, node: usize, vni: u32) -> Entry {
    Entry::Mapping {
        vni,
        dst: Prefix::new(place.ips[n], 128).expect("a host"),
        nexthop: if place.node == node {
            place.id
        } else {
            hop_to(place.node) + vni
        },
    }
}

/// The tables of both nodes follow `move_to_red`.
fn tables_follow(bed: &mut Bed, from: &Place) {
    let entry = Entry::Vport {
        device_port: from.device_port(),
        vlan: from.vlan,
        port_id: from.id,
        vni: RED,
    };
    bed.write(from.node, Op::Modify, entry);
    for node in [0, 1] {
        for n in 0..from.ips.len() {
            bed.write(node, Op::Delete, mapping(from, n, node, BLUE));
            bed.write(node, Op::Insert, mapping(from, n, node, RED));
        }
    }
}

/// How many flows a port has here.
fn flows_of(bed: &Bed, node: usize, port: u32) -> usize {
    let mut flows = 0;
    bed.nodes[node]
        .engine
        .visit_flows(bed.now, Some(port), &mut |_| {
            flows += 1;
            true
        });
    flows
}

#[track_caller]
fn is_refused(fate: &Fate, reasons: &[DropReason]) {
    let reason = fate.reason();
    assert!(reason.is_some_and(|r| reasons.contains(&r)), "{fate:?}");
}

#[test]
fn a_port_in_another_vpc_takes_no_connection_along() {
    for pace in PACES {
        let mut bed = Bed::slow(config(), capacities(), pace);
        // y has in RED the address that c has in BLUE.
        let (blue, red) = (Talk::new("b", "c"), Talk::new("b", "y"));
        blue.open(&mut bed);
        for back in [false, true, false] {
            assert!(!blue.udp(&mut bed, back).at().is_empty());
        }
        Talk::new("a", "b").open(&mut bed);
        bed.settle();
        let b = bed.place("b");
        move_to_red(&mut bed, &b);
        until_fenced(&mut bed);
        // The tables still are as they were.
        for _ in 0..5 {
            let sent = [
                blue.data(&mut bed, false),
                blue.data(&mut bed, true),
                blue.udp(&mut bed, false),
                blue.udp(&mut bed, true),
                Talk::new("a", "b").data(&mut bed, false),
                Talk::new("a", "b").data(&mut bed, true),
            ];
            for fate in sent {
                is_refused(&fate, &[DropReason::PortNotReady]);
            }
            bed.tick();
        }
        bed.settle();
        assert_eq!(flows_of(&bed, 0, b.id), 0, "pace {pace}");
        tables_follow(&mut bed, &b);
        until_fenced(&mut bed);
        // What looks like an answer answers nothing: b lets nobody in.
        let fate = red.udp(&mut bed, true);
        is_refused(&fate, &[DropReason::DeniedIngress]);
        let fate = red.tcp(&mut bed, true, SYN, 1, 0, 0);
        is_refused(&fate, &[DropReason::DeniedIngress]);
        let fate = red.tcp(&mut bed, false, ACK, 1001, 5001, 9);
        is_refused(&fate, &[DropReason::InvalidState]);
        // What it opens itself is RED's.
        assert_eq!(red.udp(&mut bed, false).at(), "y");
        assert_eq!(red.udp(&mut bed, true).at(), "b");
        bed.settle();
        assert_eq!(flows_of(&bed, 0, b.id), 1);
    }
}

#[test]
fn a_port_that_moves_before_it_is_looked_at_again_takes_no_connection_along() {
    for pace in PACES {
        let mut bed = Bed::slow(config(), capacities(), pace);
        let (blue, red) = (Talk::new("b", "c"), Talk::new("b", "y"));
        for back in [false, true, false] {
            assert!(!blue.udp(&mut bed, back).at().is_empty());
        }
        let b = bed.place("b");
        move_to_red(&mut bed, &b);
        tables_follow(&mut bed, &b);
        until_fenced(&mut bed);
        let fate = red.udp(&mut bed, true);
        is_refused(&fate, &[DropReason::DeniedIngress]);
        bed.settle();
        assert_eq!(flows_of(&bed, 0, b.id), 0, "pace {pace}");
    }
}

#[test]
fn a_vpc_with_another_vni_has_no_connection_of_the_old_one() {
    const GREEN: u32 = 300;
    for pace in PACES {
        let mut bed = Bed::slow(config(), capacities(), pace);
        let talks = [
            Talk::new("a", "b"),
            Talk::new("a", "c"),
            Talk::new("d", "e"),
        ];
        let other = Talk::new("x", "y");
        for talk in talks.iter().chain([&other]) {
            talk.open(&mut bed);
            talk.data(&mut bed, false);
            talk.data(&mut bed, true);
        }
        bed.settle();
        bed.change(|_, policy| {
            let vpc = policy.vpcs.remove(&BLUE).expect("a VPC");
            policy.vpcs.insert(GREEN, vpc);
            let subnets = policy.subnets.values_mut().map(|it| &mut it.vni);
            let ports = policy.ports.values_mut().map(|it| &mut it.vni);
            for vni in subnets.chain(ports).filter(|vni| **vni == BLUE) {
                *vni = GREEN;
            }
            let all = std::mem::take(&mut policy.endpoints);
            let green = |((vni, ip), it)| ((if vni == BLUE { GREEN } else { vni }, ip), it);
            policy.endpoints = all.into_iter().map(green).collect();
        });
        until_fenced(&mut bed);
        for _ in 0..3 {
            for talk in &talks {
                for back in [false, true] {
                    is_refused(&talk.data(&mut bed, back), &[DropReason::PortNotReady]);
                }
            }
            assert_eq!(other.data(&mut bed, false).at(), "y");
            bed.tick();
        }
        bed.settle();
        for node in [0, 1] {
            assert_eq!(bed.counters(node).connections.live, 1, "the other VPC's");
            assert_eq!(bed.counters(node).offload.live, 1);
        }
    }
}

#[test]
fn an_address_that_a_port_has_lost_is_not_its_own_from_then_on() {
    for pace in PACES {
        let mut bed = Bed::slow(config(), capacities(), pace);
        let lost = Talk::new("a", "c");
        let kept = Talk { v6: true, ..lost };
        let local = Talk::new("b", "a");
        for talk in [&lost, &kept, &local] {
            talk.open(&mut bed);
            talk.data(&mut bed, false);
            talk.data(&mut bed, true);
        }
        bed.settle();
        let (a, b) = (bed.place("a"), bed.place("b"));
        // b gets it, and lets nobody in.
        bed.change(|_, policy| {
            if let Some(port) = policy.ports.get_mut(&a.id) {
                port.ips.retain(|ip| *ip != a.ip(false));
            }
            if let Some(port) = policy.ports.get_mut(&b.id) {
                port.ips.push(a.ip(false));
                close(policy, b.id, BLUE);
            }
            let endpoint = Endpoint {
                mac: b.mac,
                port: b.id,
                groups: vec![],
            };
            policy.endpoints.insert((BLUE, a.ip(false)), endpoint);
        });
        until_fenced(&mut bed);
        for _ in 0..5 {
            // The tables still are as they were.
            is_refused(&lost.data(&mut bed, false), &[DropReason::Spoofed]);
            is_refused(&lost.data(&mut bed, true), &[DropReason::NoRoute]);
            is_refused(&local.data(&mut bed, true), &[DropReason::Spoofed]);
            is_refused(&local.data(&mut bed, false), &[DropReason::NoRoute]);
            assert_eq!(kept.data(&mut bed, false).at(), "c");
            assert_eq!(kept.data(&mut bed, true).at(), "a");
            bed.tick();
        }
        bed.settle();
        assert_eq!(flows_of(&bed, 0, a.id), 1, "pace {pace}");
        let Entry::Mapping { vni, dst, .. } = mapping(&a, 0, 0, BLUE) else {
            panic!("a mapping");
        };
        let nexthop = b.id;
        bed.write(0, Op::Modify, Entry::Mapping { vni, dst, nexthop });
        until_fenced(&mut bed);
        let fate = lost.data(&mut bed, true);
        is_refused(&fate, &[DropReason::InvalidState]);
        let new = Talk { sport: 7, ..lost };
        let fate = new.tcp(&mut bed, true, SYN, 1, 0, 0);
        is_refused(&fate, &[DropReason::DeniedIngress]);
        // Had back, it has nothing of its past.
        bed.write(0, Op::Modify, mapping(&a, 0, 0, BLUE));
        bed.change(|_, policy| {
            if let Some(port) = policy.ports.get_mut(&b.id) {
                port.ips.retain(|ip| *ip != a.ip(false));
            }
            if let Some(port) = policy.ports.get_mut(&a.id) {
                port.ips = a.ips.clone();
            }
        });
        until_fenced(&mut bed);
        is_refused(&lost.data(&mut bed, false), &[DropReason::InvalidState]);
    }
}

#[test]
fn many_ports_that_lose_addresses_are_fenced_as_their_vpc() {
    // All ports of both nodes at once, and each by itself.
    let mut bed = Bed::slow(config(), capacities(), MS);
    let talks = [
        Talk::new("a", "b"),
        Talk::new("e", "d"),
        Talk::new("x", "y"),
    ];
    for talk in &talks {
        talk.open(&mut bed);
    }
    bed.settle();
    bed.change(|_, policy| {
        for port in policy.ports.values_mut() {
            port.ips.retain(|ip| !ip.is_v4());
        }
    });
    until_fenced(&mut bed);
    for talk in &talks {
        is_refused(&talk.data(&mut bed, false), &[DropReason::Spoofed]);
        is_refused(&talk.data(&mut bed, true), &[DropReason::Spoofed]);
    }
    bed.settle();
    for node in [0, 1] {
        assert_eq!(bed.counters(node).connections.live, 0);
    }
}

/// Binds a port to the interface of another, or leads its next hop there.
fn vport(on: &Place, port: &Place) -> Entry {
    Entry::Vport {
        device_port: on.device_port(),
        vlan: on.vlan,
        port_id: port.id,
        vni: port.vni,
    }
}

fn nexthop(port: &Place, on: &Place) -> Entry {
    let hop = Hop::ToPort {
        device_port: on.device_port(),
        vlan: on.vlan,
        dst_mac: port.mac,
    };
    Entry::Nexthop { id: port.id, hop }
}

/// All orders of four.
fn orders() -> Vec<[usize; 4]> {
    let mut all = vec![];
    for n in 0..256_usize {
        let order = [n & 3, n >> 2 & 3, n >> 4 & 3, n >> 6];
        if (0..4).all(|i| order.contains(&i)) {
            all.push(order);
        }
    }
    all
}

/// Two ports exchange their interfaces, entry by entry: of one VPC, and of two with the
/// same addresses.
#[test]
fn nobody_gets_what_is_for_the_port_that_has_left_its_interface() {
    assert_eq!(orders().len(), 24);
    for (first, second) in [("a", "b"), ("a", "x")] {
        for (pace, order) in PACES
            .iter()
            .flat_map(|p| orders().into_iter().map(|o| (*p, o)))
        {
            let mut bed = Bed::slow(config(), capacities(), pace);
            let (p, q) = (bed.place(first), bed.place(second));
            let far = |port: &Place| if port.vni == RED { "y" } else { "c" };
            let talks = [Talk::new(far(&p), p.name), Talk::new(far(&q), q.name)];
            for talk in &talks {
                talk.open(&mut bed);
                talk.data(&mut bed, false);
                talk.data(&mut bed, true);
            }
            bed.settle();
            bed.change(|_, policy| {
                for (port, on) in [(&p, &q), (&q, &p)] {
                    if let Some(port) = policy.ports.get_mut(&port.id) {
                        port.attachment = on.name.into();
                    }
                }
            });
            let writes = [
                vport(&p, &q),
                vport(&q, &p),
                nexthop(&p, &q),
                nexthop(&q, &p),
            ];
            let mut bound = [(p.name, p.name), (q.name, q.name)];
            let mut got = 0;
            for which in order {
                bed.write(0, Op::Modify, writes[which]);
                if which < 2 {
                    bound[which].1 = [q.name, p.name][which];
                }
                until_fenced(&mut bed);
                for (talk, port) in talks.iter().zip([&p, &q]) {
                    let new = Talk { sport: 7, ..*talk };
                    for fate in [talk.data(&mut bed, false), new.udp(&mut bed, false)] {
                        if let Fate::Delivered { port: on, .. } = &fate {
                            let whose = bound.iter().find(|(at, _)| at == on);
                            assert_eq!(whose, Some(&(*on, port.name)), "{order:?} {fate:?}");
                            got += 1;
                        }
                    }
                }
            }
            bed.settle();
            // In the end each is where it went.
            assert!(got >= 2, "{got}");
            for (talk, on) in talks.iter().zip([&q, &p]) {
                let new = Talk { sport: 8, ..*talk };
                assert_eq!(new.udp(&mut bed, false).at(), on.name);
            }
        }
    }
}
