//! What the outside can see of an engine.

use penstock_flow::{Key, Tuple};
use penstock_rules::Ruleset;
use penstock_rules::model::PortId;

use super::Engine;
use super::fence::Fenced;
use crate::counters::{Counters, PortCounters, Traffic};
use crate::nic::{Entry, FlowEntry, Table};
use crate::record::{DropRecord, FlowRecord};

impl Engine {
    /// Whether connections are still to be judged by the policy in force.
    #[must_use]
    pub fn rejudging(&self) -> bool {
        self.sweep.running() || self.fences.are_up()
    }

    /// What is behind a fence, and how much of it is left; `None`: nothing is.
    #[must_use]
    pub fn fenced(&self) -> Option<Fenced> {
        self.fences.status(&self.connections)
    }

    /// Whether every fence is in its NIC: from then on no packet passes by a
    /// judgement that a change has taken back.
    #[must_use]
    pub fn fences_stand(&self) -> bool {
        self.nics.iter().all(|nic| nic.driver.fences_stand())
    }

    /// Writes to a NIC's flow table that it has not carried out; `None`: no such
    /// NIC.
    #[must_use]
    pub fn pending_writes(&self, device_id: u32) -> Option<u32> {
        let nic = self.nics.get(self.nic_index(device_id)?)?;
        Some(nic.driver.waiting())
    }

    /// The generation of the policy in force; 0: none.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.policies.generation()
    }

    /// The policy in force.
    #[must_use]
    pub fn ruleset(&self) -> Option<&Ruleset> {
        self.policies.rules()
    }

    /// Connections that each rule of the policy in force has admitted here.
    #[must_use]
    pub fn rule_hits(&self) -> &[u64] {
        self.policies.hits()
    }

    /// All numbers.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// A device port's numbers.
    #[must_use]
    pub fn port_counters(&self, device_port: u32) -> Option<&PortCounters> {
        self.devices.counters(device_port)
    }

    /// Recent denials and revocations, newest first.
    pub fn drops(&self) -> impl Iterator<Item = &DropRecord> {
        self.records.drops()
    }

    /// The latest packets that rules with a log have let pass, newest first: those that
    /// open connections, and those that need none.
    pub fn allowed(&self) -> impl Iterator<Item = &DropRecord> {
        self.records.allowed()
    }

    /// The latest such packets that lists in audit would have refused, newest first.
    pub fn audited(&self) -> impl Iterator<Item = &DropRecord> {
        self.records.audited()
    }

    /// Entries in use in a table of a NIC, those on their way to the flow table or
    /// from it included; `None`: no such NIC.
    #[must_use]
    pub fn occupancy(&self, device_id: u32, table: Table) -> Option<u32> {
        let nic = self.nics.get(self.nic_index(device_id)?)?;
        Some(match table {
            Table::Fence => nic.driver.fence_len(),
            Table::Flow => nic.driver.flow_len(),
            _ => nic.tables.len(table),
        })
    }

    /// Every entry of a table except `flow`, with what it has counted where it
    /// counts.
    pub fn visit_entries(
        &self,
        device_id: u32,
        table: Table,
        visit: &mut dyn FnMut(&Entry, Option<Traffic>),
    ) {
        if let Some(nic) = self.nic_index(device_id).and_then(|i| self.nics.get(i)) {
            match table {
                Table::Fence => nic.driver.visit_fences(visit),
                _ => nic.tables.visit(table, visit),
            }
        }
    }

    /// Every entry that is in a NIC's flow table, on its way out or not.
    pub fn visit_flow_entries(&self, now: u64, device_id: u32, visit: &mut dyn FnMut(&FlowEntry)) {
        if let Some(nic) = self.nic_index(device_id).and_then(|i| self.nics.get(i)) {
            nic.driver.visit_rows(now, visit);
        }
    }

    /// The connection of a port that a packet with `tuple`, either way, is one of.
    #[must_use]
    pub fn flow(&self, now: u64, port: PortId, tuple: &Tuple) -> Option<FlowRecord<'_>> {
        let (key, _) = Key::new(port, tuple);
        self.flow_record(now, self.connections.find(&key)?.index())
    }

    /// Connections, of one port or of all, until `visit` answers `false`.
    pub fn visit_flows(
        &self,
        now: u64,
        port: Option<PortId>,
        visit: &mut dyn FnMut(&FlowRecord<'_>) -> bool,
    ) {
        if let Some(port) = port {
            for slot in self.connections.of_port(port) {
                if let Some(record) = self.flow_record(now, slot)
                    && !visit(&record)
                {
                    return;
                }
            }
            return;
        }
        for slot in 0..self.connections.slots() {
            if let Some(record) = self.flow_record(now, slot)
                && !visit(&record)
            {
                return;
            }
        }
    }
}
