//! One NIC's tables that the controller writes, together.

use penstock_flow::Addr;
use penstock_rules::model::{PortId, Vni};

use crate::counters::Traffic;

use super::check::check;
use super::exact::{Exact, Refused};
use super::mapping::Mapping;
use super::ranked::Ranked;
use super::rows::{Nexthop, PathMtu, Source};
use super::{AclAction, AclKey, Capacities, Entry, Hop, Op, Table, TableError, Update};

#[derive(Debug)]
pub(crate) struct Tables {
    /// (device port, VLAN) to (port, VPC).
    pub(crate) vport: Exact<(u32, u16), (PortId, Vni)>,
    /// (source, destination, VNI on the wire) to VPC.
    pub(crate) underlay: Exact<(Addr, Addr, Vni), Vni>,
    pub(crate) spoof_guard: Exact<Source, ()>,
    pub(crate) acl: Ranked<AclKey, AclAction>,
    pub(crate) mapping: Mapping,
    pub(crate) nexthop: Exact<u32, Nexthop>,
}

impl Tables {
    pub(crate) fn new(c: &Capacities, seed: u64) -> Self {
        Self {
            vport: Exact::new(c.vport, seed),
            underlay: Exact::new(c.underlay, seed),
            spoof_guard: Exact::new(c.spoof_guard, seed),
            acl: Ranked::new(c.acl),
            mapping: Mapping::new(c.mapping, seed),
            nexthop: Exact::new(c.nexthop, seed),
        }
    }

    /// Entries in use.
    pub(crate) fn len(&self, table: Table) -> u32 {
        match table {
            Table::Vport => self.vport.len(),
            Table::Underlay => self.underlay.len(),
            Table::SpoofGuard => self.spoof_guard.len(),
            Table::Fence | Table::Flow | Table::RdmaQp | Table::RdmaPair => 0,
            Table::Acl => self.acl.len(),
            Table::Mapping => self.mapping.len(),
            Table::Nexthop => self.nexthop.len(),
        }
    }

    pub(crate) fn capacity(&self, table: Table) -> u32 {
        match table {
            Table::Vport => self.vport.capacity(),
            Table::Underlay => self.underlay.capacity(),
            Table::SpoofGuard => self.spoof_guard.capacity(),
            Table::Fence | Table::Flow | Table::RdmaQp | Table::RdmaPair => 0,
            Table::Acl => self.acl.capacity(),
            Table::Mapping => self.mapping.capacity(),
            Table::Nexthop => self.nexthop.capacity(),
        }
    }

    /// Lowers what next hops to `vtep` carry.
    pub(crate) fn lower_mtu(&mut self, vtep: Addr, path: PathMtu) {
        for nexthop in self.nexthop.values_mut() {
            if matches!(nexthop.hop, Hop::ToVtep { dst_vtep, .. } if dst_vtep == vtep) {
                nexthop.path = Some(path);
            }
        }
    }

    /// Shows every entry of a table that is written from outside, with what it
    /// has counted where it counts.
    pub(crate) fn visit(&self, table: Table, f: &mut dyn FnMut(&Entry, Option<Traffic>)) {
        match table {
            Table::Vport => {
                self.vport
                    .iter()
                    .for_each(|(&(device_port, vlan), &(port_id, vni))| {
                        let entry = Entry::Vport {
                            device_port,
                            vlan,
                            port_id,
                            vni,
                        };
                        f(&entry, None);
                    })
            }
            Table::Underlay => {
                self.underlay
                    .iter()
                    .for_each(|(&(src_vtep, dst_vtep, vni), &decap_vni)| {
                        let entry = Entry::Underlay {
                            src_vtep,
                            dst_vtep,
                            vni,
                            decap_vni,
                        };
                        f(&entry, None);
                    });
            }
            Table::SpoofGuard => self
                .spoof_guard
                .iter()
                .for_each(|(source, ())| f(&source.entry(), None)),
            Table::Acl => self.acl.iter().for_each(|(&key, priority, action, hits)| {
                let entry = Entry::Acl {
                    key,
                    priority,
                    action,
                };
                f(&entry, Some(hits));
            }),
            Table::Mapping => self.mapping.iter().for_each(|(vni, dst, nexthop)| {
                f(&Entry::Mapping { vni, dst, nexthop }, None);
            }),
            Table::Nexthop => self.nexthop.iter().for_each(|(&id, nexthop)| {
                let hop = nexthop.hop;
                f(&Entry::Nexthop { id, hop }, None);
            }),
            // Written by the engine itself, or not there.
            Table::Fence | Table::Flow | Table::RdmaQp | Table::RdmaPair => {}
        }
    }

    /// Applies one update, whole or not at all.
    pub(crate) fn write(&mut self, update: &Update, device_ports: u32) -> Result<(), TableError> {
        let Update { op, entry } = update;
        if let Entry::Fence { .. } = entry {
            return Err(TableError::ReadOnly(Table::Fence));
        }
        // A delete may leave the action out; a key that cannot be is missing.
        if *op != Op::Delete {
            check(entry, device_ports)?;
        }
        let table = entry.table();
        match op {
            Op::Insert => self.insert(entry).map_err(|refused| match refused {
                Refused::Exists => TableError::Exists(table),
                Refused::Full => TableError::Full {
                    table,
                    capacity: self.capacity(table),
                },
            }),
            Op::Modify if self.modify(entry) => Ok(()),
            Op::Delete if self.delete(entry) => Ok(()),
            Op::Modify | Op::Delete => Err(TableError::Missing(table)),
        }
    }

    fn insert(&mut self, entry: &Entry) -> Result<(), Refused> {
        match *entry {
            Entry::Vport {
                device_port,
                vlan,
                port_id,
                vni,
            } => self
                .vport
                .insert((device_port, vlan), (port_id, vni))
                .map(drop),
            Entry::Underlay {
                src_vtep,
                dst_vtep,
                vni,
                decap_vni,
            } => self
                .underlay
                .insert((src_vtep, dst_vtep, vni), decap_vni)
                .map(drop),
            Entry::SpoofGuard { port_id, mac, ip } => self
                .spoof_guard
                .insert(Source::new(port_id, mac, ip), ())
                .map(drop),
            Entry::Fence { .. } => Err(Refused::Full),
            Entry::Acl {
                key,
                priority,
                action,
            } => self.acl.insert(key, priority, action),
            Entry::Mapping { vni, dst, nexthop } => self.mapping.insert(vni, dst, nexthop),
            Entry::Nexthop { id, hop } => self.nexthop.insert(id, Nexthop::new(hop)).map(drop),
        }
    }

    fn modify(&mut self, entry: &Entry) -> bool {
        fn set<T>(place: Option<&mut T>, value: T) -> bool {
            place.is_some_and(|p| {
                *p = value;
                true
            })
        }
        match *entry {
            Entry::Vport {
                device_port,
                vlan,
                port_id,
                vni,
            } => set(self.vport.get_mut(&(device_port, vlan)), (port_id, vni)),
            Entry::Underlay {
                src_vtep,
                dst_vtep,
                vni,
                decap_vni,
            } => set(self.underlay.get_mut(&(src_vtep, dst_vtep, vni)), decap_vni),
            Entry::SpoofGuard { port_id, mac, ip } => self
                .spoof_guard
                .find(&Source::new(port_id, mac, ip))
                .is_some(),
            Entry::Fence { .. } => false,
            Entry::Acl {
                key,
                priority,
                action,
            } => self.acl.modify(&key, priority, action),
            Entry::Mapping { vni, dst, nexthop } => self.mapping.modify(vni, dst, nexthop),
            Entry::Nexthop { id, hop } => set(self.nexthop.get_mut(&id), Nexthop::new(hop)),
        }
    }

    fn delete(&mut self, entry: &Entry) -> bool {
        match *entry {
            Entry::Vport {
                device_port, vlan, ..
            } => self.vport.remove(&(device_port, vlan)).is_some(),
            Entry::Underlay {
                src_vtep,
                dst_vtep,
                vni,
                ..
            } => self.underlay.remove(&(src_vtep, dst_vtep, vni)).is_some(),
            Entry::SpoofGuard { port_id, mac, ip } => self
                .spoof_guard
                .remove(&Source::new(port_id, mac, ip))
                .is_some(),
            Entry::Fence { .. } => false,
            Entry::Acl { key, priority, .. } => self.acl.remove(&key, priority),
            Entry::Mapping { vni, dst, .. } => self.mapping.remove(vni, dst),
            Entry::Nexthop { id, .. } => self.nexthop.remove(&id).is_some(),
        }
    }
}
