//! Writing a NIC's tables, and what else has to change with them.

use penstock_flow::Prefix;
use penstock_rules::Region;
use penstock_rules::model::{PortId, Vni};

use super::{Engine, Nic};
use crate::device::Role;
use crate::nic::exact::{NONE, Refused};
use crate::nic::{Entry, Hop, Op, Table, TableError, Update};

impl Engine {
    /// Writes one entry of a NIC's tables; in force from the next packet on.
    ///
    /// A mapping may name a next hop that is not there (yet): its packets are
    /// dropped as `NoRoute`.
    ///
    /// # Errors
    /// Where it is refused; then nothing has changed.
    pub fn write(&mut self, device_id: u32, update: &Update) -> Result<(), TableError> {
        let nic = self
            .nic_index(device_id)
            .ok_or(TableError::UnknownDevice(device_id))?;
        match update.entry {
            Entry::Vport {
                device_port,
                vlan,
                port_id,
                vni,
            } => self.write_vport(nic, update, (device_port, vlan), (port_id, vni)),
            Entry::Nexthop { id, hop } => self.write_nexthop(nic, update, id, &hop),
            Entry::Mapping { vni, dst, nexthop } => {
                self.write_mapping(nic, update, vni, dst, nexthop)
            }
            _ => self.write_table(nic, update),
        }
    }

    fn write_table(&mut self, nic: usize, update: &Update) -> Result<(), TableError> {
        let limit = self.devices.limit();
        match self.nics.get_mut(nic) {
            Some(nic) => nic.tables.write(update, limit),
            // The index has just been looked up.
            None => Ok(()),
        }
    }

    /// Entries of the flow table name the next hops that their destinations had.
    fn write_mapping(
        &mut self,
        nic: usize,
        update: &Update,
        vni: Vni,
        dst: Prefix,
        nexthop: u32,
    ) -> Result<(), TableError> {
        let leads_elsewhere = self.nics.get(nic).is_some_and(|nic| {
            let mapping = &nic.tables.mapping;
            match update.op {
                _ if nic.driver.flow_len() == 0 => false,
                // What was mapped nowhere has no entries.
                Op::Insert => mapping.is_within_another(vni, dst),
                Op::Modify => mapping.get(vni, dst) != Some(nexthop),
                Op::Delete => true,
            }
        });
        self.write_table(nic, update)?;
        if leads_elsewhere {
            let region = Region {
                vni: Some(vni),
                peer: Some(dst),
                ..Region::EVERYTHING
            };
            self.raise(Some(nic), &region, false);
        }
        Ok(())
    }

    fn write_vport(
        &mut self,
        nic: usize,
        update: &Update,
        key: (u32, u16),
        (port_id, to_vni): (PortId, Vni),
    ) -> Result<(), TableError> {
        let taken = match self.devices.role(key.0) {
            Role::None => None,
            Role::Local { nic: owner, .. } if owner == nic => None,
            Role::Local { .. } => Some("use one that no other NIC's ports use"),
            Role::Uplink { .. } => Some("use one that is no uplink"),
        };
        if let Some(remedy) = taken
            && update.op != Op::Delete
        {
            return Err(TableError::Invalid {
                table: Table::Vport,
                field: "device_port",
                value: u64::from(key.0),
                remedy,
            });
        }
        let before = self
            .nics
            .get(nic)
            .and_then(|n| n.tables.vport.get(&key))
            .copied();
        let before_port = before.map(|(port, _)| port);
        if update.op != Op::Delete && before_port != Some(port_id) {
            self.bind_port(port_id)?;
        }
        if let Err(error) = self.write_table(nic, update) {
            if update.op != Op::Delete && before_port != Some(port_id) {
                self.unbind_port(port_id);
            }
            return Err(error);
        }
        match (update.op, before_port) {
            (Op::Insert, _) => self.devices.bind(key.0, nic),
            (Op::Modify, Some(old)) if old != port_id => self.unbind_port(old),
            (Op::Modify, _) => {}
            (Op::Delete, old) => {
                self.devices.unbind(key.0);
                if let Some(old) = old {
                    self.unbind_port(old);
                }
            }
        }
        if let Some((port, vni)) = before
            && update.op != Op::Insert
            && (update.op == Op::Delete || (port, vni) != (port_id, to_vni))
        {
            // Not this port's any more: its connections stay with it or go.
            let region = Region {
                vni: Some(vni),
                port: Some(port),
                ..Region::EVERYTHING
            };
            self.raise(None, &region, true);
        }
        Ok(())
    }

    fn bind_port(&mut self, port: u32) -> Result<(), TableError> {
        if port == 0 {
            // Refused by the table's own check.
            return Ok(());
        }
        if self.ports.find(&port).is_none() {
            let state = super::PortState {
                // Of before, as long as nobody has looked at them.
                connections: self.connections.len_of(port),
                ..super::PortState::default()
            };
            self.ports
                .insert(port, state)
                .map_err(|_| TableError::Full {
                    table: Table::Vport,
                    capacity: self.ports.capacity(),
                })?;
            self.recount();
        }
        if let Some(state) = self.ports.get_mut(&port) {
            state.bindings += 1;
        }
        Ok(())
    }

    /// The last binding gone, the port's connections go too.
    fn unbind_port(&mut self, port: u32) {
        let Some(state) = self.ports.get_mut(&port) else {
            return;
        };
        state.bindings = state.bindings.saturating_sub(1);
        if state.bindings == 0 {
            self.ports.remove(&port);
            self.recount();
        }
    }

    fn write_nexthop(
        &mut self,
        nic: usize,
        update: &Update,
        id: u32,
        hop: &Hop,
    ) -> Result<(), TableError> {
        let Some(this) = self.nics.get_mut(nic) else {
            return Ok(());
        };
        let before = this.tables.nexthop.get(&id).map(|n| (n.neighbour, n.hop));
        let resolve = match hop {
            Hop::ToVtep {
                dst_vtep, dst_mac, ..
            } if dst_mac.0 == [0; 6] && update.op != Op::Delete => Some(*dst_vtep),
            _ => None,
        };
        let neighbour = match resolve {
            None => NONE,
            Some(vtep) => {
                let first_hop = this.first_hop(vtep)?;
                this.neighbours.want(first_hop).map_err(|refused| {
                    debug_assert_eq!(refused, Refused::Full);
                    TableError::Full {
                        table: Table::Nexthop,
                        capacity: this.tables.nexthop.capacity(),
                    }
                })?
            }
        };
        let written = self.write_table(nic, update);
        let Some(this) = self.nics.get_mut(nic) else {
            return written;
        };
        if written.is_err() {
            this.neighbours.release(neighbour);
            return written;
        }
        if let Some((old, _)) = before {
            this.neighbours.release(old);
        }
        if let Some(entry) = this.tables.nexthop.get_mut(&id) {
            entry.neighbour = neighbour;
        }
        if let Some((_, old)) = before
            && (update.op == Op::Delete || !is_one_place(&old, hop))
        {
            // Entries go on naming it, and another end has to judge now.
            let vni = this.vni_behind(&old);
            let region = Region {
                vni: vni.filter(|_| update.op == Op::Delete || vni == this.vni_behind(hop)),
                ..Region::EVERYTHING
            };
            self.raise(Some(nic), &region, true);
        }
        Ok(())
    }
}

impl Nic {
    /// The VPC that a next hop leads into, where that can be told.
    fn vni_behind(&self, hop: &Hop) -> Option<Vni> {
        match *hop {
            Hop::ToVtep { vni, .. } => Some(vni),
            Hop::ToPort {
                device_port, vlan, ..
            } => {
                let bound = self.tables.vport.get(&(device_port, vlan));
                bound.map(|(_, vni)| *vni)
            }
            Hop::ToFrontEnd { .. } => None,
        }
    }
}

/// Whether who judges what goes there stays the same: one local port, or other
/// nodes.
fn is_one_place(a: &Hop, b: &Hop) -> bool {
    let local = |hop: &Hop| match *hop {
        Hop::ToPort {
            device_port, vlan, ..
        } => Some((device_port, vlan)),
        Hop::ToVtep { .. } | Hop::ToFrontEnd { .. } => None,
    };
    local(a) == local(b)
}
