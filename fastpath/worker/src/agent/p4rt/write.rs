//! A batch of updates, from messages to all engines and back to one outcome each.

use std::collections::BTreeSet;
use std::sync::Arc;

use p4runtime::batch::Refusal;
use p4runtime::v1;
use p4runtime::v1::write_request::Atomicity;
use penstock_engine::nic::TableError;
use tonic::{Code, Status};

use super::convert;
use super::tables::{Change, Overlay, Planned, Tables};
use crate::lcore::{Core, Lcores};
use crate::mailbox::MailboxError;

/// Updates in one batch: its outcome has to fit the headers of one answer.
pub const MAX_UPDATES: usize = 1000;
/// Updates that the polling thread makes between two bursts.
pub const SLICE: usize = 64;

type Outcome = Result<(), Refusal>;

/// Steps that do not depend on one another's success; `None`: nothing to do.
type Steps = Arc<[Option<Planned>]>;

/// A device's tables, and the engines that have them too.
#[derive(Debug)]
pub struct Writer<'a> {
    /// P4Runtime's device id.
    pub device_id: u32,
    /// The NIC's device port towards the underlay.
    pub uplink: u32,
    /// The engines'.
    pub lcores: &'a Lcores,
}

impl Writer<'_> {
    /// Makes the updates and says what became of each. Afterwards `tables` and every engine
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
            // A polling thread makes the whole batch between two bursts: no packet
            // sees half of it, and a failure takes back what was done. Of two flows that
            // different threads have, one may see it before the other.
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
        let mut decoded = updates.iter().map(Change::decode).peekable();
        while decoded.peek().is_some() {
            let mut overlay = Overlay::new(tables, self.uplink);
            let mut keys = BTreeSet::new();
            let mut changes = Vec::with_capacity(SLICE);
            let mut steps = Vec::with_capacity(SLICE);
            // A key that comes again begins another slice: what the engines make of its
            // first change is known then.
            while changes.len() < SLICE
                && let Some(change) =
                    decoded.next_if(|it| it.as_ref().map_or(true, |it| keys.insert(it.key())))
            {
                let planned = change
                    .and_then(|change| overlay.plan(&change).map(|planned| (change, planned)));
                let (change, step) = match planned {
                    Ok((change, planned)) => (Ok(change), Some(planned)),
                    Err(refusal) => (Err(refusal), None),
                };
                changes.push(change);
                steps.push(step);
            }
            let results = self.make(steps.into()).await?;
            for (change, result) in changes.into_iter().zip(results) {
                outcomes.push(match (change, result) {
                    (Err(refusal), _) => Err(refusal),
                    (Ok(_), Err(error)) => Err(convert::refusal(&error)),
                    (Ok(change), Ok(())) => {
                        tables.apply(change);
                        Ok(())
                    }
                });
            }
        }
        Ok(outcomes)
    }

    /// Makes what is planned, each step on its own, in all engines: a step that one of them
    /// refuses is taken back in the others.
    async fn make(&self, steps: Steps) -> Result<Vec<Result<(), TableError>>, Status> {
        let device = self.device_id;
        let for_each = Arc::clone(&steps);
        let each = self
            .lcores
            .each(move |core| {
                let results: Vec<_> = for_each
                    .iter()
                    .map(|step| match step {
                        Some(step) => apply(core, device, step),
                        None => Ok(()),
                    })
                    .collect();
                // Not to be dropped by a polling thread.
                (results, for_each)
            })
            .await
            .map_err(unavailable)?;
        let each: Vec<Vec<_>> = each.into_iter().map(|(results, _)| results).collect();
        let agreed: Vec<Result<(), TableError>> = (0..steps.len())
            .map(|step| {
                let of_step = each.iter().filter_map(|results| results.get(step));
                of_step.copied().collect()
            })
            .collect();
        for (lcore, results) in each.iter().enumerate() {
            let differ = results
                .iter()
                .zip(&agreed)
                .map(|(a, b)| a.is_ok() && b.is_err());
            let undone: Vec<_> = steps
                .iter()
                .zip(differ)
                .filter_map(|(step, differs)| step.filter(|_| differs))
                .collect();
            self.take_back(lcore, undone).await?;
        }
        Ok(agreed)
    }

    /// Takes steps back that this lcore has made and another has refused.
    async fn take_back(&self, lcore: usize, steps: Vec<Planned>) -> Result<(), Status> {
        if steps.is_empty() {
            return Ok(());
        }
        // All have the same entries and the same room, so they agree by construction.
        let device = self.device_id;
        tracing::error!(device, lcore, "lcores disagree about a table; taken back");
        let stuck = self
            .lcores
            .one(lcore, move |core| undo(core, device, &steps))
            .await
            .map_err(unavailable)?;
        stuck.map_or(Ok(()), |stuck| Err(self.stuck(&stuck)))
    }

    fn stuck(&self, stuck: &TableError) -> Status {
        // An undo puts back what was there, into room that was there: a refusal
        // contradicts the engine's own contract.
        let device = self.device_id;
        tracing::error!(%stuck, device, "a rollback was refused; restart the worker");
        Status::data_loss(format!(
            "a rollback was refused: {stuck}; restart the worker"
        ))
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
        let for_each: Arc<[Planned]> = steps.clone().into();
        let failures = self
            .lcores
            .each(move |core| {
                let mut failure = None;
                for (index, step) in for_each.iter().enumerate() {
                    if let Err(error) = apply(core, device, step) {
                        let stuck = undo(core, device, for_each.get(..index).unwrap_or_default());
                        failure = Some((index, error, stuck));
                        break;
                    }
                }
                // Not to be dropped by a polling thread.
                (failure, for_each)
            })
            .await
            .map_err(unavailable)?;
        let failures: Vec<_> = failures.into_iter().map(|(failure, _)| failure).collect();
        let Some((index, error, _)) = failures.iter().flatten().next().copied() else {
            changes.into_iter().for_each(|change| tables.apply(change));
            return Ok(vec![Ok(()); updates.len()]);
        };
        for (lcore, failure) in failures.iter().enumerate() {
            match failure {
                None => self.take_back(lcore, steps.clone()).await?,
                Some((_, _, None)) => {}
                Some((_, _, Some(stuck))) => return Err(self.stuck(stuck)),
            }
        }
        Ok(rolled_back(updates.len(), index, convert::refusal(&error)))
    }
}

fn unavailable(error: MailboxError) -> Status {
    Status::unavailable(error.to_string())
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
