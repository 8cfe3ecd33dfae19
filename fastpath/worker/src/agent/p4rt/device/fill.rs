//! All entries of a device at once: into the engine after a restart, out of it before
//! another pipeline.

use std::sync::Arc;

use p4runtime::pipeline::Entry;
use penstock_engine::nic::{self, Op, TableError};

use crate::agent::p4rt::convert::{self, Home};
use crate::agent::p4rt::tables::{Change, Tables};
use crate::agent::p4rt::write::SLICE;
use crate::lcore::Lcores;
use crate::mailbox::MailboxError;

/// Writes entries, next hops first; says why if one is refused. Then some are in the
/// engine and some are not: `clear` removes them all.
pub(super) async fn install(
    device: u32,
    uplink: u32,
    lcores: &Lcores,
    tables: &mut Tables,
    entries: Vec<Entry>,
) -> Result<Option<String>, MailboxError> {
    let mut converted = Vec::with_capacity(entries.len());
    for entry in entries {
        match convert::entry(&entry, uplink) {
            Ok(Home::Engine(entry)) => converted.push(entry),
            Ok(Home::Agent) => {}
            Err(refusal) => return Ok(Some(refusal.message)),
        }
        tables.apply(Change::Insert(entry));
    }
    converted.reverse();
    let refused = run(device, lcores, converted, Op::Insert).await?;
    Ok(refused.first().map(TableError::to_string))
}

/// Removes every entry of the controller, from the start of the pipeline to its end.
pub(super) async fn clear(
    device: u32,
    uplink: u32,
    lcores: &Lcores,
    tables: &mut Tables,
) -> Result<(), MailboxError> {
    let converted = tables.iter().map(|entry| convert::entry(entry, uplink));
    let entries = converted.filter_map(|home| match home {
        Ok(Home::Engine(entry)) => Some(entry),
        Ok(Home::Agent) | Err(_) => None,
    });
    let entries = entries.collect();
    for refused in run(device, lcores, entries, Op::Delete).await? {
        // After an installation that failed halfway, some were never there.
        if !matches!(refused, TableError::Missing(_)) {
            tracing::error!(device, %refused, "an entry could not be removed");
        }
    }
    *tables = Tables::default();
    Ok(())
}

/// Makes one kind of update for all entries in all engines, some at a time between bursts;
/// returns the refusals of each.
async fn run(
    device: u32,
    lcores: &Lcores,
    entries: Vec<nic::Entry>,
    op: Op,
) -> Result<Vec<TableError>, MailboxError> {
    let mut all = Vec::new();
    for slice in entries.chunks(SLICE) {
        let for_each: Arc<[nic::Entry]> = slice.into();
        let refused = lcores
            .each(move |core| {
                let updates = for_each
                    .iter()
                    .map(|entry| nic::Update { op, entry: *entry });
                let refused = updates.filter_map(|update| core.engine.write(device, &update).err());
                // The slice comes back with the answer, to be dropped here.
                (refused.collect::<Vec<_>>(), for_each)
            })
            .await?;
        all.extend(refused.into_iter().flat_map(|(refused, _)| refused));
    }
    Ok(all)
}
