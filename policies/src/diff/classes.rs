//! Which ports and addresses are alike: in both models the same lists speak of them,
//! and they are in the same groups, sets and prefixes that rules name.

use std::collections::{BTreeMap, BTreeSet};

use penstock_flow::{Addr, Prefix};
use penstock_rules::model::{Direction, GroupId, List, ListId, Peer, PortId};

use super::cells::Edges;
use super::ranges::{self, Range};
use super::side::{self, Side};
use crate::ids::Ids;
use crate::model::{PortName, VpcName};

/// All that are alike.
#[derive(Debug)]
pub(super) struct Class {
    pub(super) is_v4: bool,
    /// One of them, before and after; none: it is not there.
    pub(super) sides: [Option<Place>; 2],
    /// Ports with one of their addresses; none of them: addresses outside.
    pub(super) ports: Vec<(PortName, Addr)>,
    pub(super) outside: Vec<Range>,
    /// What it sends, or what is sent to it, may be judged differently.
    pub(super) egress_changed: bool,
    pub(super) ingress_changed: bool,
    /// Where rules about what it sends, and about what it gets, begin and end.
    pub(super) egress: Edges,
    pub(super) ingress: Edges,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) port: Option<PortId>,
    pub(super) addr: Addr,
}

impl Class {
    /// Outsiders do not talk to each other, nor a port to itself.
    pub(super) fn can_send_to(&self, to: &Self, same: bool) -> bool {
        let are_outside = self.ports.is_empty() && to.ports.is_empty();
        let names: BTreeSet<&PortName> = self.ports.iter().map(|(name, _)| name).collect();
        !are_outside && (!same || names.len() > 1)
    }
}

pub(super) struct Classes {
    pub(super) all: Vec<Class>,
    /// How many addresses of a family each port has.
    pub(super) addresses: BTreeMap<(PortName, bool), usize>,
    /// How many pieces of each family are outside.
    pub(super) pieces: [usize; 2],
}

/// Prefixes that a rule names together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Named {
    Cidr(Prefix, Vec<Prefix>),
    Set(u32),
}

/// What makes alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    is_v4: bool,
    is_port: bool,
    sides: [Option<Seen>; 2],
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Seen {
    groups: Vec<GroupId>,
    named: Vec<usize>,
}

type Lists<'a> = Vec<(ListId, &'a List)>;

/// A VPC in one family: what its rules name, by side.
struct Family {
    is_v4: bool,
    named: [Vec<Vec<Range>>; 2],
}

impl Family {
    fn seen(&self, side: usize, groups: &[GroupId], addr: Addr) -> Seen {
        let named = self.named.get(side).map_or(&[][..], Vec::as_slice);
        let hits = named.iter().enumerate();
        let hits = hits.filter(|(_, ranges)| ranges::holds(ranges, addr.0));
        Seen {
            groups: groups.to_vec(),
            named: hits.map(|(i, _)| i).collect(),
        }
    }
}

impl Classes {
    pub(super) fn of(sides: &[Side; 2], ids: &Ids, vpc: &VpcName) -> Self {
        let lists: [Lists<'_>; 2] = [0, 1].map(|i| sides[i].lists(vpc).collect());
        let all_named: BTreeSet<Named> = lists.iter().flatten().flat_map(named).collect();
        let mut found = Self {
            all: Vec::new(),
            addresses: BTreeMap::new(),
            pieces: [0, 0],
        };
        for is_v4 in [true, false] {
            let family = Family {
                is_v4,
                named: [0, 1].map(|i| {
                    let ranges = |named: &Named| match named {
                        Named::Cidr(prefix, except) => ranges::union(&[*prefix], except, is_v4),
                        Named::Set(id) => {
                            let set = sides[i].policy.sets.get(id);
                            let prefixes = set.map_or(&[][..], |set| &set.prefixes);
                            ranges::union(prefixes, &[], is_v4)
                        }
                    };
                    all_named.iter().map(ranges).collect()
                }),
            };
            let ports = found.ports(sides, ids, vpc, &family);
            for (key, members) in ports {
                let place = |i: usize| {
                    let (name, addr) = members.first()?;
                    key.sides[i].as_ref()?;
                    let port = ids.ports.get(name).copied();
                    Some(Place { port, addr: *addr })
                };
                let places = [place(0), place(1)];
                found.add(sides, vpc, &lists, &key, places, members, Vec::new());
            }
            for (key, outside) in found.outside(sides, vpc, &family) {
                let place = |i: usize| {
                    key.sides[i].as_ref()?;
                    let (first, _) = outside.first()?;
                    Some(Place {
                        port: None,
                        addr: Addr(*first),
                    })
                };
                let places = [place(0), place(1)];
                found.add(sides, vpc, &lists, &key, places, Vec::new(), outside);
            }
        }
        found
    }

    fn ports(
        &mut self,
        sides: &[Side; 2],
        ids: &Ids,
        vpc: &VpcName,
        family: &Family,
    ) -> BTreeMap<Key, Vec<(PortName, Addr)>> {
        let mut classes: BTreeMap<Key, Vec<(PortName, Addr)>> = BTreeMap::new();
        for (name, id) in ids.ports.iter().filter(|(name, _)| name.vpc() == *vpc) {
            let ports = [0, 1].map(|i| sides[i].policy.ports.get(id));
            let ips: BTreeSet<Addr> = ports
                .iter()
                .flatten()
                .flat_map(|port| port.ips.iter().copied())
                .filter(|ip| ip.is_v4() == family.is_v4)
                .collect();
            self.addresses
                .insert((name.clone(), family.is_v4), ips.len());
            for ip in ips {
                let seen = |i: usize| {
                    let port = ports[i].filter(|port| port.ips.contains(&ip))?;
                    Some(family.seen(i, &port.groups, ip))
                };
                let key = Key {
                    is_v4: family.is_v4,
                    is_port: true,
                    sides: [seen(0), seen(1)],
                };
                classes.entry(key).or_default().push((name.clone(), ip));
            }
        }
        classes
    }

    fn outside(
        &mut self,
        sides: &[Side; 2],
        vpc: &VpcName,
        family: &Family,
    ) -> BTreeMap<Key, Vec<Range>> {
        let own = sides
            .iter()
            .filter_map(|side| side.cidrs.get(vpc))
            .flatten();
        let own: Vec<Prefix> = own.copied().collect();
        let own = ranges::union(&own, &[], family.is_v4);
        let cuts = family.named.iter().flatten().flatten().chain(&own);
        let mut classes: BTreeMap<Key, Vec<Range>> = BTreeMap::new();
        for piece in ranges::pieces(family.is_v4, cuts) {
            if ranges::holds(&own, piece.0) {
                continue;
            }
            let seen = |i: usize| {
                sides[i].vpcs.get(vpc)?;
                Some(family.seen(i, &[], Addr(piece.0)))
            };
            let key = Key {
                is_v4: family.is_v4,
                is_port: false,
                sides: [seen(0), seen(1)],
            };
            self.pieces[usize::from(family.is_v4)] += 1;
            classes.entry(key).or_default().push(piece);
        }
        classes
    }

    #[expect(clippy::too_many_arguments, reason = "all that a class is made of")]
    fn add(
        &mut self,
        sides: &[Side; 2],
        vpc: &VpcName,
        lists: &[Lists<'_>; 2],
        key: &Key,
        places: [Option<Place>; 2],
        ports: Vec<(PortName, Addr)>,
        outside: Vec<Range>,
    ) {
        let mine = [0, 1].map(|i| {
            let port = places[i].and_then(|place| sides[i].policy.ports.get(&place.port?));
            port.map_or_else(BTreeMap::new, |port| Side::of_port(&lists[i], port))
        });
        let default = |i: usize| {
            let vni = sides[i].vpcs.get(vpc)?;
            Some(sides[i].policy.vpcs.get(vni)?.default_allow)
        };
        let member_changed = key.sides[0] != key.sides[1];
        let changed = |direction| {
            let [before, after] = &mine;
            let same = before.len() == after.len()
                && before
                    .iter()
                    .zip(after)
                    .all(|((a, x), (b, y))| a == b && side::same(x, y, direction));
            member_changed || key.is_port && (!same || default(0) != default(1))
        };
        let edges = |direction| {
            let mut edges = Edges::default();
            for list in mine.iter().flat_map(BTreeMap::values) {
                edges.add(list, direction);
            }
            edges
        };
        // What is sent to it is judged at the sender as well, by its memberships.
        self.all.push(Class {
            is_v4: key.is_v4,
            sides: places,
            ports,
            outside,
            egress_changed: changed(Direction::Egress),
            ingress_changed: changed(Direction::Ingress),
            egress: edges(Direction::Egress),
            ingress: edges(Direction::Ingress),
        });
    }
}

fn named((_, list): &(ListId, &List)) -> Vec<Named> {
    let peers = list.rules.iter().flat_map(|rule| rule.peers.named());
    peers
        .filter_map(|peer| match peer {
            Peer::Cidr { prefix, except } => Some(Named::Cidr(*prefix, except.clone())),
            Peer::Set(id) => Some(Named::Set(*id)),
            Peer::Group(_) => None,
        })
        .collect()
}
