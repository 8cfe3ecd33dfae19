//! The difference of two models against the reference, packet by packet: what changes
//! is told, as it changes, and nothing else is.

use std::collections::BTreeMap;

use penstock_flow::Addr;
use penstock_policies::diff::{Change, Comparison, Effect, Family, LIMIT, Outcome};
use penstock_policies::explain::Direction;
use penstock_policies::model::{Model, PortName, VpcName};
use penstock_policies::nic::{self, Interfaces};
use penstock_policies::{Ids, usage};
use penstock_reference::random::{self, Random};
use penstock_reference::{Judged, Packet, Verdict, judge};

const PER_MODEL: usize = 300;

/// Either end: a port with its address, or an address outside.
type End = (Option<PortName>, Addr);

fn outcome(model: &Model, from: &End, to: &End, packet: &Packet) -> Outcome {
    let ends = [
        (from, to.1, Direction::Egress),
        (to, from.1, Direction::Ingress),
    ];
    let mut judged: Vec<Option<Judged>> = Vec::new();
    for ((port, addr), peer, direction) in ends {
        let Some(port) = port else {
            judged.push(None);
            continue;
        };
        let declared = model.ports.get(port);
        if !declared.is_some_and(|declared| declared.ips.contains(addr)) {
            return Outcome::Deny;
        }
        let packet = Packet {
            port: port.clone(),
            direction,
            peer,
            ..packet.clone()
        };
        judged.push(judge(model, &packet));
    }
    let refused = judged
        .iter()
        .flatten()
        .find(|it| it.verdict != Verdict::Allow);
    let stateless = |it: &Option<Judged>| it.as_ref().is_some_and(|it| !it.stateful);
    match refused.map(|it| it.verdict) {
        Some(Verdict::Reject) => Outcome::Reject,
        Some(_) => Outcome::Deny,
        None => Outcome::Allow {
            stateless_out: stateless(&judged[0]),
            stateless_in: stateless(&judged[1]),
        },
    }
}

/// Whether a group's names have an end in them.
fn has(names: &[String], (port, addr): &End) -> bool {
    names.iter().any(|name| match port {
        Some(port) => match name.split_once(" (") {
            Some((name, addresses)) => {
                name == port.as_str()
                    && addresses
                        .trim_end_matches(')')
                        .split(", ")
                        .any(|it| it == addr.to_string())
            }
            None => name == port.as_str(),
        },
        None => in_range(name, *addr),
    })
}

fn in_range(name: &str, addr: Addr) -> bool {
    let family = if addr.is_v4() { "IPv4" } else { "IPv6" };
    if name.starts_with("every ") {
        return name.contains(family);
    }
    let parse = |text: &str| text.parse::<std::net::IpAddr>().ok().map(Addr::from);
    if let Some((first, last)) = name
        .split_once('-')
        .and_then(|(a, b)| Some((parse(a)?, parse(b)?)))
    {
        return first.is_v4() == addr.is_v4() && (first..=last).contains(&addr);
    }
    let Some((first, len)) = name.split_once('/') else {
        return parse(name) == Some(addr);
    };
    let Some((first, len)) = parse(first).zip(len.parse::<u32>().ok()) else {
        return false;
    };
    let host = if first.is_v4() { 32 - len } else { 128 - len };
    let differs = (first.0 ^ addr.0).checked_shr(host).unwrap_or(0);
    first.is_v4() == addr.is_v4() && differs == 0
}

fn told(
    changes: &[Change],
    vpc: &VpcName,
    from: &End,
    to: &End,
    packet: &Packet,
) -> Vec<(Outcome, Outcome)> {
    let roce = packet.protocol == 17 && packet.destination_port == 4791;
    let protocol = match packet.protocol {
        1 => "ICMP",
        6 => "TCP",
        17 if roce => "ROCEV2",
        17 => "UDP",
        58 => "ICMPV6",
        132 => "SCTP",
        _ => "OTHER",
    };
    let within = |(first, last): (u16, u16), port: u16| (first..=last).contains(&port);
    let mut found = Vec::new();
    let family = if from.1.is_v4() {
        Family::V4
    } else {
        Family::V6
    };
    let here = changes.iter().filter(|it| {
        it.vpc == *vpc
            && it.over.is_none_or(|over| over == family)
            && has(&it.from, from)
            && has(&it.to, to)
    });
    for traffic in here.flat_map(|change| &change.traffic) {
        let expected = match (traffic.before, traffic.after) {
            (Outcome::Allow { .. }, Outcome::Allow { .. }) => Effect::Changes,
            (_, Outcome::Allow { .. }) => Effect::Opens,
            (Outcome::Allow { .. }, _) => Effect::Closes,
            _ => Effect::Changes,
        };
        assert_eq!(traffic.effect, expected);
        let matches = [protocol, "ANY"].contains(&traffic.protocol)
            && within(traffic.source_ports, packet.source_port)
            && traffic
                .ports
                .iter()
                .any(|ports| within(*ports, packet.destination_port));
        if matches {
            found.push((traffic.before, traffic.after));
        }
    }
    found
}

/// The same documents with some of another set's.
fn changed(random: &mut Random, model: &Model, other: &Model) -> Model {
    let mut changed = model.clone();
    for (name, policy) in &other.policies {
        if random.once_in(3) {
            changed.policies.insert(name.clone(), policy.clone());
        }
    }
    for (name, group) in &other.groups {
        if random.once_in(3) {
            changed.groups.insert(name.clone(), group.clone());
        }
    }
    for (name, set) in &other.prefix_sets {
        if random.once_in(3) {
            changed.prefix_sets.insert(name.clone(), set.clone());
        }
    }
    for (name, port) in &other.ports {
        match random.below(8) {
            0 => drop(changed.ports.insert(name.clone(), port.clone())),
            1 => drop(changed.ports.remove(name)),
            _ => {}
        }
    }
    if random.once_in(4) {
        for (name, vpc) in &other.vpcs {
            changed.vpcs.insert(name.clone(), vpc.clone());
        }
    }
    if random.once_in(4) {
        changed.peered.clear();
        changed.peerings.clear();
    }
    // Rules may speak of ports that have gone; a valid model has none such.
    let ports = changed.ports.clone();
    let gone = |port: &PortName| !ports.contains_key(port);
    let rules = changed.groups.values_mut().map(|it| &mut it.rules);
    for rules in rules.chain(changed.policies.values_mut().map(|it| &mut it.rules)) {
        rules.retain(|rule| {
            !rule.peers.iter().any(
                |peer| matches!(peer, penstock_policies::model::Peer::Port(name) if gone(name)),
            )
        });
    }
    for policy in changed.policies.values_mut() {
        if let penstock_policies::model::AppliesTo::Some { ports, .. } = &mut policy.applies_to {
            ports.retain(|port| !gone(port));
        }
    }
    changed
}

#[test]
fn a_difference_tells_what_changes_and_nothing_else() {
    let models = if std::env::var_os("PENSTOCK_LONG").is_some() {
        2_000
    } else {
        60
    };
    let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..models {
        let mut random = Random::new(seed);
        let before = random::model(&mut random);
        let other = random::model(&mut random);
        let after = changed(&mut random, &before, &other);
        let comparison = Comparison::new(&before, &after).expect("valid models");
        let difference = comparison.difference(None, LIMIT).expect("small models");
        let ends: Vec<(PortName, Addr)> = [&before, &after]
            .iter()
            .flat_map(|model| &model.ports)
            .flat_map(|(name, port)| port.ips.iter().map(|ip| (name.clone(), *ip)))
            .collect();
        for packet in random::packets(&mut random, &before, PER_MODEL) {
            let vpc = packet.port.vpc();
            let from = random.pick(&ends).clone();
            let is_icmp_of = |v4: bool| match packet.protocol {
                1 => v4,
                58 => !v4,
                _ => true,
            };
            let mine: Vec<_> = ends
                .iter()
                .filter(|(name, ip)| name.vpc() == vpc && ip.is_v4() == from.1.is_v4())
                .collect();
            // Tunnels inside a VPC go nowhere, whatever policy says.
            let is_tunnel = packet.protocol == 17 && packet.destination_port == 4789;
            if is_tunnel || from.0.vpc() != vpc || !is_icmp_of(from.1.is_v4()) {
                continue;
            }
            let to = (*random.pick(&mine)).clone();
            let from: End = (Some(from.0), from.1);
            let to: End = (Some(to.0), to.1);
            // Outside, what the VPCs have is left out.
            let far = packet.peer;
            let is_outside = far.is_v4() == from.1.is_v4()
                && ![&before, &after]
                    .iter()
                    .flat_map(|model| model.vpcs.values())
                    .any(|vpc| vpc.cidrs.iter().any(|cidr| cidr.contains(far)));
            let mut pairs = vec![(from.clone(), to)];
            if is_outside {
                pairs.push((from.clone(), (None, far)));
                pairs.push(((None, far), from.clone()));
            }
            for (from, to) in pairs.into_iter().filter(|(from, to)| from.0 != to.0) {
                let was = outcome(&before, &from, &to, &packet);
                let is = outcome(&after, &from, &to, &packet);
                let want = if was == is { vec![] } else { vec![(was, is)] };
                let got = told(&difference.changes, &vpc, &from, &to, &packet);
                assert_eq!(got, want, "seed {seed}: {from:?} {to:?} {packet:?}");
                let what = match (was == is, from.0.is_some() && to.0.is_some()) {
                    (true, _) => "same",
                    (false, true) => "ports",
                    (false, false) => "outside",
                };
                *seen.entry(what).or_default() += 1;
            }
        }
    }
    println!("{seen:?}");
    for what in ["same", "ports", "outside"] {
        assert!(seen.get(what).is_some_and(|n| *n > 30), "{what}: {seen:?}");
    }
}

#[test]
fn a_model_does_not_differ_from_itself_and_too_much_is_refused() {
    let mut random = Random::new(7);
    let model = random::model(&mut random);
    let same = Comparison::new(&model, &model).expect("a valid model");
    let difference = same.difference(None, 0).expect("nothing to judge");
    assert!(difference.changes.is_empty() && difference.pairs == 0);
    let other = random::model(&mut random);
    let differs = Comparison::new(&model, &other).expect("valid models");
    let error = differs.difference(None, 100).expect_err("too much");
    assert!(error.to_string().contains("raise --limit"), "{error}");
}

/// Counting a NIC's entries is the same as making them.
#[test]
fn tables_are_counted_as_they_are_made() {
    for seed in 0..40 {
        let model = random::model(&mut Random::new(seed));
        let mut ids = Ids::default();
        ids.assign(&model).expect("ids");
        let usage = usage::of(&model);
        for node in model.nodes.keys() {
            let interfaces = Interfaces::made_up(&model, &ids, node).expect("ids");
            let programs = nic::programs(&model, &ids, node, &interfaces).expect("a valid model");
            let program = &programs[&1];
            let made = [
                ("vport", program.vport.len() as u64),
                ("underlay", program.underlay.len() as u64),
                ("spoof_guard", program.spoof_guard.len() as u64),
                ("mapping", program.mapping.len() as u64),
                ("nexthop", program.nexthop.len() as u64),
            ];
            assert_eq!(usage[&(node, 1)].tables(), made, "seed {seed}: {node}");
        }
    }
}
