//! Packets near the edges of a model's rules.

use penstock_flow::{Addr, Prefix};
use penstock_policies::explain::Direction;
use penstock_policies::model::{Group, Model, Peer, PortName, Rule};

use super::rules::{EDGES, KINDS};
use super::{Random, model};
use crate::Packet;

/// As many packets of ports of the model, none if it has no ports.
pub fn packets(random: &mut Random, of: &Model, count: usize) -> Vec<Packet> {
    let ports: Vec<&PortName> = of.ports.keys().collect();
    if ports.is_empty() {
        return Vec::new();
    }
    let addresses = addresses(of);
    (0..count)
        .map(|_| {
            let protocol = *random.pick(&[1, 6, 6, 17, 17, 17, 58, 132, 47]);
            let destination_port = match protocol {
                1 | 58 => u16::from_be_bytes([near(random, &KINDS), near(random, &KINDS)]),
                _ => near_edge(random),
            };
            Packet {
                port: (*random.pick(&ports)).clone(),
                direction: *random.pick(&[Direction::Ingress, Direction::Egress]),
                peer: peer(random, &addresses),
                protocol,
                source_port: near_edge(random),
                destination_port,
            }
        })
        .collect()
}

/// Of every port, and the ends of every prefix.
fn addresses(of: &Model) -> Vec<Addr> {
    let mut all: Vec<Addr> = of
        .ports
        .values()
        .flat_map(|port| port.ips.clone())
        .collect();
    let mut ends = |prefix: Prefix| {
        let host_bits = u128::MAX.checked_shr(u32::from(prefix.len())).unwrap_or(0);
        all.push(prefix.addr());
        all.push(Addr(prefix.addr().0 | host_bits));
    };
    let in_groups = of.groups.values().flat_map(|Group { rules, .. }| rules);
    let in_policies = of.policies.values().flat_map(|policy| &policy.rules);
    for Rule { peers, .. } in in_groups.chain(in_policies) {
        for peer in peers {
            if let Peer::Cidr { prefix, except } = peer {
                ends(*prefix);
                except.iter().copied().for_each(&mut ends);
            }
        }
    }
    for set in of.prefix_sets.values() {
        set.prefixes.iter().copied().for_each(&mut ends);
    }
    for vpc in of.vpcs.values() {
        vpc.cidrs.iter().copied().for_each(&mut ends);
    }
    all
}

fn peer(random: &mut Random, addresses: &[Addr]) -> Addr {
    if addresses.is_empty() || random.once_in(16) {
        return model::prefix(random).addr();
    }
    let at = random.pick(addresses).0;
    Addr(match random.below(6) {
        0 => at.wrapping_add(1),
        1 => at.wrapping_sub(1),
        _ => at,
    })
}

fn near_edge(random: &mut Random) -> u16 {
    let edge = *random.pick(&EDGES);
    match random.below(4) {
        0 => edge.wrapping_add(1),
        1 => edge.wrapping_sub(1),
        _ => edge,
    }
}

fn near(random: &mut Random, edges: &[u8]) -> u8 {
    let edge = *random.pick(edges);
    if random.once_in(4) {
        edge.wrapping_add(1)
    } else {
        edge
    }
}
