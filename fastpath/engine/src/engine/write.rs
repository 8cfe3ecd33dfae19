//! Writing a NIC's tables, and what else has to change with them.

use super::Engine;
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
                ..
            } => self.write_vport(nic, update, (device_port, vlan), port_id),
            Entry::Nexthop { id, hop } => self.write_nexthop(nic, update, id, &hop),
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

    fn write_vport(
        &mut self,
        nic: usize,
        update: &Update,
        key: (u32, u16),
        port_id: u32,
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
            .map(|(port, _)| *port);
        if update.op != Op::Delete && before != Some(port_id) {
            self.bind_port(port_id)?;
        }
        if let Err(error) = self.write_table(nic, update) {
            if update.op != Op::Delete && before != Some(port_id) {
                self.unbind_port(port_id);
            }
            return Err(error);
        }
        match (update.op, before) {
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
        Ok(())
    }

    fn bind_port(&mut self, port: u32) -> Result<(), TableError> {
        if port == 0 {
            // Refused by the table's own check.
            return Ok(());
        }
        if self.ports.find(&port).is_none() {
            self.ports
                .insert(port, super::PortState::default())
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
            self.sweep.start(self.connections.capacity());
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
        let before = this.tables.nexthop.get(&id).map(|n| n.neighbour);
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
        if let Some(old) = before {
            this.neighbours.release(old);
        }
        if let Some(entry) = this.tables.nexthop.get_mut(&id) {
            entry.neighbour = neighbour;
        }
        Ok(())
    }
}
