//! The rows of one NIC, each against what the model says of it.

use std::collections::{BTreeMap, HashMap, HashSet};

use penstock_policies::model::NodeName;

use crate::facts::{Facts, Place};
use crate::finding::{Packet, Report, Unproved, Violation, Wrong};
use crate::lpm;
use crate::row::{Acl, Row};
use crate::{Host, Limits, acl};

mod mapping;
mod missing;
mod rows;

/// All NICs of a node.
pub(crate) fn node(
    facts: &Facts<'_>,
    name: &NodeName,
    host: &Host,
    limits: Limits,
    report: &mut Report,
) {
    for (device_id, rows) in &host.programs {
        let Some(place) = facts.nics.get(&(name, *device_id)) else {
            report.unproved.get_or_insert(Unproved::NoNic {
                node: name.clone(),
                device_id: *device_id,
            });
            continue;
        };
        let mut nic = Nic::new(facts, name, *device_id, place, host, limits, report);
        nic.rows(rows);
    }
}

/// A NIC that is looked at.
pub(crate) struct Nic<'a> {
    pub(crate) facts: &'a Facts<'a>,
    name: &'a NodeName,
    pub(crate) device_id: u32,
    pub(crate) place: &'a Place,
    host: &'a Host,
    uplink: Option<u32>,
    /// Which port is at a device port and VLAN.
    there: HashMap<(u32, u16), u32>,
    pub(crate) limits: Limits,
    pub(crate) report: &'a mut Report,
}

impl<'a> Nic<'a> {
    fn new(
        facts: &'a Facts<'a>,
        name: &'a NodeName,
        device_id: u32,
        place: &'a Place,
        host: &'a Host,
        limits: Limits,
        report: &'a mut Report,
    ) -> Self {
        let interfaces = &host.interfaces;
        let mut there = HashMap::new();
        for known in place.ports.iter().filter_map(|id| facts.ports.get(id)) {
            if let Some(device_port) = interfaces.ports.get(&known.id)
                && !interfaces.uplinks.values().any(|it| it == device_port)
            {
                there.insert((*device_port, known.port.vlan), known.id);
            }
        }
        report.nics += 1;
        Self {
            facts,
            name,
            device_id,
            place,
            host,
            uplink: interfaces.uplinks.get(&device_id).copied(),
            there,
            limits,
            report,
        }
    }

    fn rows(&mut self, rows: &[Row]) {
        self.report.rows += rows.len();
        let mut keys = HashSet::new();
        let mut mappings: BTreeMap<u32, Vec<(penstock_flow::Prefix, u32, usize)>> = BTreeMap::new();
        let mut acls: Vec<Acl> = Vec::new();
        for (i, row) in rows.iter().enumerate() {
            if !keys.insert(row.key()) {
                self.wrong(row, Wrong::Twice, None);
            }
            match row {
                Row::Vport {
                    device_port,
                    vlan,
                    bind,
                } => self.vport(row, *device_port, *vlan, *bind),
                Row::Underlay {
                    src_vtep,
                    dst_vtep,
                    vni,
                    decap,
                } => self.underlay(row, *src_vtep, *dst_vtep, *vni, *decap),
                Row::SpoofGuard { port, mac, ip } => self.spoof_guard(row, *port, *mac, *ip),
                Row::Mapping { vni, dst, nexthop } => {
                    mappings.entry(*vni).or_default().push((*dst, *nexthop, i));
                }
                Row::Nexthop { id, hop } => self.nexthop(row, *id, hop),
                Row::Acl(acl) => acls.push(*acl),
            }
        }
        let mut spans = BTreeMap::new();
        for (vni, prefixes) in mappings {
            let resolved = lpm::spans(prefixes);
            self.mapping(rows, vni, &resolved);
            spans.insert(vni, resolved);
        }
        self.missing(rows, &spans);
        if acls.iter().any(|acl| acl.action != crate::AclAction::Ask) {
            acl::check(self, &acls);
        }
    }

    /// Counts cells; `false`: enough.
    pub(crate) fn spend(&mut self, cells: u64) -> bool {
        self.report.cells += cells;
        if self.report.cells > self.limits.cells {
            let unproved = Unproved::Cells(self.limits.cells);
            self.report.unproved.get_or_insert(unproved);
            return false;
        }
        true
    }

    pub(crate) fn wrong(&mut self, row: &Row, wrong: Wrong, packet: Option<Packet>) {
        // For each NIC: what is wrong with one must not hide what is with another.
        let told = self.report.violations.iter();
        if told
            .filter(|it| it.device_id == self.device_id && it.node == *self.name)
            .count()
            >= self.limits.violations
        {
            return;
        }
        self.report.violations.push(Violation {
            node: self.name.clone(),
            device_id: self.device_id,
            table: row.table(),
            row: row.to_string(),
            wrong,
            packet,
        });
    }
}
