//! What a change of policy may close.
//!
//! A change is applied behind a fence: the traffic whose verdict may turn from
//! yes to no is kept from the NIC's own answers until its connections have been
//! judged again. [`closing`] finds that traffic from the two rulesets alone, so
//! that the rest of the node is left in peace, and a change that only opens
//! needs no fence at all.
//!
//! It looks at programs, not at packets: one comparison serves all ports of
//! equal groups, and what has not changed is recognised by its rules. It speaks
//! of verdicts only; whose addresses a port has is not one of them.

mod coarsen;
mod lost;
mod region;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

pub use region::Region;

use self::coarsen::coarsen;
use self::lost::{Change, Part, WHOLE};
use crate::model::{Direction, GroupId, PortId, Vni};
use crate::program::Program;
use crate::ruleset::{Ruleset, Side};

/// Regions that hold every packet which `old` allows and `new` does not, a
/// packet being seen in the VPC that its port had in `old`. None where nothing
/// can close; otherwise at most `most`, but one at least: where more would be
/// exact, they are merged.
///
/// They may hold more than closes. Exact are ports and directions; a protocol
/// is held where some of its packets close, and a peer's prefix as it was
/// written, or one address for each member that left a group.
#[must_use]
pub fn closing(old: &Ruleset, new: &Ruleset, most: usize) -> Vec<Region> {
    let most = most.max(1);
    let change = Change::new(old, new, most);
    let changed = changed_groups(old, new);
    let nothing = Arc::new(Program::default());
    let mut regions = Vec::new();
    let mut compared = BTreeMap::<Pair, Compared<'_>>::new();
    for (id, port) in old.ports() {
        let Some(now) = new.ports().get(id).filter(|now| now.vni == port.vni) else {
            if !port.ingress.is_closed() || !port.egress.is_closed() {
                regions.push(Region {
                    vni: Some(port.vni),
                    port: Some(*id),
                    ..Region::EVERYTHING
                });
            }
            continue;
        };
        for direction in [Direction::Ingress, Direction::Egress] {
            let whole = Region {
                direction: Some(direction),
                ..one(port.vni, *id, WHOLE)
            };
            let (before, after) = match (port.side(direction), now.side(direction)) {
                (Side::Default { allow: false }, _) | (_, Side::Default { allow: true }) => {
                    continue;
                }
                (Side::Default { allow: true }, Side::Default { allow: false }) => {
                    regions.push(whole);
                    continue;
                }
                (Side::Default { allow: true }, Side::Selected(after)) => {
                    if !after.everyone.allows_all() {
                        regions.push(whole);
                    }
                    continue;
                }
                (Side::Selected(before), Side::Default { allow: false }) => (before, &nothing),
                (Side::Selected(before), Side::Selected(after)) => (before, after),
            };
            let pair = (port.vni, direction, Arc::as_ptr(before), Arc::as_ptr(after));
            compared
                .entry(pair)
                .or_insert_with(|| Compared {
                    before,
                    after,
                    same_rules: !Arc::ptr_eq(after, &nothing)
                        && same_groups(&change, *id, &changed),
                    ports: Vec::new(),
                })
                .ports
                .push(*id);
        }
    }
    for ((vni, direction, ..), c) in compared {
        let parts = change.lost(vni, c.before, c.after, c.same_rules);
        spread(vni, &parts, c.ports, most, |region| {
            regions.push(Region {
                direction: Some(direction),
                ..region
            });
        });
    }
    coarsen(regions, most)
}

/// Ports of the same groups before, and of the same groups after.
type Pair = (Vni, Direction, *const Program, *const Program);

struct Compared<'a> {
    before: &'a Program,
    after: &'a Program,
    same_rules: bool,
    ports: Vec<PortId>,
}

/// Says the parts of each of `ports`, or something larger where that is more
/// than `most`.
fn spread(vni: Vni, parts: &[Part], ports: Vec<PortId>, most: usize, mut push: impl FnMut(Region)) {
    if parts.is_empty() {
        return;
    }
    let is_few = parts.len().saturating_mul(ports.len()) <= most;
    let are_hosts = parts
        .iter()
        .all(|(_, peer)| peer.is_some_and(|p| p.len() == 128));
    if !is_few && are_hosts {
        for &(protocol, peer) in parts {
            push(Region {
                vni: Some(vni),
                protocol,
                peer,
                ..Region::EVERYTHING
            });
        }
        return;
    }
    let parts = if is_few { parts } else { &[WHOLE] };
    for port in ports {
        for part in parts {
            push(one(vni, port, *part));
        }
    }
}

fn one(vni: Vni, port: PortId, (protocol, peer): Part) -> Region {
    Region {
        vni: Some(vni),
        port: Some(port),
        direction: None,
        protocol,
        peer,
    }
}

/// The groups whose rules are not what they were.
fn changed_groups(old: &Ruleset, new: &Ruleset) -> BTreeSet<GroupId> {
    let now = &new.policy().groups;
    let of_old = old.policy().groups.iter();
    of_old
        .filter(|(id, group)| now.get(id).is_none_or(|now| now.rules != group.rules))
        .map(|(id, _)| *id)
        .collect()
}

/// Whether every group of a port is still one of its groups, with the same rules.
fn same_groups(change: &Change<'_>, id: PortId, changed: &BTreeSet<GroupId>) -> bool {
    let (Some(before), Some(after)) = (change.old.port(id), change.new.port(id)) else {
        return false;
    };
    before
        .groups
        .iter()
        .all(|group| after.groups.contains(group) && !changed.contains(group))
}
