//! The rows of one NIC, each against what the model says of it.

use std::collections::{BTreeMap, HashMap, HashSet};

use penstock_flow::{Addr, Mac};
use penstock_policies::model::NodeName;

use crate::facts::{Facts, Known, Place};
use crate::finding::{Gap, Packet, Report, Unproved, Violation, Wrong};
use crate::lpm::{self, Span};
use crate::row::{Acl, Bind, Hop, Row, Table};
use crate::{Host, Limits, acl};

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

    fn vport(&mut self, row: &Row, device_port: u32, vlan: u16, bind: Bind) {
        match bind {
            Bind::FrontEnd => self.wrong(row, Wrong::FrontEnd, None),
            Bind::Uplink => {
                if self.uplink != Some(device_port) || vlan != 0 {
                    self.wrong(row, Wrong::NoUplink, None);
                }
            }
            Bind::Port { port, vni } => {
                let there = self.there.get(&(device_port, vlan));
                let Some(known) = there.and_then(|id| self.facts.ports.get(id)) else {
                    return self.wrong(row, Wrong::Nobody, None);
                };
                if known.id != port {
                    self.wrong(row, Wrong::OtherPort(known.name.clone()), None);
                }
                self.same_vni(row, known.vni, vni);
            }
        }
    }

    fn same_vni(&mut self, row: &Row, expected: u32, found: u32) {
        if expected != found {
            self.wrong(row, Wrong::Vni { expected, found }, None);
        }
    }

    fn spoof_guard(&mut self, row: &Row, port: u32, mac: Mac, ip: Addr) {
        let Some(known) = self.facts.ports.get(&port) else {
            return self.wrong(row, Wrong::NoPort(port), None);
        };
        if !self.is_here(known) {
            return self.wrong(row, Wrong::PortElsewhere(known.name.clone()), None);
        }
        if known.port.mac != mac {
            let expected = known.port.mac;
            self.wrong(
                row,
                Wrong::Mac {
                    expected,
                    found: mac,
                },
                None,
            );
        }
        if !known.port.ips.contains(&ip) {
            let port = known.name.clone();
            self.wrong(row, Wrong::Address { port, ip }, None);
        }
    }

    fn underlay(&mut self, row: &Row, src: Addr, dst: Addr, vni: u32, decap: u32) {
        let Some(vpc) = self.facts.vpcs.get(&vni) else {
            return self.wrong(row, Wrong::NoVpc(vni), None);
        };
        self.same_vni(row, vni, decap);
        if dst != self.place.vtep {
            let expected = self.place.vtep;
            self.wrong(
                row,
                Wrong::OwnVtep {
                    expected,
                    found: dst,
                },
                None,
            );
        }
        if !self.place.vpcs.contains(&vni) {
            self.wrong(row, Wrong::VpcElsewhere((*vpc).clone()), None);
        }
        // The VNI on the wire is that of the receiving VPC.
        let other = self.facts.vteps.get(&src);
        let may_send = src != self.place.vtep
            && other
                .and_then(|nic| self.facts.nics.get(nic))
                .is_some_and(|place| place.vpcs.iter().any(|it| self.facts.may_meet(*it, vni)));
        if !may_send {
            self.wrong(row, Wrong::Stranger(src), None);
        }
    }

    pub(crate) fn is_here(&self, known: &Known<'_>) -> bool {
        known.port.node == *self.name && known.port.nic == self.device_id
    }

    /// Whether some VPC of this NIC may speak to the port.
    fn concerns(&self, known: &Known<'_>) -> bool {
        let mut here = self.place.vpcs.iter();
        here.any(|vni| self.facts.may_meet(*vni, known.vni))
    }

    fn nexthop(&mut self, row: &Row, id: u32, hop: &Hop) {
        let Some(known) = self.facts.ports.get(&id).copied() else {
            return self.wrong(row, Wrong::NoPort(id), None);
        };
        if !self.concerns(&known) {
            return self.wrong(row, Wrong::Unconcerned(known.name.clone()), None);
        }
        let here = self.is_here(&known);
        match *hop {
            Hop::ToFrontEnd { .. } => self.wrong(row, Wrong::FrontEnd, None),
            Hop::ToPort {
                device_port,
                vlan,
                mac,
            } if here => self.local(row, &known, device_port, vlan, mac),
            Hop::ToVtep { .. } if !here => self.remote(row, &known, hop),
            Hop::ToPort { .. } | Hop::ToVtep { .. } => {
                let port = known.name.clone();
                self.wrong(row, Wrong::Way { port, here }, None);
            }
        }
    }

    fn local(&mut self, row: &Row, known: &Known<'_>, device_port: u32, vlan: u16, mac: Mac) {
        match self.host.interfaces.ports.get(&known.id).copied() {
            None => self.wrong(row, Wrong::Nobody, None),
            Some(expected) if expected != device_port => {
                let (port, found) = (known.name.clone(), device_port);
                let wrong = Wrong::DevicePort {
                    port,
                    expected,
                    found,
                };
                self.wrong(row, wrong, None);
            }
            Some(_) => {}
        }
        if vlan != known.port.vlan {
            let (expected, found) = (known.port.vlan, vlan);
            self.wrong(row, Wrong::Vlan { expected, found }, None);
        }
        self.same_mac(row, known.port.mac, mac);
    }

    fn same_mac(&mut self, row: &Row, expected: Mac, found: Mac) {
        if expected != found {
            self.wrong(row, Wrong::Mac { expected, found }, None);
        }
    }

    fn remote(&mut self, row: &Row, known: &Known<'_>, hop: &Hop) {
        let Hop::ToVtep {
            src_vtep,
            dst_vtep,
            src_mac,
            dst_mac,
            vni,
            mtu,
            device_port,
        } = *hop
        else {
            return;
        };
        if src_vtep != self.place.vtep {
            let (expected, found) = (self.place.vtep, src_vtep);
            self.wrong(row, Wrong::OwnVtep { expected, found }, None);
        }
        let other = self.facts.nics.get(&(&known.port.node, known.port.nic));
        if let Some(other) = other {
            if dst_vtep != other.vtep {
                let (port, expected, found) = (known.name.clone(), other.vtep, dst_vtep);
                let wrong = Wrong::Vtep {
                    port,
                    expected,
                    found,
                };
                self.wrong(row, wrong, None);
            }
            let expected = self.place.room.min(other.room);
            if mtu != expected {
                self.wrong(
                    row,
                    Wrong::Mtu {
                        expected,
                        found: mtu,
                    },
                    None,
                );
            }
        }
        self.same_vni(row, known.vni, vni);
        if self.uplink != Some(device_port) {
            let (expected, found) = (self.uplink, device_port);
            self.wrong(row, Wrong::Uplink { expected, found }, None);
        }
        // Zero leaves it to the worker.
        let open = Mac::default();
        let own = self.uplink.and_then(|uplink| self.host.macs.get(&uplink));
        if src_mac != open && own != Some(&src_mac) {
            self.same_mac(row, own.copied().unwrap_or(open), src_mac);
        }
        if dst_mac != open && (!self.host.live || dst_mac.is_multicast()) {
            self.same_mac(row, open, dst_mac);
        }
    }

    fn mapping(&mut self, rows: &[Row], vni: u32, spans: &[Span]) {
        let here = self.place.vpcs.contains(&vni);
        for span in spans {
            if !self.spend(1) {
                return;
            }
            let Some(row) = rows.get(span.row) else {
                continue;
            };
            let Some(vpc) = self.facts.vpcs.get(&vni) else {
                self.wrong(row, Wrong::NoVpc(vni), None);
                continue;
            };
            if !here {
                self.wrong(row, Wrong::VpcElsewhere((*vpc).clone()), None);
                continue;
            }
            let Some(to) = self.facts.ports.get(&span.id).copied() else {
                self.wrong(row, Wrong::NoPort(span.id), None);
                continue;
            };
            // No port has more addresses than this loop has rounds.
            let mut ip = Some(span.low);
            while let Some(at) = ip.filter(|at| *at <= span.high) {
                let owner = self.facts.owner(vni, Addr(at));
                if owner.map(|owner| owner.id) != Some(to.id) {
                    let wrong = Wrong::Astray {
                        ip: Addr(at),
                        to: to.name.clone(),
                        owner: owner.map(|owner| owner.name.clone()),
                    };
                    let packet = self.sender(vni, Addr(at));
                    self.wrong(row, wrong, packet);
                    break;
                }
                ip = at.checked_add(1);
            }
        }
    }

    /// A packet that a port of this NIC may send there.
    fn sender(&self, vni: u32, dst: Addr) -> Option<Packet> {
        let ports = self
            .place
            .ports
            .iter()
            .filter_map(|id| self.facts.ports.get(id));
        let mut ips = ports
            .filter(|known| known.vni == vni)
            .flat_map(|known| &known.port.ips);
        let src = *ips.find(|ip| ip.is_v4() == dst.is_v4())?;
        Some(Packet {
            src,
            dst,
            proto: None,
            sport: 0,
            dport: 0,
        })
    }

    fn gap(&mut self, table: Table, what: String) {
        self.report.gaps.push(Gap {
            node: self.name.clone(),
            device_id: self.device_id,
            table,
            what,
        });
    }

    /// What should be there, as far as interfaces are known.
    fn missing(&mut self, rows: &[Row], spans: &BTreeMap<u32, Vec<Span>>) {
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
