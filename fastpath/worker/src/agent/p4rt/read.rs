//! Reads: the controller's tables from the agent, the worker's own from the engine.

use std::collections::BTreeMap;
use std::time::Duration;

use p4runtime::pipeline::{Key, Table, entity};
use p4runtime::v1;
use p4runtime::v1::entity::Entity as E;
use penstock_engine::counters::Traffic;
use penstock_engine::nic;
use tonic::Status;

use super::convert;
use super::tables::Tables;
use crate::lcore::Lcores;

/// Entities in one message of the answer.
pub const CHUNK: usize = 1000;
/// Tables that the engine has, with counters.
const OWN: [Table; 2] = [Table::Fence, Table::Flow];
/// What a read of the flow table may take.
const DEADLINE: Duration = Duration::from_secs(5);

/// One entity to be read, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    what: What,
    /// The answer is counters, not entries.
    counters_only: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    Tables(Vec<Table>),
    One(Key),
}

impl Query {
    /// From the wire.
    ///
    /// # Errors
    /// The pipeline has no such thing, or the pattern is malformed.
    pub fn decode(entity: &v1::Entity) -> Result<Self, Status> {
        let (pattern, counters_only) = match &entity.entity {
            Some(E::TableEntry(entry)) => (entry.clone(), false),
            Some(E::DirectCounterEntry(v1::DirectCounterEntry { table_entry, .. })) => {
                let Some(pattern) = table_entry.clone() else {
                    return Err(Status::invalid_argument(
                        "direct_counter_entry.table_entry: name the table, or table_id 0 for all",
                    ));
                };
                (pattern, true)
            }
            None => return Err(Status::invalid_argument("entities: one of them is empty")),
            Some(_) => {
                return Err(Status::unimplemented(
                    "entities: this pipeline has table entries and direct counters only",
                ));
            }
        };
        let v1::TableEntry {
            table_id,
            r#match,
            action,
            priority,
            is_default_action,
            ..
        } = &pattern;
        if *is_default_action {
            return Err(Status::unimplemented(
                "is_default_action: default actions are fixed by the program and not kept as entries",
            ));
        }
        if action.is_some() {
            return Err(Status::unimplemented(
                "action: entries are not found by their action; leave it out and filter the answer",
            ));
        }
        let what = if *table_id == 0 {
            if !r#match.is_empty() {
                return Err(Status::invalid_argument(
                    "match: fields belong to a table; name it in table_id",
                ));
            }
            What::Tables(Table::ALL.to_vec())
        } else {
            let table = Table::from_id(*table_id).map_err(refuse)?;
            // Fields that match everything are left out of a key, so the key of a ternary
            // table's catch-all is its priority alone.
            if r#match.is_empty() && *priority == 0 {
                What::Tables(vec![table])
            } else {
                What::One(Key::decode(&pattern).map_err(refuse)?)
            }
        };
        let counted = match &what {
            What::Tables(tables) => OWN.iter().any(|own| tables.contains(own)),
            What::One(key) => OWN.contains(&key.table()),
        };
        if counters_only && !counted {
            return Err(Status::unimplemented(
                "direct_counter_entry: the soft NIC counts per entry in tables fence and flow only",
            ));
        }
        Ok(Self {
            what,
            counters_only,
        })
    }

    fn wants(&self, table: Table) -> bool {
        match &self.what {
            What::Tables(tables) => tables.contains(&table),
            What::One(key) => key.table() == table,
        }
    }

    /// The answer; the worker's own tables are asked of the engine where they are
    /// wanted.
    ///
    /// # Errors
    /// The polling thread does not answer.
    pub async fn run(
        &self,
        tables: &Tables,
        device_id: u32,
        lcores: &Lcores,
    ) -> Result<Vec<v1::Entity>, Status> {
        let mut found: Vec<v1::TableEntry> = Vec::new();
        if !self.counters_only {
            match &self.what {
                What::One(key) => found.extend(tables.get(key).map(|entry| entry.encode())),
                What::Tables(_) => {
                    let wanted = tables.iter().filter(|e| self.wants(e.key().table()));
                    found.extend(wanted.map(|entry| entry.encode()));
                }
            }
        }
        for table in OWN {
            if !self.wants(table) {
                continue;
            }
            let rows = match table {
                Table::Fence => fence_rows(device_id, lcores).await?,
                _ => flow_rows(device_id, lcores).await?,
            };
            match &self.what {
                What::Tables(_) => found.extend(rows),
                What::One(key) => {
                    found.extend(
                        rows.into_iter()
                            .filter(|row| Key::decode(row).is_ok_and(|of_row| of_row == *key)),
                    );
                }
            }
        }
        Ok(found
            .into_iter()
            .map(|entry| {
                if !self.counters_only {
                    return entity(entry);
                }
                v1::Entity {
                    entity: Some(E::DirectCounterEntry(v1::DirectCounterEntry {
                        data: entry.counter_data,
                        table_entry: Some(v1::TableEntry {
                            action: None,
                            counter_data: None,
                            time_since_last_hit: None,
                            ..entry
                        }),
                    })),
                }
            })
            .collect())
    }
}

async fn flow_rows(device_id: u32, lcores: &Lcores) -> Result<Vec<v1::TableEntry>, Status> {
    let rows = lcores
        .ask(DEADLINE, move |core| core.flow_entries(device_id))
        .await
        .map_err(|error| Status::unavailable(error.to_string()))?;
    Ok(rows.iter().flatten().map(convert::flow_row).collect())
}

/// Fences that several lcores have are one.
async fn fence_rows(device_id: u32, lcores: &Lcores) -> Result<Vec<v1::TableEntry>, Status> {
    let rows = lcores
        .ask(DEADLINE, move |core| core.fences(device_id))
        .await
        .map_err(|error| Status::unavailable(error.to_string()))?;
    let mut sum = BTreeMap::new();
    for (entry, caught) in rows.into_iter().flatten() {
        if let nic::Entry::Fence { key, priority } = entry {
            let all: &mut Traffic = sum.entry((priority, key)).or_default();
            all.packets += caught.packets;
            all.bytes += caught.bytes;
        }
    }
    let rows = sum.into_iter();
    Ok(rows
        .filter_map(|((priority, key), caught)| convert::fence_row(&key, priority, caught))
        .collect())
}

fn refuse(error: p4runtime::DecodeError) -> Status {
    Status::new(error.code(), error.to_string())
}
