//! Which VPCs reach which, by the tables of all NICs alone.
//!
//! Packets are followed from every port through `vport`, `spoof_guard`, `mapping`,
//! `nexthop`, the wire, `underlay`, and so on to a port. All destinations are followed at
//! once, as intervals. Who hangs where is taken from the workers, whose a port is from the
//! model; what rows should say is not asked. What a NIC asks about, its worker forwards by
//! the same tables, so static rules and connections only make less of it.

use std::collections::{BTreeMap, HashMap};

use penstock_flow::{Addr, Mac};
use penstock_policies::Ids;
use penstock_policies::model::{Model, NodeName, PortName, VpcName};

use crate::cut::family;
use crate::facts::Facts;
use crate::lpm::{self, Span};
use crate::row::{Hop, Row};
use crate::{Host, Limits, Unproved};

/// No honest packet goes through more tunnels.
const MOST_TUNNELS: usize = 8;

mod path;
mod tables;

pub use path::{Destination, Path, Reach};
use tables::Tables;

type At<'a> = (&'a NodeName, u32);

/// Somebody who sends, and an address of each family that the guard lets pass.
struct Sender {
    vpc: VpcName,
    port: PortName,
    step: String,
    sources: Vec<(Mac, Addr)>,
}

struct Walk<'a> {
    facts: &'a Facts<'a>,
    tables: BTreeMap<At<'a>, Tables>,
    /// Which port is at a node's device port and VLAN.
    there: HashMap<(&'a NodeName, u32, u16), u32>,
    uplinks: BTreeMap<At<'a>, u32>,
    limits: Limits,
    reach: Reach,
}

/// Follows everything that ports of `hosts` can send.
#[must_use]
pub fn reach(model: &Model, ids: &Ids, hosts: &BTreeMap<NodeName, Host>, limits: Limits) -> Reach {
    let facts = Facts::new(model, ids);
    let mut walk = Walk {
        facts: &facts,
        tables: BTreeMap::new(),
        there: HashMap::new(),
        uplinks: BTreeMap::new(),
        limits,
        reach: Reach::default(),
    };
    for (a, b) in facts
        .peers
        .iter()
        .flat_map(|(a, all)| all.iter().map(move |b| (a, b)))
    {
        if let (Some(a), Some(b)) = (facts.vpcs.get(a), facts.vpcs.get(b)) {
            walk.reach.peered.insert(((*a).clone(), (*b).clone()));
        }
    }
    for (name, host) in hosts {
        for (id, device_port) in &host.interfaces.ports {
            if let Some(known) = facts.ports.get(id)
                && known.port.node == *name
            {
                walk.there
                    .insert((name, *device_port, known.port.vlan), *id);
            }
        }
        for (device_id, rows) in &host.programs {
            walk.tables.insert((name, *device_id), Tables::new(rows));
            if let Some(uplink) = host.interfaces.uplinks.get(device_id) {
                walk.uplinks.insert((name, *device_id), *uplink);
            }
        }
    }
    let starts = walk.senders();
    for ((at, vni), senders) in &starts {
        let mut steps = Vec::new();
        walk.follow(*at, *vni, (0, u128::MAX), senders, &mut steps);
    }
    walk.reach
}

impl<'a> Walk<'a> {
    /// By where they enter: NIC and VPC. One of each VPC will do for each family.
    fn senders(&self) -> BTreeMap<(At<'a>, u32), Vec<Sender>> {
        let mut starts: BTreeMap<(At<'a>, u32), Vec<Sender>> = BTreeMap::new();
        for (at, tables) in &self.tables {
            for (device_port, vlan, port, vni) in &tables.vports {
                let Some(known) = self
                    .there
                    .get(&(at.0, *device_port, *vlan))
                    .and_then(|id| self.facts.ports.get(id))
                else {
                    continue;
                };
                let vpc = known.name.vpc();
                let all = tables
                    .sources
                    .get(port)
                    .map(Vec::as_slice)
                    .unwrap_or_default();
                let senders = starts.entry((*at, *vni)).or_default();
                let known_families: Vec<bool> = senders
                    .iter()
                    .filter(|sender| sender.vpc == vpc)
                    .flat_map(|sender| sender.sources.iter().map(|(_, ip)| ip.is_v4()))
                    .collect();
                let mut sources: Vec<(Mac, Addr)> = Vec::new();
                for (mac, ip) in all {
                    let seen = known_families.contains(&ip.is_v4())
                        || sources.iter().any(|(_, other)| other.is_v4() == ip.is_v4());
                    if !seen {
                        sources.push((*mac, *ip));
                    }
                }
                if !sources.is_empty() {
                    senders.push(Sender {
                        vpc,
                        port: known.name.clone(),
                        step: format!(
                            "NIC {} of {}: vport {device_port} vlan {vlan} is port {port} of vni {vni}",
                            at.1, at.0
                        ),
                        sources,
                    });
                }
            }
        }
        starts
    }

    fn follow(
        &mut self,
        at: At<'a>,
        vni: u32,
        (low, high): (u128, u128),
        senders: &[Sender],
        steps: &mut Vec<String>,
    ) {
        let Some(tables) = self.tables.get(&at) else {
            return;
        };
        let spans: Vec<(Span, Option<Hop>)> = tables
            .mapping
            .get(&vni)
            .map(Vec::as_slice)
            .into_iter()
            .flat_map(|spans| lpm::within(spans, low, high))
            .map(|span| (span, tables.nexthop.get(&span.id).copied()))
            .collect();
        for (span, hop) in spans {
            self.reach.cells += 1;
            if self.reach.cells > self.limits.cells {
                let unproved = Unproved::Cells(self.limits.cells);
                self.reach.unproved.get_or_insert(unproved);
                return;
            }
            let Some(hop) = hop else {
                continue;
            };
            let depth = steps.len();
            steps.push(format!(
                "NIC {} of {}: mapping of {} in vni {vni}: next hop {}",
                at.1,
                at.0,
                Addr(span.low),
                Row::Nexthop { id: span.id, hop },
            ));
            self.hop(at, span, hop, senders, steps);
            steps.truncate(depth);
        }
    }

    fn hop(
        &mut self,
        at: At<'a>,
        span: Span,
        hop: Hop,
        senders: &[Sender],
        steps: &mut Vec<String>,
    ) {
        match hop {
            Hop::ToPort {
                device_port, vlan, ..
            } => self.deliver(at.0, device_port, vlan, span, senders, steps),
            Hop::ToFrontEnd { device_port } => {
                self.deliver(at.0, device_port, 0, span, senders, steps);
            }
            Hop::ToVtep { device_port, .. } if self.uplinks.get(&at) != Some(&device_port) => {
                self.deliver(at.0, device_port, 0, span, senders, steps);
            }
            Hop::ToVtep {
                src_vtep,
                dst_vtep,
                vni,
                ..
            } => {
                let Some(next) = self.facts.vteps.get(&dst_vtep).copied() else {
                    let to = Destination::Outside(dst_vtep);
                    return self.arrive(&to, None, span, senders, steps);
                };
                let key = (src_vtep, dst_vtep, vni);
                let decap = self.tables.get(&next).and_then(|t| t.underlay.get(&key));
                let Some(decap) = decap.copied() else {
                    return;
                };
                steps.push(format!(
                    "NIC {} of {}: underlay {src_vtep} -> {dst_vtep} vni {vni} is vni {decap}",
                    next.1, next.0
                ));
                if steps.len() >= 2 * MOST_TUNNELS {
                    let unproved = Unproved::Tunnels(MOST_TUNNELS);
                    self.reach.unproved.get_or_insert(unproved);
                    return;
                }
                self.follow(next, decap, (span.low, span.high), senders, steps);
            }
        }
    }

    fn deliver(
        &mut self,
        node: &'a NodeName,
        device_port: u32,
        vlan: u16,
        span: Span,
        senders: &[Sender],
        steps: &[String],
    ) {
        let there = self.there.get(&(node, device_port, vlan));
        match there.and_then(|id| self.facts.ports.get(id)) {
            Some(known) => {
                let to = Destination::Vpc(known.name.vpc());
                self.arrive(&to, Some(known.name), span, senders, steps);
            }
            None => {
                let to = Destination::Nobody(node.clone(), device_port);
                self.arrive(&to, None, span, senders, steps);
            }
        }
    }

    fn arrive(
        &mut self,
        to: &Destination,
        port: Option<&PortName>,
        span: Span,
        senders: &[Sender],
        steps: &[String],
    ) {
        for sender in senders {
            let key = (sender.vpc.clone(), to.clone());
            if self.reach.pairs.contains_key(&key) {
                continue;
            }
            let found = sender.sources.iter().find_map(|(mac, src)| {
                let dst = one_of(span, src.is_v4())?;
                Some((mac, src, dst))
            });
            let Some((mac, src, dst)) = found else {
                continue;
            };
            let mut steps = steps.to_vec();
            steps.insert(0, sender.step.clone());
            let path = Path {
                from: sender.port.clone(),
                mac: *mac,
                src: *src,
                dst,
                steps,
                to: to.clone(),
                port: port.cloned(),
            };
            self.reach.pairs.insert(key, path);
        }
    }
}

/// The first address of a family.
fn one_of(span: Span, is_v4: bool) -> Option<Addr> {
    family(is_v4).into_iter().find_map(|(low, high)| {
        let at = span.low.max(low);
        (at <= span.high.min(high)).then_some(Addr(at))
    })
}
