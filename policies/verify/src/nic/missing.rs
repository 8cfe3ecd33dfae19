//! What should be there and is not.

use std::collections::{BTreeMap, HashSet};

use super::Nic;
use crate::finding::Gap;
use crate::lpm::{self, Span};
use crate::row::{Bind, Row, Table};

impl Nic<'_> {
    fn gap(&mut self, table: Table, what: String) {
        self.report.gaps.push(Gap {
            node: self.name.clone(),
            device_id: self.device_id,
            table,
            what,
        });
    }

    /// What should be there, as far as interfaces are known.
    pub(super) fn missing(&mut self, rows: &[Row], spans: &BTreeMap<u32, Vec<Span>>) {
        let (mut bound, mut guarded, mut hops) = (HashSet::new(), HashSet::new(), HashSet::new());
        let mut tunnels = HashSet::new();
        for row in rows {
            match row {
                Row::Vport {
                    bind: Bind::Port { port, .. },
                    ..
                } => {
                    bound.insert(*port);
                }
                Row::SpoofGuard { port, ip, .. } => {
                    guarded.insert((*port, *ip));
                }
                Row::Nexthop { id, .. } => {
                    hops.insert(*id);
                }
                Row::Underlay { src_vtep, vni, .. } => {
                    tunnels.insert((*src_vtep, *vni));
                }
                Row::Vport { .. } | Row::Acl(_) | Row::Mapping { .. } => {}
            }
        }
        let facts = self.facts;
        for vni in &self.place.vpcs {
            for id in facts.of_vpc.get(vni).into_iter().flatten() {
                let Some(known) = facts.ports.get(id) else {
                    continue;
                };
                let here = self.is_here(known);
                let reachable = if here {
                    self.host.interfaces.ports.contains_key(id)
                } else {
                    self.uplink.is_some()
                };
                let name = known.name;
                if here && reachable && !bound.contains(id) {
                    self.gap(Table::Vport, format!("what {name} sends"));
                }
                for ip in &known.port.ips {
                    if here && !guarded.contains(&(*id, *ip)) {
                        self.gap(Table::SpoofGuard, format!("what {name} sends from {ip}"));
                    }
                    let mapped = spans.get(vni).map(Vec::as_slice).unwrap_or_default();
                    if reachable && lpm::within(mapped, ip.0, ip.0).next().is_none() {
                        self.gap(Table::Mapping, format!("what is sent to {ip} of {name}"));
                    }
                }
                if reachable && !hops.contains(id) {
                    self.gap(Table::Nexthop, format!("what is sent to {name}"));
                }
                if !here
                    && let Some(other) = facts.nics.get(&(&known.port.node, known.port.nic))
                    && tunnels.insert((other.vtep, *vni))
                {
                    let vpc = facts.vpcs.get(vni).map_or("", |vpc| vpc.as_str());
                    let what = format!("what comes from {} for {vpc}", other.vtep);
                    self.gap(Table::Underlay, what);
                }
            }
        }
    }
}
