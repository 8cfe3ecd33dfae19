//! All polling threads of a worker, as control threads reach them.
//!
//! What changes the data plane is done by every lcore; it counts as done when the last of
//! them has. Callers order their changes among themselves: two that run at the same
//! time may reach the lcores in either order.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{AddError, Core, Handle, Queues};
use crate::mailbox::MailboxError;

/// Between two looks whether fences stand.
const FENCE_POLL: Duration = Duration::from_millis(1);

/// See the module's contract. Clones reach the same threads.
#[derive(Clone, Debug)]
pub struct Lcores {
    handles: Arc<[Handle]>,
    /// Which lcore has the queues of a device port.
    homes: Arc<Mutex<BTreeMap<u32, u16>>>,
}

impl Lcores {
    /// At least one, in the order of their numbers.
    #[must_use]
    pub fn new(handles: Vec<Handle>) -> Self {
        Self {
            handles: handles.into(),
            homes: Arc::default(),
        }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u32 {
        // At most 16.
        self.handles.len() as u32
    }

    /// Has every lcore run `job`, all at the same time, and waits for all results, as
    /// [`call`](crate::mailbox::Sender::call) does.
    ///
    /// # Errors
    /// One of them has ended; the others have the job all the same.
    pub async fn each<R: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Core) -> R + Clone + Send + 'static,
    ) -> Result<Vec<R>, MailboxError> {
        let mut answers = Vec::with_capacity(self.handles.len());
        for handle in self.handles.iter() {
            answers.push(handle.post(job.clone()).await);
        }
        let mut results = Vec::with_capacity(answers.len());
        let mut gone = None;
        for answer in answers {
            let result = match answer {
                Ok(answer) => answer.wait().await,
                Err(error) => Err(error),
            };
            match result {
                Ok(result) => results.push(result),
                Err(error) => gone = Some(error),
            }
        }
        gone.map_or(Ok(results), Err)
    }

    /// Like [`each`](Self::each), but gives up after `deadline`. For questions.
    ///
    /// # Errors
    /// One of them has ended, or the time is up.
    pub async fn ask<R: Send + 'static>(
        &self,
        deadline: Duration,
        job: impl FnOnce(&mut Core) -> R + Clone + Send + 'static,
    ) -> Result<Vec<R>, MailboxError> {
        tokio::time::timeout(deadline, self.each(job))
            .await
            .unwrap_or(Err(MailboxError::Deadline(deadline)))
    }

    /// Has one lcore alone run `job`, by its place among the results of
    /// [`each`](Self::each).
    ///
    /// # Errors
    /// It has ended.
    pub async fn one<R: Send + 'static>(
        &self,
        lcore: usize,
        job: impl FnOnce(&mut Core) -> R + Send + 'static,
    ) -> Result<R, MailboxError> {
        let handle = self.handles.get(lcore).ok_or(MailboxError::Gone)?;
        handle.call(job).await
    }

    /// Waits until no packet passes by what has been changed before: it is in all NICs,
    /// or behind a fence there, and what had been decided on by then has left.
    ///
    /// # Errors
    /// An lcore has ended.
    pub async fn in_force(&self) -> Result<(), MailboxError> {
        // A NIC may be slow, but it puts fences up before anything else.
        while !self
            .each(|core| core.fences_stand())
            .await?
            .into_iter()
            .all(|stand| stand)
        {
            tokio::time::sleep(FENCE_POLL).await;
        }
        if self.count() > 1 {
            self.each(Core::empty_rings).await?;
        }
        Ok(())
    }

    /// Has the lcore with the fewest ports poll a device port, and tells the others where
    /// its frames go. An uplink counts for as much as any other.
    ///
    /// # Errors
    /// The number cannot be used, or an lcore has ended.
    pub async fn add_port(
        &self,
        device_port: u32,
        mtu: u16,
        queues: Box<dyn Queues>,
    ) -> Result<Result<(), AddError>, MailboxError> {
        let (home, handle) = self.idlest()?;
        let added = handle
            .call(move |core| core.add_port(device_port, queues))
            .await?;
        if added.is_err() {
            return Ok(added);
        }
        self.homes().insert(device_port, home);
        self.each(move |core| {
            core.engine.set_device_mtu(device_port, mtu);
            core.set_home(device_port, home);
        })
        .await?;
        Ok(Ok(()))
    }

    /// Ends polling a device port; its queues go back to whoever added them. `None`: nobody
    /// polls it.
    ///
    /// # Errors
    /// An lcore has ended.
    pub async fn remove_port(
        &self,
        device_port: u32,
    ) -> Result<Option<Box<dyn Queues>>, MailboxError> {
        self.homes().remove(&device_port);
        // Only its home has queues to give back.
        let removed = self.each(move |core| core.remove_port(device_port)).await?;
        Ok(removed.into_iter().flatten().next())
    }

    /// Ends all of them. One that is gone already needs no stop; its end is told by its
    /// join.
    pub async fn stop(&self) {
        let _ = self.each(Core::stop).await;
    }

    /// Times a job found a queue full, and waited.
    #[must_use]
    pub fn overflows(&self) -> u64 {
        self.handles.iter().map(Handle::overflows).sum()
    }

    fn homes(&self) -> MutexGuard<'_, BTreeMap<u32, u16>> {
        self.homes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn idlest(&self) -> Result<(u16, &Handle), MailboxError> {
        let homes = self.homes();
        let ports = |index: &u16| homes.values().filter(|home| *home == index).count();
        (0..)
            .zip(self.handles.iter())
            .min_by_key(|(index, _)| ports(index))
            .ok_or(MailboxError::Gone)
    }
}
