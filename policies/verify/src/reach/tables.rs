//! A NIC's tables, to look things up in.

use std::collections::{BTreeMap, HashMap};

use penstock_flow::{Addr, Mac};

use crate::lpm::{self, Span};
use crate::row::{Bind, Hop, Row};

#[derive(Default)]
pub(super) struct Tables {
    /// Device port, VLAN, port, VNI.
    pub(super) vports: Vec<(u32, u16, u32, u32)>,
    pub(super) sources: HashMap<u32, Vec<(Mac, Addr)>>,
    pub(super) underlay: HashMap<(Addr, Addr, u32), u32>,
    pub(super) mapping: BTreeMap<u32, Vec<Span>>,
    pub(super) nexthop: HashMap<u32, Hop>,
}

impl Tables {
    pub(super) fn new(rows: &[Row]) -> Self {
        let mut tables = Self::default();
        let mut prefixes: BTreeMap<u32, Vec<_>> = BTreeMap::new();
        for (i, row) in rows.iter().enumerate() {
            match *row {
                Row::Vport {
                    device_port,
                    vlan,
                    bind: Bind::Port { port, vni },
                } => tables.vports.push((device_port, vlan, port, vni)),
                Row::Vport { .. } | Row::Acl(_) => {}
                Row::Underlay {
                    src_vtep,
                    dst_vtep,
                    vni,
                    decap,
                } => {
                    tables.underlay.insert((src_vtep, dst_vtep, vni), decap);
                }
                Row::SpoofGuard { port, mac, ip } => {
                    tables.sources.entry(port).or_default().push((mac, ip));
                }
                Row::Mapping { vni, dst, nexthop } => {
                    prefixes.entry(vni).or_default().push((dst, nexthop, i));
                }
                Row::Nexthop { id, hop } => {
                    tables.nexthop.insert(id, hop);
                }
            }
        }
        tables.mapping = prefixes
            .into_iter()
            .map(|(vni, prefixes)| (vni, lpm::spans(prefixes)))
            .collect();
        tables
    }
}
