//! Policy on first packets, and what its changes do to what is open.

use penstock_engine::nic::{Entry, Hop, Op};
use penstock_engine::record::Event;
use penstock_flow::tuple::proto;
use penstock_flow::{DropReason, Mac, Prefix};
use penstock_rules::model::{Direction, Policy};

use crate::bed::talk::Talk;
use crate::bed::world::{BLUE, DEVICE, GROUP, UPLINK, group, put_group, rule, uplink_mac, vtep};
use crate::bed::{Bed, Fate, SECOND, capacities, config};

/// Ports of the group are closed both ways but for TCP 80 in at `ingress` and
/// TCP 80 out at `egress`.
fn web(bed: &mut Bed, members: &'static [&'static str], ingress: bool, egress: bool) {
    let ids: Vec<u32> = members.iter().map(|m| bed.place(m).id).collect();
    bed.change(|_, policy| {
        let mut rules = vec![];
        for (on, name, direction) in [
            (ingress, "web-in", Direction::Ingress),
            (egress, "web-out", Direction::Egress),
        ] {
            if on {
                rules.push(rule(name, direction, Some(proto::TCP), &[(80, 80)], vec![]));
            }
        }
        put_group(policy, GROUP, group(BLUE, true, true, rules));
        join(policy, &ids);
    });
}

fn join(policy: &mut Policy, ids: &[u32]) {
    for (id, port) in &mut policy.ports {
        port.groups = if ids.contains(id) {
            vec![GROUP]
        } else {
            vec![]
        };
    }
    for endpoint in policy.endpoints.values_mut() {
        endpoint.groups = if ids.contains(&endpoint.port) {
            vec![GROUP]
        } else {
            vec![]
        };
    }
}

/// From `node` to the other one.
fn remote_hop(node: usize) -> Hop {
    Hop::ToVtep {
        src_vtep: vtep(node),
        dst_vtep: vtep(1 - node),
        src_mac: uplink_mac(node),
        dst_mac: Mac::default(),
        vni: BLUE,
        mtu: 1450,
        device_port: UPLINK,
    }
}

#[test]
fn each_end_judges_by_its_own_policy() {
    for (a, b, other) in [("a", "c", 1), ("a", "b", 0)] {
        for (members, ingress, egress, want) in [
            (&["b", "c"][..], true, false, None),
            (
                &["b", "c"],
                false,
                true,
                Some((other, DropReason::DeniedIngress)),
            ),
            (&["a"], false, true, None),
            (&["a"], true, false, Some((0, DropReason::DeniedEgress))),
        ] {
            let mut bed = Bed::new();
            web(&mut bed, members, ingress, egress);
            let talk = Talk::new(a, b);
            match (talk.syn(&mut bed), want) {
                (Fate::Delivered { port, .. }, None) => {
                    assert_eq!(port, b);
                    // The way back needs no rule of its own.
                    talk.open(&mut bed);
                }
                (Fate::Dropped { node, reason }, Some(want)) => {
                    assert_eq!((node, reason), want);
                    let drops: Vec<_> = bed.nodes[node].engine.drops().collect();
                    assert_eq!(drops.len(), 1);
                    assert_eq!(drops[0].event, Event::Denied(reason));
                    assert_eq!(drops[0].rule.as_str(), "");
                    assert_eq!(bed.counters(node).connections.live, 0, "nothing is left");
                }
                (fate, want) => panic!("{a}-{b} {members:?}: {fate:?}, not {want:?}"),
            }
        }
    }
}

#[test]
fn what_a_rule_has_admitted_is_cut_when_the_rule_goes() {
    for (a, b, other) in [("a", "c", 1), ("a", "b", 0)] {
        // Cut by the next packet, or by the sweep.
        for swept in [false, true] {
            let mut bed = Bed::new();
            web(&mut bed, &["b", "c"], true, true);
            let talk = Talk::new(a, b);
            talk.open(&mut bed);
            talk.data(&mut bed, false);
            let node = &bed.nodes[other].engine;
            assert_eq!(node.rule_hits().iter().sum::<u64>(), 1);
            web(&mut bed, &["b", "c"], false, true);
            if swept {
                for _ in 0..4 {
                    bed.tick();
                }
            } else {
                let fate = talk.data(&mut bed, false);
                let reason = DropReason::DeniedIngress;
                assert_eq!(
                    fate,
                    Fate::Dropped {
                        node: other,
                        reason
                    }
                );
            }
            let node = &bed.nodes[other].engine;
            let cut: Vec<_> = node.drops().collect();
            assert_eq!(cut.len(), 1, "{cut:?}");
            assert_eq!(cut[0].event, Event::Revoked);
            assert_eq!(cut[0].rule.as_str(), "group/rules/web-in");
            assert_eq!(cut[0].generation, node.generation());
            let mut left = 0;
            node.visit_flow_entries(bed.now, DEVICE, &mut |_| left += 1);
            assert_eq!(left, 0, "both halves are out of the NIC");
            assert_eq!(node.counters().connections.live, 0);
            for back in [false, true] {
                let reason = talk.data(&mut bed, back).reason();
                assert_eq!(reason, Some(DropReason::InvalidState), "back {back}");
            }
        }
    }
}

#[test]
fn a_change_that_closes_nothing_loses_nothing() {
    let mut bed = Bed::new();
    web(&mut bed, &["c"], true, true);
    let talk = Talk::new("a", "c");
    talk.open(&mut bed);
    for i in 0..50 {
        bed.change(|_, policy| {
            if let Some(g) = policy.lists.get_mut(&GROUP) {
                let extra = format!("extra{i}");
                g.rules.insert(
                    0,
                    rule(
                        &extra,
                        Direction::Ingress,
                        Some(proto::UDP),
                        &[(i, i)],
                        vec![],
                    ),
                );
            }
        });
        for back in [false, true, false, true] {
            assert!(!talk.data(&mut bed, back).at().is_empty());
        }
        bed.tick();
    }
    // No change can close anything, so the NIC goes on answering.
    let c = bed.counters(0);
    assert_eq!((c.nic.packets, c.slow.packets), (200, 3), "{c:?}");
    let mut rules = Vec::new();
    bed.nodes[1].engine.visit_flows(bed.now, None, &mut |f| {
        rules.push(f.rule.to_owned());
        true
    });
    assert_eq!(rules, ["group/rules/web-in"], "named in the newest ruleset");
}

#[test]
fn udp_is_cut_as_tcp_is() {
    let mut bed = Bed::new();
    let talk = Talk::new("a", "c");
    for back in [false, true, false] {
        assert!(!talk.udp(&mut bed, back).at().is_empty());
    }
    web(&mut bed, &["c"], true, true);
    assert_eq!(
        talk.udp(&mut bed, true).reason(),
        Some(DropReason::DeniedIngress),
        "the reply belongs to what was opened inwards"
    );
    assert_eq!(
        talk.udp(&mut bed, false).reason(),
        Some(DropReason::DeniedIngress)
    );
    assert_eq!(
        talk.udp(&mut bed, true).reason(),
        Some(DropReason::DeniedEgress)
    );
}

#[test]
fn no_policy_no_traffic() {
    let mut bed = Bed::new();
    bed.change(|node, policy| {
        let gone = if node == 0 { 1 } else { 3 };
        policy.ports.remove(&gone);
    });
    let ready = Some(DropReason::PortNotReady);
    assert_eq!(Talk::new("a", "b").syn(&mut bed).reason(), ready);
    assert_eq!(Talk::new("b", "a").syn(&mut bed).reason(), ready);
    assert_eq!(
        Talk::new("b", "c").syn(&mut bed),
        Fate::Dropped {
            node: 1,
            reason: DropReason::PortNotReady
        }
    );
    assert_eq!(Talk::new("b", "d").syn(&mut bed).at(), "d");
}

#[test]
fn a_port_that_goes_takes_its_connections_along() {
    let mut bed = Bed::new();
    let talk = Talk::new("a", "c");
    talk.open(&mut bed);
    Talk::new("b", "c").open(&mut bed);
    bed.change(|_, policy| {
        policy.ports.remove(&1);
    });
    for _ in 0..5 {
        bed.tick();
    }
    let c = bed.counters(0);
    assert_eq!((c.connections.live, c.connections.orphaned), (1, 1));
    assert_eq!(c.offload.live, 1);
    assert_eq!(bed.counters(1).connections.live, 2, "not its port");
}

#[test]
fn one_end_judged_again_does_not_speak_for_the_other() {
    // The walk takes one connection a tick; a's comes first.
    let config = penstock_engine::Config {
        sweep_slice: 1,
        ..config()
    };
    for ticks in 0..3 {
        let mut bed = Bed::with(config.clone(), capacities());
        // Let the walk of the first policy end.
        for _ in 0..256 {
            bed.tick();
        }
        let talk = Talk::new("a", "b");
        talk.open(&mut bed);
        web(&mut bed, &["b"], false, true);
        for _ in 0..ticks {
            bed.tick();
        }
        assert!(talk.data(&mut bed, false).reason().is_some(), "{ticks}");
    }
}

#[test]
fn a_port_that_is_unbound_loses_its_connections_without_a_policy_change() {
    let mut bed = Bed::new();
    Talk::new("a", "c").open(&mut bed);
    let a = bed.place("a");
    let vport = Entry::Vport {
        device_port: a.device_port(),
        vlan: 0,
        port_id: a.id,
        vni: BLUE,
    };
    bed.write(0, Op::Delete, vport);
    for _ in 0..5 {
        bed.tick();
    }
    assert_eq!(bed.counters(0).connections.live, 0);
    assert_eq!(bed.counters(0).offload.live, 0);
}

/// b goes from node 0, where a is, to node 1, and a's connection goes with it.
#[test]
fn a_connection_survives_the_move_of_its_other_end() {
    let mut bed = Bed::new();
    let talk = Talk::new("a", "b");
    talk.open(&mut bed);
    talk.data(&mut bed, false);
    let b = bed.place("b");
    let vport = Entry::Vport {
        device_port: b.device_port(),
        vlan: b.vlan,
        port_id: b.id,
        vni: BLUE,
    };
    let to_port = Hop::ToPort {
        device_port: b.device_port(),
        vlan: b.vlan,
        dst_mac: b.mac,
    };
    // One write moves it on the node it leaves.
    let remote = remote_hop(0);
    bed.write(
        0,
        Op::Modify,
        Entry::Nexthop {
            id: b.id,
            hop: remote,
        },
    );
    bed.write(0, Op::Delete, vport);
    bed.write(1, Op::Insert, vport);
    bed.write(
        1,
        Op::Insert,
        Entry::Nexthop {
            id: b.id,
            hop: to_port,
        },
    );
    for ip in &b.ips {
        let (vni, dst) = (BLUE, Prefix::new(*ip, 128).expect("a host"));
        bed.write(
            1,
            Op::Modify,
            Entry::Mapping {
                vni,
                dst,
                nexthop: b.id,
            },
        );
        bed.write(
            1,
            Op::Insert,
            Entry::SpoofGuard {
                port_id: b.id,
                mac: b.mac,
                ip: *ip,
            },
        );
    }
    let moved = bed.nodes[0].policy.ports[&b.id].clone();
    bed.change(|node, policy| {
        if node == 0 {
            policy.ports.remove(&b.id);
        } else {
            policy.ports.insert(b.id, moved.clone());
        }
    });
    for place in &mut bed.places {
        if place.name == "b" {
            place.node = 1;
        }
    }
    for _ in 0..5 {
        bed.tick();
    }
    assert_eq!(bed.counters(0).connections.live, 1, "a's");
    // As after a restart: node 1 has never seen the connection.
    bed.nodes[1].engine.recover_until(bed.now + SECOND);
    for i in 0..10 {
        let back = i % 2 == 0;
        let fate = talk.data(&mut bed, back);
        assert_eq!(fate.at(), if back { "a" } else { "b" }, "{fate:?}");
    }
    assert_eq!(bed.counters(1).connections.adopted, 1);
    let mut ingress = Vec::new();
    bed.nodes[0]
        .engine
        .visit_flow_entries(bed.now, DEVICE, &mut |e| ingress.push(e.ingress));
    ingress.sort_unstable();
    assert_eq!(ingress, [0, bed.place("a").id], "the wire answers now");
    assert_eq!(bed.counters(0).connections.opened, 2, "none anew");
}

#[test]
fn old_policies_come_back_once_nothing_refers_to_them() {
    let mut bed = Bed::new();
    while bed.nodes[0].engine.take_retired().is_some() {}
    Talk::new("a", "c").open(&mut bed);
    web(&mut bed, &["c"], true, true);
    assert!(bed.nodes[0].engine.rejudging());
    assert!(bed.nodes[0].engine.take_retired().is_none());
    for _ in 0..5 {
        bed.tick();
    }
    assert!(!bed.nodes[0].engine.rejudging());
    let old = bed.nodes[0].engine.take_retired().expect("the first one");
    assert_eq!(old.ruleset.generation(), 1);
    assert!(bed.nodes[0].engine.take_retired().is_none());
}
