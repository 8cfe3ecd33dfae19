//! What is known of each NIC of the node, for its status.

use penstock_api::v1::NicTable;

use super::Session;
use crate::node::nic::Synced;
use crate::status::{Problem, Reason};

impl Session<'_> {
    /// Takes over what the worker said last about the NIC's uplink.
    pub(super) fn look_at_uplink(&mut self, device_id: u32) {
        let why = self.link.uplink_errors().get(&device_id);
        let problem = why.map(|why| {
            let message = format!("NIC {device_id}: its uplink carries nothing: {why}");
            Problem::new(Reason::UplinkDown, message)
        });
        self.states.entry(device_id).or_default().uplink = problem;
    }

    /// The NIC as a whole is not as it should be.
    pub(super) fn note_nic(&mut self, device_id: u32, problem: &Problem) {
        self.states.entry(device_id).or_default().problem = Some(problem.clone());
    }

    /// What a sync has left in the NIC's tables, and why not all of it; every problem
    /// names the NIC from here on.
    pub(super) fn keep_state(&mut self, device_id: u32, synced: &mut Synced) {
        let info = self.info.nics.iter().find(|nic| nic.device_id == device_id);
        let tables = synced.tables.iter().map(|(table, (there, wanted))| {
            let capacity = info.and_then(|nic| nic.capacity.get(table.name()));
            NicTable {
                name: table.name().to_owned(),
                entries: *there,
                wanted: *wanted,
                capacity: capacity.copied().unwrap_or(0).into(),
            }
        });
        let tables: Vec<NicTable> = tables.collect();
        let short: Vec<String> = tables.iter().filter_map(shortage).collect();
        let first = synced.problems.values().next();
        let problem = first.or(synced.leftovers.as_ref()).map(|problem| {
            let why = &problem.message;
            let message = if short.is_empty() {
                format!("NIC {device_id}: {why}")
            } else {
                format!(
                    "NIC {device_id}: {}, so {} resources are not wholly in it: {why}",
                    short.join(", "),
                    synced.problems.len(),
                )
            };
            Problem::new(problem.reason, message)
        });
        for problem in synced.problems.values_mut().chain(&mut synced.leftovers) {
            problem.message = format!("NIC {device_id}: {}", problem.message);
        }
        let state = self.states.entry(device_id).or_default();
        state.problem = problem;
        state.tables = tables;
    }
}

fn shortage(table: &NicTable) -> Option<String> {
    let NicTable {
        name,
        entries,
        wanted,
        capacity,
    } = table;
    (entries < wanted).then(|| {
        let takes = match capacity {
            0 => String::new(),
            _ => format!(", it takes {capacity}"),
        };
        format!("table {name} has {entries} of {wanted} entries{takes}")
    })
}
