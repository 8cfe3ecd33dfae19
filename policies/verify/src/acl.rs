//! Static rules against policy, cell by cell.
//!
//! A cell is a set of packets on which every row and every rule that could speak of them
//! says one thing, so one packet of it speaks for all. Only cells in which a row drops or
//! allows are looked at: what is asked is always right. ICMP errors and TCP's SYN, FIN and
//! RST are cells like any other, although the NIC asks about them before it gets here.
//!
//! * A drop is right where the packet opens no connection, can belong to none that the other
//!   end has opened or that persists, and nobody is to be told: at the sender's port, or at
//!   the receiver's where that is on the same NIC.
//! * An allow is right where both the packet and its reverse are allowed by rules that make
//!   no connection, without a log: at every end that this NIC speaks for.

use std::collections::{BTreeMap, HashMap, HashSet};

use penstock_flow::Addr;
use penstock_policies::explain::Direction;

use crate::cut::{cells, family};
use crate::facts::Known;
use crate::finding::{Packet, Unproved, Wrong};
use crate::judge::{Service3, Sheet};
use crate::nic::Nic;
use crate::row::{Acl, AclAction, Row, Ternary};

mod meaning;

use meaning::{End, allow_is_wrong, drop_is_wrong};

/// A place where packets are matched: everything but peer address, protocol and ports.
struct Scene<'s> {
    rows: Vec<&'s Acl>,
    /// The end that is fixed.
    own: Addr,
    leaving: bool,
    vni: u32,
    known: u32,
}

pub(crate) fn check(nic: &mut Nic<'_>, acls: &[Acl]) {
    let facts = nic.facts;
    let mut sheets: BTreeMap<u32, Sheet<'_>> = BTreeMap::new();
    let mut scenes: Vec<Scene<'_>> = Vec::new();
    let mut add = |direction: u8, port: u32, vni: u32, known: &Known<'_>| {
        for ip in &known.port.ips {
            let leaving = direction == 0;
            let own = |acl: &Acl| if leaving { acl.src } else { acl.dst };
            let rows: Vec<&Acl> = acls
                .iter()
                .filter(|acl| {
                    acl.direction.matches(direction)
                        && acl.vni.matches(vni)
                        && acl.port.matches(port)
                        && own(acl).matches(ip.0)
                })
                .collect();
            if rows.iter().any(|acl| acl.action != AclAction::Ask) {
                let known = known.id;
                scenes.push(Scene {
                    rows,
                    own: *ip,
                    leaving,
                    vni,
                    known,
                });
            }
        }
    };
    for known in nic.place.ports.iter().filter_map(|id| facts.ports.get(id)) {
        add(0, known.id, known.vni, known);
    }
    for vni in &nic.place.vpcs {
        // Whoever has the address, here or elsewhere, is the receiver.
        for known in facts.of_vpc.get(vni).into_iter().flatten() {
            if let Some(known) = facts.ports.get(known) {
                add(1, 0, *vni, known);
            }
        }
    }
    for scene in &scenes {
        for known in std::iter::once(scene.known).chain(nic.place.ports.iter().copied()) {
            if let Some(known) = facts.ports.get(&known) {
                sheets
                    .entry(known.id)
                    .or_insert_with(|| Sheet::new(facts, known));
            }
        }
        if !nic.spend(1) || !one(nic, scene, &sheets) {
            return;
        }
    }
}

/// `false`: it has become too much.
fn one(nic: &mut Nic<'_>, scene: &Scene<'_>, sheets: &BTreeMap<u32, Sheet<'_>>) -> bool {
    let peer_of = |acl: &Acl| if scene.leaving { acl.dst } else { acl.src };
    let mut cuts: Vec<(u128, u128)> = Vec::new();
    for acl in &scene.rows {
        let Some(range) = range(peer_of(acl)) else {
            let unproved = Unproved::Mask {
                row: Row::Acl(**acl).to_string(),
                mask: peer_of(acl).mask,
            };
            nic.report.unproved.get_or_insert(unproved);
            return false;
        };
        cuts.push(range);
    }
    let Some(sheet) = sheets.get(&scene.known) else {
        return true;
    };
    cuts.extend(sheet.peer_cuts());
    // Where the other end changes.
    let facts = nic.facts;
    let mut locals = HashMap::new();
    if scene.leaving {
        for known in nic.place.ports.iter().filter_map(|id| facts.ports.get(id)) {
            for ip in &known.port.ips {
                if let Some(owner) = facts.owner(scene.vni, *ip)
                    && nic.is_here(&owner)
                {
                    locals.insert(ip.0, owner);
                    cuts.push((ip.0, ip.0));
                }
            }
        }
    }
    for around in family(scene.own.is_v4()) {
        let next = |at: u128| at.checked_add(1);
        for (peer, _) in cells(around, cuts.iter().copied(), next, |at| at - 1) {
            let rows: Vec<&Acl> = scene
                .rows
                .iter()
                .copied()
                .filter(|acl| peer_of(acl).matches(peer))
                .collect();
            if rows.iter().all(|acl| acl.action == AclAction::Ask) {
                continue;
            }
            let Some(first) = facts.ports.get(&scene.known) else {
                continue;
            };
            let way = if scene.leaving {
                Direction::Egress
            } else {
                Direction::Ingress
            };
            let mut ends = vec![End {
                known: *first,
                sheet,
                peer,
                way,
            }];
            if let Some(known) = locals.get(&peer)
                && let Some(sheet) = sheets.get(&known.id)
            {
                ends.push(End {
                    known: *known,
                    sheet,
                    peer: scene.own.0,
                    way: Direction::Ingress,
                });
            }
            if !services(nic, scene, &rows, &ends, peer) {
                return false;
            }
        }
    }
    true
}

/// All protocols and ports between two addresses.
fn services(
    nic: &mut Nic<'_>,
    scene: &Scene<'_>,
    rows: &[&Acl],
    ends: &[End<'_, '_>],
    peer: u128,
) -> bool {
    let mut seen = HashSet::new();
    for protocol in 0..=u8::MAX {
        let kind = match protocol {
            1 | 6 | 17 | 58 | 132 => protocol,
            _ => 0,
        };
        let rows: Vec<&Acl> = rows
            .iter()
            .copied()
            .filter(|acl| acl.proto.matches(protocol))
            .collect();
        let which: Vec<*const Acl> = rows.iter().map(|acl| std::ptr::from_ref(*acl)).collect();
        let decided = rows.iter().any(|acl| acl.action != AclAction::Ask);
        if !decided || !seen.insert((kind, which)) {
            continue;
        }
        // Protocols without ports have zeros there.
        let whole = if kind == 0 { (0, 0) } else { (0, u16::MAX) };
        let next = |at: u16| at.checked_add(1);
        let ranges = |destination: bool| {
            let rows = rows.iter();
            let rows = rows.map(move |acl| if destination { acl.dport } else { acl.sport });
            // A reverse packet has its ports the other way round.
            let rules = ends.iter().flat_map(|end| {
                let mut all = end.sheet.port_cuts(protocol, true);
                all.extend(end.sheet.port_cuts(protocol, false));
                all
            });
            cells(whole, rows.chain(rules).collect::<Vec<_>>(), next, |at| {
                at - 1
            })
        };
        let (sources, destinations) = (ranges(false), ranges(true));
        for (sport, _) in &sources {
            if !nic.spend(destinations.len() as u64) {
                return false;
            }
            for (dport, _) in &destinations {
                cell(nic, scene, &rows, ends, peer, (protocol, *sport, *dport));
            }
        }
    }
    true
}

fn cell(
    nic: &mut Nic<'_>,
    scene: &Scene<'_>,
    rows: &[&Acl],
    ends: &[End<'_, '_>],
    peer: u128,
    service: Service3,
) {
    let (protocol, sport, dport) = service;
    let within = |(first, last): (u16, u16), port: u16| (first..=last).contains(&port);
    let matching = || {
        rows.iter()
            .filter(|acl| within(acl.sport, sport) && within(acl.dport, dport))
    };
    let Some(top) = matching().max_by_key(|acl| acl.priority) else {
        return;
    };
    let ambiguous = matching().any(|acl| acl.priority == top.priority && acl.action != top.action);
    let wrong = match top.action {
        _ if ambiguous => Some(Wrong::Ambiguous),
        AclAction::Ask => None,
        AclAction::Drop => drop_is_wrong(ends, service),
        AclAction::Allow => ends.iter().find_map(|end| allow_is_wrong(end, service)),
    };
    let Some(wrong) = wrong else {
        return;
    };
    let told = Row::Acl(**top);
    // A row is told once for each thing that is wrong with it.
    let text = told.to_string();
    let mut all = nic.report.violations.iter();
    if all.any(|it| it.row == text && it.device_id == nic.device_id && it.wrong == wrong) {
        return;
    }
    let (src, dst) = if scene.leaving {
        (scene.own, Addr(peer))
    } else {
        (Addr(peer), scene.own)
    };
    let packet = Packet {
        src,
        dst,
        proto: Some(protocol),
        sport,
        dport,
    };
    nic.wrong(&told, wrong, Some(packet));
}

/// A prefix's addresses; `None`: the mask is none of a prefix.
fn range(of: Ternary<u128>) -> Option<(u128, u128)> {
    let host = !of.mask;
    let prefix = host & host.wrapping_add(1) == 0;
    prefix.then_some((of.value, of.value | host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_masks_of_prefixes_are_ranges() {
        let of = |value, mask| range(Ternary { value, mask });
        assert_eq!(of(0, 0), Some((0, u128::MAX)));
        assert_eq!(of(7, u128::MAX), Some((7, 7)));
        assert_eq!(of(6, u128::MAX - 1), Some((6, 7)));
        assert_eq!(of(5, u128::MAX - 2), None);
        assert_eq!(of(1, 1), None);
    }
}
