//! A batch of updates, from messages to the engine and back to one outcome each.

use p4runtime::batch::Refusal;
use p4runtime::v1;
use p4runtime::v1::write_request::Atomicity;
use penstock_engine::nic::TableError;
use tonic::{Code, Status};

use super::convert;
use super::tables::{Change, Overlay, Planned, Tables};
use crate::lcore::{Core, Handle};

/// Updates in one batch: its outcome has to fit the headers of one answer.
pub const MAX_UPDATES: usize = 1000;
/// Updates that the polling thread makes between two bursts.
pub const SLICE: usize = 64;

type Outcome = Result<(), Refusal>;

/// A device's tables, and the engine that has them too.
#[derive(Debug)]
pub struct Writer<'a> {
    /// P4Runtime's device id.
    pub device_id: u32,
    /// The NIC's device port towards the underlay.
    pub uplink: u32,
    /// The engine's.
    pub lcore: &'a Handle,
}

impl Writer<'_> {
    /// Makes the updates and says what became of each. Afterwards `tables` and the engine
    /// hold the same.
    ///
    /// # Errors
    /// Nothing was done: the request is malformed, or the polling thread is gone.
    pub async fn write(
        &self,
        tables: &mut Tables,
        updates: &[v1::Update],
        atomicity: i32,
    ) -> Result<Vec<Outcome>, Status> {
        if updates.len() > MAX_UPDATES {
            return Err(Status::invalid_argument(format!(
                "updates: {} in one batch; send at most {MAX_UPDATES} at a time",
                updates.len()
            )));
        }
        match Atomicity::try_from(atomicity) {
            Ok(Atomicity::ContinueOnError) => self.one_by_one(tables, updates).await,
            // One polling thread makes the whole batch between two bursts: no
            // packet sees half of it, and a failure takes back what was done.
            Ok(Atomicity::RollbackOnError | Atomicity::DataplaneAtomic) => {
                self.all_or_nothing(tables, updates).await
            }
            Err(_) => Err(Status::invalid_argument(format!(
                "atomicity: {atomicity} is none of P4Runtime's"
            ))),
        }
    }

    async fn one_by_one(
        &self,
        tables: &mut Tables,
        updates: &[v1::Update],
    ) -> Result<Vec<Outcome>, Status> {
        let mut outcomes = Vec::with_capacity(updates.len());
        for slice in updates.chunks(SLICE) {
            let mut overlay = Overlay::new(tables, self.uplink);
            let planned: Vec<_> = slice
                .iter()
                .map(|update| {
                    let change = Change::decode(update)?;
                    let planned = overlay.plan(&change)?;
                    Ok((change, planned))
                })
                .collect();
            let device = self.device_id;
            let (planned, results) = self
                .lcore
                .call(move |core| {
                    let results: Vec<_> = planned
                        .iter()
                        .map(|one| match one {
                            Ok((_, planned)) => apply(core, device, planned),
                            Err(_) => Ok(()),
                        })
                        .collect();
                    (planned, results)
                })
                .await
                .map_err(|error| Status::unavailable(error.to_string()))?;
            for (planned, result) in planned.into_iter().zip(results) {
                outcomes.push(match (planned, result) {
                    (Err(refusal), _) => Err(refusal),
                    (Ok(_), Err(error)) => Err(convert::refusal(&error)),
                    (Ok((change, _)), Ok(())) => {
                        tables.apply(change);
                        Ok(())
                    }
                });
            }
        }
        Ok(outcomes)
    }

    async fn all_or_nothing(
        &self,
        tables: &mut Tables,
        updates: &[v1::Update],
    ) -> Result<Vec<Outcome>, Status> {
        let mut overlay = Overlay::new(tables, self.uplink);
        let mut changes = Vec::with_capacity(updates.len());
        let mut steps = Vec::with_capacity(updates.len());
        for (index, update) in updates.iter().enumerate() {
            let planned = Change::decode(update)
                .and_then(|change| overlay.plan(&change).map(|planned| (change, planned)));
            match planned {
                Ok((change, planned)) => {
                    changes.push(change);
                    steps.push(planned);
                }
                Err(refusal) => return Ok(rolled_back(updates.len(), index, refusal)),
            }
        }
        let device = self.device_id;
        let failure = self
            .lcore
            .call(move |core| {
                for (index, step) in steps.iter().enumerate() {
                    if let Err(error) = apply(core, device, step) {
                        let stuck = undo(core, device, steps.get(..index).unwrap_or_default());
                        return Some((index, error, stuck));
                    }
                }
                None
            })
            .await
            .map_err(|error| Status::unavailable(error.to_string()))?;
        match failure {
            None => {
                changes.into_iter().for_each(|change| tables.apply(change));
                Ok(vec![Ok(()); updates.len()])
            }
            Some((index, error, None)) => {
                Ok(rolled_back(updates.len(), index, convert::refusal(&error)))
            }
            Some((_, _, Some(stuck))) => {
                // An undo puts back what was there, into room that was there: a
                // refusal contradicts the engine's own contract.
                tracing::error!(%stuck, device, "a rollback was refused; restart the worker");
                Err(Status::data_loss(format!(
                    "a rollback was refused: {stuck}; restart the worker"
                )))
            }
        }
    }
}

fn apply(core: &mut Core, device: u32, planned: &Planned) -> Result<(), TableError> {
    match &planned.apply {
        Some(update) => core.engine.write(device, update),
        None => Ok(()),
    }
}

/// Takes steps back, the last first; returns what could not be.
fn undo(core: &mut Core, device: u32, done: &[Planned]) -> Option<TableError> {
    let undo = done.iter().rev().filter_map(|step| step.undo.as_ref());
    let mut stuck = None;
    for update in undo {
        stuck = core.engine.write(device, update).err().or(stuck);
    }
    stuck
}

/// One update was refused, so none was made.
fn rolled_back(count: usize, index: usize, refusal: Refusal) -> Vec<Outcome> {
    let aborted = format!("not made, because update {index} was refused");
    let mut outcomes = vec![Err(Refusal::new(Code::Aborted, aborted)); count];
    if let Some(outcome) = outcomes.get_mut(index) {
        *outcome = Err(refusal);
    }
    outcomes
}

#[cfg(test)]
mod tests;
