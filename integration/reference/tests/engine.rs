//! Bytes through engines against the reference: each packet opens a connection of its
//! own between two ports, and arrives or not, by the rules that the reference names.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::thread;

use etherparse::{IpNumber, PacketBuilder};
use penstock_engine::nic::Capacities;
use penstock_flow::{Addr, DropReason, Mac, Tuple};
use penstock_offline::bed::{Bed, Carried, Fate, Passage, Sizes};
use penstock_policies::explain::Direction;
use penstock_policies::model::{Model, PortName};
use penstock_reference::random::{self, Random};
use penstock_reference::{By, Judged, Packet, Verdict, judge};

const PER_MODEL: usize = 250;
/// Between two packets, in nanoseconds.
const GAP: u64 = 1_000_000;

fn sizes() -> Sizes {
    let mut sizes = Sizes::default();
    sizes.engine.max_connections = 1024;
    sizes.engine.max_connections_per_port = 1024;
    sizes.engine.reserved_connections = 0;
    sizes.nic = Capacities {
        fence: 4,
        flow: 64,
        acl: 4,
        ..sizes.nic
    };
    sizes
}

fn frame(from: Mac, tuple: &Tuple) -> Vec<u8> {
    let ether = PacketBuilder::ethernet2(from.0, Mac::GATEWAY.0);
    let ip = match (tuple.src.to_ip(), tuple.dst.to_ip()) {
        (IpAddr::V4(s), IpAddr::V4(d)) => ether.ipv4(s.octets(), d.octets(), 64),
        (IpAddr::V6(s), IpAddr::V6(d)) => ether.ipv6(s.octets(), d.octets(), 64),
        _ => unreachable!("two families: {tuple:?}"),
    };
    let mut out = Vec::new();
    let payload = [0; 32];
    let (sport, dport) = (tuple.sport, tuple.dport);
    let written = match tuple.proto {
        1 => ip.icmpv4_echo_request(sport, 1).write(&mut out, &payload),
        58 => ip.icmpv6_echo_request(sport, 1).write(&mut out, &payload),
        6 => ip
            .tcp(sport, dport, 1, 60_000)
            .syn()
            .write(&mut out, &payload[..0]),
        17 => ip.udp(sport, dport).write(&mut out, &payload),
        132 => {
            let mut sctp = payload;
            sctp[..2].copy_from_slice(&sport.to_be_bytes());
            sctp[2..4].copy_from_slice(&dport.to_be_bytes());
            ip.write(&mut out, IpNumber(132), &sctp)
        }
        other => ip.write(&mut out, IpNumber(other), &payload),
    };
    written.expect("a frame");
    out
}

/// What a random packet is between two ports of one VPC: new each time, and such that
/// its first packet opens a connection.
fn tuple(
    random: &mut Random,
    model: &Model,
    packet: &Packet,
    number: u16,
) -> Option<(PortName, Tuple)> {
    let from = &model.ports[&packet.port];
    let vpc = packet.port.vpc();
    let others = model.ports.iter();
    let others: Vec<_> = others
        .filter(|(name, _)| name.vpc() == vpc && **name != packet.port)
        .collect();
    let (to, port) = *random.pick(&others);
    let src = *random.pick(&from.ips);
    let dst = *port.ips.iter().find(|ip| ip.is_v4() == src.is_v4())?;
    let (proto, sport, dport) = match packet.protocol {
        1 | 58 if src.is_v4() => (1, number, 0x0800),
        1 | 58 => (58, number, 0x8000),
        47 => (47, 0, 0),
        proto => (proto, packet.source_port, packet.destination_port),
    };
    if proto == 17 && dport == 4789 {
        // Tunnels inside a VPC go nowhere, whatever policy says.
        return None;
    }
    let tuple = Tuple {
        src,
        dst,
        proto,
        sport,
        dport,
    };
    Some((to.clone(), tuple))
}

fn judged(
    model: &Model,
    port: &PortName,
    direction: Direction,
    peer: Addr,
    tuple: &Tuple,
) -> Judged {
    let packet = Packet {
        port: port.clone(),
        direction,
        peer,
        protocol: tuple.proto,
        source_port: tuple.sport,
        destination_port: tuple.dport,
    };
    judge(model, &packet).expect("a port of the model")
}

fn rule(judged: &Judged) -> Option<&str> {
    match &judged.by {
        By::Rule(name) => Some(name),
        By::Closed | By::Default => None,
    }
}

type Seen = BTreeMap<&'static str, u64>;

fn run(seed: u64, seen: &mut Seen) {
    let mut random = Random::new(seed);
    let model = random::model(&mut random);
    let mut bed = Bed::new(&model, sizes()).expect("a valid model");
    let ids: BTreeMap<PortName, u32> = bed
        .places()
        .iter()
        .map(|p| (p.name.clone(), p.id))
        .collect();
    let mut used: BTreeSet<(PortName, PortName, Tuple)> = BTreeSet::new();
    let packets = random::packets(&mut random, &model, PER_MODEL);
    for (number, packet) in packets.into_iter().enumerate() {
        let from = packet.port.clone();
        let Some((to, tuple)) = tuple(&mut random, &model, &packet, number as u16) else {
            continue;
        };
        // A packet of a connection that is there is not judged.
        let reply = tuple.reply().expect("each of these has one");
        let known = used.contains(&(to.clone(), from.clone(), reply));
        if known || !used.insert((from.clone(), to.clone(), tuple)) {
            continue;
        }
        let egress = judged(&model, &from, Direction::Egress, tuple.dst, &tuple);
        let ingress = judged(&model, &to, Direction::Ingress, tuple.src, &tuple);
        let allows = |judged: &Judged| judged.verdict == Verdict::Allow;
        let mut count = |what| *seen.entry(what).or_default() += 1;
        if [&egress, &ingress]
            .iter()
            .any(|it| allows(it) && !it.stateful)
        {
            // What makes no connection is another matter.
            count("stateless");
            continue;
        }
        let frame = frame(model.ports[&from].mac, &tuple);
        let now = (number as u64 + 1) * GAP;
        let way = bed
            .send(now, number as u64, ids[&from], &frame)
            .expect("a bed");
        let last = way.last().expect("a way");
        let told =
            || format!("seed {seed}: {tuple:?} {from} -> {to}\n{egress:?}\n{ingress:?}\n{way:#?}");
        let (expected, what) = match (allows(&egress), allows(&ingress)) {
            (false, _) => (Fate::Dropped(DropReason::DeniedEgress), "refused out"),
            (true, false) => (Fate::Dropped(DropReason::DeniedIngress), "refused in"),
            (true, true) => (Fate::ToPort(ids[&to]), "arrived"),
        };
        // A refusal that tells the sender is a refusal all the same.
        let rejects = [&egress, &ingress]
            .iter()
            .any(|it| it.verdict == Verdict::Reject);
        assert!(
            last.fate == expected
                || rejects && matches!(last.fate, Fate::ToPort(id) if id == ids[&from]),
            "{}",
            told()
        );
        let expected = [
            (&from, Direction::Egress, &egress),
            (&to, Direction::Ingress, &ingress),
        ];
        let mut ends = 0;
        // Behind who answers, the way is the answer's.
        let is_answer = |passage: &Passage| passage.carried == Some(Carried::Answered);
        let own = way
            .iter()
            .position(is_answer)
            .map_or(way.len(), |at| at + 1);
        for end in way.iter().take(own).flat_map(|passage| &passage.ends) {
            let port = bed.port_name(end.port).expect("a port");
            let (_, _, judged) = expected
                .iter()
                .find(|(name, direction, _)| *name == port && *direction == end.direction)
                .unwrap_or_else(|| unreachable!("{}", told()));
            assert_eq!(
                (end.allow, end.rule.as_deref()),
                (allows(judged), rule(judged)),
                "{}",
                told()
            );
            ends += 1;
        }
        assert!(ends >= if allows(&egress) { 2 } else { 1 }, "{}", told());
        count("packets");
        count(what);
        if rejects {
            count("rejected");
        }
        if way.len() > 1 {
            count("by the wire");
        }
    }
}

#[test]
fn engines_do_with_bytes_what_the_reference_says() {
    let models: u64 = if std::env::var_os("PENSTOCK_LONG").is_some() {
        7_000
    } else {
        240
    };
    let threads = thread::available_parallelism().map_or(1, usize::from) as u64;
    let seen: Vec<Seen> = thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|first| {
                scope.spawn(move || {
                    let mut seen = Seen::new();
                    let mine = (0..models).filter(|seed| seed % threads == first);
                    mine.for_each(|seed| run(seed, &mut seen));
                    seen
                })
            })
            .collect();
        running
            .into_iter()
            .map(|it| it.join().expect("a run"))
            .collect()
    });
    let mut all = Seen::new();
    for (what, count) in seen.into_iter().flatten() {
        *all.entry(what).or_default() += count;
    }
    println!("{models} models: {all:?}");
    assert!(all["packets"] > models * PER_MODEL as u64 / 3, "{all:?}");
    for what in [
        "arrived",
        "refused out",
        "refused in",
        "rejected",
        "by the wire",
        "stateless",
    ] {
        assert!(all[what] > models, "{what}: {all:?}");
    }
}
