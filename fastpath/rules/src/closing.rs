//! What a change of policy may close.
//!
//! A change is applied behind a fence: the traffic whose verdict may turn from
//! yes to no is kept from the NIC's own answers until its connections have been
//! judged again. [`closing`] finds that traffic from the two rulesets alone, so
//! that the rest of the node is left in peace, and a change that only opens
//! needs no fence at all.
//!
//! It looks at rules, not at packets. A verdict turns to no only where a rule that
//! allowed or passed on is not what it was, where one that refuses or passes on
//! is new, where a peer has left the former or joined the latter, or where a
//! tier begins or ceases to decide. One comparison serves all ports of the same
//! lists, and what is shared by both rulesets is not looked at. It speaks of
//! verdicts only; whose addresses a port has is not one of them.

mod change;
mod coarsen;
mod cover;
mod lost;
mod region;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

pub use region::Region;

use self::change::Change;
use self::coarsen::coarsen;
use self::lost::{Part, WHOLE, lost};
use crate::model::{Direction, PortId, Vni};
use crate::ruleset::{Ladder, Ruleset};

/// Regions that hold every packet which `old` allows and `new` does not, a
/// packet being seen in the VPC that its port had in `old`, and whatever a list
/// that cuts connections when it changes may have admitted. None where nothing
/// can close; otherwise at most `most`, but one at least: where more would be
/// exact, they are merged.
///
/// They may hold more than closes. Exact are ports and directions; a protocol
/// is held where some of its packets may close, and a peer's prefix as it was
/// written, or one address for each member that left or joined a group.
#[must_use]
pub fn closing(old: &Ruleset, new: &Ruleset, most: usize) -> Vec<Region> {
    let most = most.max(1);
    let change = Change::new(old, new, most);
    let mut regions = Vec::new();
    let mut alike = BTreeMap::<Pair<'_>, Vec<PortId>>::new();
    for (id, port) in old.parts().ports.iter() {
        let vni = port.port.vni;
        let Some(now) = new.compiled(*id).filter(|now| now.port.vni == vni) else {
            if old.lets_pass(port) {
                regions.push(Region {
                    vni: Some(vni),
                    port: Some(*id),
                    ..Region::EVERYTHING
                });
            }
            continue;
        };
        for direction in [Direction::Ingress, Direction::Egress] {
            let (before, after) = (port.ladder(direction), now.ladder(direction));
            if change.concerns(vni, direction, before, after) {
                let pair = (vni, direction, before, after);
                alike.entry(pair).or_default().push(*id);
            }
        }
    }
    for ((vni, direction, before, after), ports) in alike {
        let parts = lost(&change, vni, direction, before, after);
        spread(vni, &parts, ports, most, |region| {
            regions.push(Region {
                direction: Some(direction),
                ..region
            });
        });
    }
    coarsen(regions, most)
}

/// Ports to which the same lists applied before, and the same apply after.
type Pair<'a> = (Vni, Direction, &'a Ladder, &'a Ladder);

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
