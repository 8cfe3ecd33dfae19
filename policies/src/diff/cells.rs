//! Protocols and ports, cut wherever a rule begins or ends.

use std::collections::{BTreeMap, BTreeSet};

use penstock_flow::tuple::proto;
use penstock_rules::model::{Direction, List, Protocol};

use super::classes::Class;
use super::told::{Effect, Outcome, Ports, Traffic};

const ROCE_PORT: u16 = 4791;
/// Tunnels inside a VPC go nowhere, whatever policy says.
const VXLAN_PORT: u16 = 4789;
/// Not told of as UDP.
const NOT_UDP: [u16; 2] = [VXLAN_PORT, ROCE_PORT];
/// One that no rule can name: it stands for all of those.
const OTHER: u8 = 253;

/// Where rules begin, and where what comes behind them does.
#[derive(Clone, Debug, Default)]
pub(super) struct Edges {
    /// By protocol: source ports, destination ports.
    ports: BTreeMap<u8, [BTreeSet<u16>; 2]>,
}

impl Edges {
    pub(super) fn add(&mut self, list: &List, direction: Direction) {
        for rule in list.rules.iter().filter(|rule| rule.direction == direction) {
            let Some(Protocol::Number(number)) = rule.protocol else {
                continue;
            };
            let [sources, destinations] = self.ports.entry(number).or_default();
            rule.source_ports
                .iter()
                .for_each(|range| cut(sources, *range));
            rule.ports
                .iter()
                .for_each(|range| cut(destinations, *range));
            if let Some(kind) = rule.icmp_type {
                let first = u16::from(kind) << 8;
                let range = match rule.icmp_code {
                    Some(code) => (first | u16::from(code), first | u16::from(code)),
                    None => (first, first | 0xff),
                };
                cut(destinations, range);
            }
        }
    }
}

fn cut(edges: &mut BTreeSet<u16>, (first, last): (u16, u16)) {
    edges.insert(first);
    edges.extend(last.checked_add(1));
}

/// Packets that are all judged alike.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    pub(super) protocol: &'static str,
    pub(super) number: u8,
    pub(super) source_ports: Ports,
    pub(super) ports: Ports,
}

/// All cells of a pair.
pub(super) struct Cells(Vec<(&'static str, u8, Vec<Ports>, Vec<Ports>)>);

impl Cells {
    pub(super) fn of(from: &Class, to: &Class) -> Self {
        let icmp = if from.is_v4 {
            ("ICMP", proto::ICMP)
        } else {
            ("ICMPV6", proto::ICMPV6)
        };
        let named = [
            ("TCP", proto::TCP),
            ("UDP", proto::UDP),
            ("SCTP", proto::SCTP),
            icmp,
        ];
        let mut all: Vec<_> = named
            .into_iter()
            .map(|(name, number)| {
                let edges = |which: usize| {
                    let of = [&from.egress, &to.ingress];
                    let of = of.iter().filter_map(|edges| edges.ports.get(&number));
                    of.flat_map(|both| both[which].iter().copied()).collect()
                };
                let mut destinations: BTreeSet<u16> = edges(1);
                if number == proto::UDP {
                    NOT_UDP
                        .into_iter()
                        .for_each(|it| cut(&mut destinations, (it, it)));
                }
                let mut destinations = intervals(&destinations);
                destinations.retain(|(first, _)| number != proto::UDP || !NOT_UDP.contains(first));
                (name, number, intervals(&edges(0)), destinations)
            })
            .collect();
        let whole = vec![(0, u16::MAX)];
        let roce = vec![(ROCE_PORT, ROCE_PORT)];
        all.push(("ROCEV2", proto::UDP, whole.clone(), roce));
        all.push(("OTHER", OTHER, whole.clone(), whole));
        Self(all)
    }

    pub(super) fn count(&self) -> u64 {
        let of = |(_, _, s, d): &(_, _, Vec<Ports>, Vec<Ports>)| s.len() as u64 * d.len() as u64;
        self.0.iter().map(of).sum()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Cell> + '_ {
        self.0
            .iter()
            .flat_map(|(protocol, number, sources, ports)| {
                sources.iter().flat_map(move |source_ports| {
                    ports.iter().map(move |ports| Cell {
                        protocol,
                        number: *number,
                        source_ports: *source_ports,
                        ports: *ports,
                    })
                })
            })
    }
}

fn intervals(starts: &BTreeSet<u16>) -> Vec<Ports> {
    let mut intervals = Vec::new();
    let mut first = 0;
    for start in starts.iter().filter(|start| **start > 0) {
        intervals.push((first, start - 1));
        first = *start;
    }
    intervals.push((first, u16::MAX));
    intervals
}

/// Neighbours that change alike become one; what changes for everything is told once.
pub(super) fn collapse(changed: Vec<(Cell, Outcome, Outcome)>) -> Vec<Traffic> {
    type Row = Vec<(Ports, Outcome, Outcome)>;
    // Per protocol, and source ports in their order: what changes for which destination.
    let mut rows: Vec<(&'static str, Ports, Row)> = Vec::new();
    for (cell, before, after) in changed {
        let Cell {
            protocol,
            number: _,
            source_ports,
            ports,
        } = cell;
        match rows.last_mut() {
            Some((p, s, row)) if (*p, *s) == (protocol, source_ports) => match row.last_mut() {
                Some((last, b, a))
                    if meets(protocol, *last, ports) && (*b, *a) == (before, after) =>
                {
                    last.1 = ports.1;
                }
                _ => row.push((ports, before, after)),
            },
            _ => rows.push((protocol, source_ports, vec![(ports, before, after)])),
        }
    }
    let mut merged: Vec<(&'static str, Ports, Row)> = Vec::new();
    for (protocol, sources, row) in rows {
        match merged.last_mut() {
            Some((p, s, r)) if *p == protocol && meets("", *s, sources) && *r == row => {
                s.1 = sources.1
            }
            _ => merged.push((protocol, sources, row)),
        }
    }
    // By place of the protocol, source ports, before and after.
    type Key = (usize, Ports, Outcome, Outcome);
    let mut all: BTreeMap<Key, (&'static str, Vec<Ports>)> = BTreeMap::new();
    for (protocol, sources, row) in merged {
        let order = ORDER
            .iter()
            .position(|it| *it == protocol)
            .unwrap_or(ORDER.len());
        for (ports, before, after) in row {
            let entry = all.entry((order, sources, before, after));
            entry
                .or_insert_with(|| (protocol, Vec::new()))
                .1
                .push(ports);
        }
    }
    let told: Vec<Traffic> = all
        .into_iter()
        .map(
            |((_, source_ports, before, after), (protocol, ports))| Traffic {
                protocol,
                source_ports,
                ports,
                effect: Effect::of(before, after),
                before,
                after,
            },
        )
        .collect();
    everything(&told).map_or(told, |all| vec![all])
}

const ORDER: [&str; 7] = ["TCP", "UDP", "SCTP", "ICMP", "ICMPV6", "ROCEV2", "OTHER"];

/// Whether nothing is between two ranges; of UDP, what is not told of.
fn meets(protocol: &str, (_, last): Ports, (first, _): Ports) -> bool {
    let Some(next) = last.checked_add(1) else {
        return false;
    };
    let is_skipped = protocol == "UDP" && NOT_UDP.contains(&next);
    next == first || is_skipped && next.checked_add(1) == Some(first)
}

fn everything(told: &[Traffic]) -> Option<Traffic> {
    let first = told.first()?;
    let whole = (0, u16::MAX);
    let is_whole = |it: &Traffic| {
        let all = it.ports == [whole] || it.protocol == "ROCEV2";
        all && it.source_ports == whole && (it.before, it.after) == (first.before, first.after)
    };
    (told.len() == 6 && told.iter().all(is_whole)).then(|| Traffic {
        protocol: "ANY",
        ports: vec![whole],
        ..first.clone()
    })
}
