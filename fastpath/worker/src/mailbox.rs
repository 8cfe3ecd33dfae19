//! How control threads reach a polling thread: a bounded queue of jobs.
//!
//! A job runs on the polling thread with its state in hand, between two bursts, and its
//! result comes back to the caller, who drops whatever is to be dropped. A job
//! that waits for the queue or for the polling thread never blocks that thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

type Job<T> = Box<dyn FnOnce(&mut T) + Send>;

/// Jobs that may wait.
const CAPACITY: usize = 256;
/// Between two tries to enter a full queue.
const RETRY: Duration = Duration::from_millis(1);

/// The control side.
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    jobs: Mutex<rtrb::Producer<Job<T>>>,
    overflows: AtomicU64,
    /// The receiver is gone; changes under the lock of `jobs` only.
    closed: AtomicBool,
}

/// The polling side. When it goes, whoever still waits hears of it.
pub struct Receiver<T> {
    jobs: rtrb::Consumer<Job<T>>,
    shared: Arc<Shared<T>>,
}

/// A job's result, on its way.
#[derive(Debug)]
pub struct Answer<R>(oneshot::Receiver<R>);

impl<R> Answer<R> {
    /// Waits for it.
    ///
    /// # Errors
    /// The polling thread has ended.
    pub async fn wait(self) -> Result<R, MailboxError> {
        self.0.await.map_err(|_| MailboxError::Gone)
    }
}

/// Why a job brought no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MailboxError {
    /// The polling thread has ended.
    #[error("the forwarding thread has ended; see the log and restart the worker")]
    Gone,
    /// It did not get to the job in time.
    #[error("the forwarding thread did not answer within {0:?}; it is overloaded or stalled")]
    Deadline(Duration),
}

/// A mailbox.
#[must_use]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let (producer, consumer) = rtrb::RingBuffer::new(CAPACITY);
    let shared = Arc::new(Shared {
        jobs: Mutex::new(producer),
        overflows: AtomicU64::new(0),
        closed: AtomicBool::new(false),
    });
    let receiver = Receiver {
        jobs: consumer,
        shared: Arc::clone(&shared),
    };
    (Sender { shared }, receiver)
}

impl<T> Sender<T> {
    /// Has `job` run and waits for its result, for as long as the polling thread
    /// lives. For changes: a caller who gave up could not know whether they happened.
    ///
    /// # Errors
    /// The polling thread has ended.
    pub async fn call<R: Send + 'static>(
        &self,
        job: impl FnOnce(&mut T) -> R + Send + 'static,
    ) -> Result<R, MailboxError> {
        self.post(job).await?.wait().await
    }

    /// Sends `job`, once there is room for it, and answers where its result will be: for
    /// one job of several threads.
    ///
    /// # Errors
    /// The polling thread has ended.
    pub async fn post<R: Send + 'static>(
        &self,
        job: impl FnOnce(&mut T) -> R + Send + 'static,
    ) -> Result<Answer<R>, MailboxError> {
        let (reply, answer) = oneshot::channel();
        let mut job: Job<T> = Box::new(move |state| {
            // A caller that is gone wants no answer.
            drop(reply.send(job(state)));
        });
        while let Err(back) = self.push(job)? {
            job = back;
            tokio::time::sleep(RETRY).await;
        }
        Ok(Answer(answer))
    }

    /// Like [`call`](Self::call), but gives up after `deadline`. For questions.
    ///
    /// # Errors
    /// The polling thread has ended, or the time is up.
    pub async fn ask<R: Send + 'static>(
        &self,
        deadline: Duration,
        job: impl FnOnce(&mut T) -> R + Send + 'static,
    ) -> Result<R, MailboxError> {
        tokio::time::timeout(deadline, self.call(job))
            .await
            .unwrap_or(Err(MailboxError::Deadline(deadline)))
    }

    /// Times a job found the queue full, and waited.
    #[must_use]
    pub fn overflows(&self) -> u64 {
        self.shared.overflows.load(Ordering::Relaxed)
    }

    fn push(&self, job: Job<T>) -> Result<Result<(), Job<T>>, MailboxError> {
        let mut jobs = self.shared.lock();
        if self.shared.closed.load(Ordering::Relaxed) {
            return Err(MailboxError::Gone);
        }
        match jobs.push(job) {
            Ok(()) => Ok(Ok(())),
            Err(rtrb::PushError::Full(job)) => {
                self.shared.overflows.fetch_add(1, Ordering::Relaxed);
                Ok(Err(job))
            }
        }
    }
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, rtrb::Producer<Job<T>>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Receiver<T> {
    /// Runs up to `most` waiting jobs; returns how many.
    pub fn run(&mut self, state: &mut T, most: usize) -> usize {
        for done in 0..most {
            match self.jobs.pop() {
                Ok(job) => job(state),
                Err(_) => return done,
            }
        }
        most
    }
}

impl<T> Receiver<T> {
    /// Whether every sender is gone: nobody can send a job any more.
    #[must_use]
    pub fn is_orphaned(&self) -> bool {
        Arc::strong_count(&self.shared) == 1
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        // Under the lock, so that no job enters behind the last look.
        let shared = Arc::clone(&self.shared);
        let _jobs = shared.lock();
        shared.closed.store(true, Ordering::Relaxed);
        while let Ok(job) = self.jobs.pop() {
            drop(job);
        }
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<T> std::fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sender")
            .field("overflows", &self.overflows())
            .finish_non_exhaustive()
    }
}

impl<T> std::fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Receiver")
            .field("waiting", &self.jobs.slots())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(5);

    #[tokio::test]
    async fn jobs_run_in_order_and_answers_come_back() {
        let (sender, mut receiver) = channel::<Vec<u32>>();
        let calls: Vec<_> = (0..1000)
            .map(|i| {
                let sender = sender.clone();
                tokio::spawn(async move {
                    sender
                        .ask(SOON, move |seen| {
                            seen.push(i);
                            i * 2
                        })
                        .await
                })
            })
            .collect();
        let thread = std::thread::spawn(move || {
            let mut seen = Vec::new();
            let begin = std::time::Instant::now();
            while seen.len() < 1000 && begin.elapsed() < SOON {
                receiver.run(&mut seen, 16);
                std::thread::yield_now();
            }
            seen.len()
        });
        for (i, call) in calls.into_iter().enumerate() {
            assert_eq!(call.await.expect("runs"), Ok(i as u32 * 2));
        }
        assert_eq!(thread.join().expect("ends"), 1000);
        assert_eq!(sender.call(|_| ()).await, Err(MailboxError::Gone));
    }

    #[tokio::test]
    async fn a_question_has_a_deadline() {
        let (sender, receiver) = channel::<()>();
        let short = Duration::from_millis(20);
        assert_eq!(
            sender.ask(short, |()| ()).await,
            Err(MailboxError::Deadline(short))
        );
        drop(receiver);
        assert_eq!(sender.ask(SOON, |()| ()).await, Err(MailboxError::Gone));
    }

    #[tokio::test]
    async fn a_job_left_behind_is_answered_by_its_end() {
        let (sender, receiver) = channel::<()>();
        let waiting = tokio::spawn(async move { sender.call(|()| ()).await });
        tokio::time::sleep(Duration::from_millis(20)).await;
        drop(receiver);
        let answer = tokio::time::timeout(SOON, waiting).await;
        assert_eq!(
            answer.expect("in time").expect("runs"),
            Err(MailboxError::Gone)
        );
    }
}
