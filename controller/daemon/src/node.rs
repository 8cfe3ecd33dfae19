//! One task per node: the controller's side of a worker.
//!
//! A task dials its worker, makes sure that it is the right one, and then
//! reconciles, level-triggered: whenever the plan changes, the worker says
//! something, or the period is over, it brings the policy and then the tables
//! of every NIC to what they should be, whatever they are. Nothing is kept over
//! a lost connection except how often it was lost.
//!
//! Order within one round: the policy first (closing takes effect there, and a
//! new port learns its device port there), then tables, each once it is proved.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::Status;

use crate::dial::Dialer;
use crate::election::Elections;
use crate::plan::{NodePlan, Plan};
use crate::status::{Board, Problem};

mod backoff;
mod desired;
mod nic;
mod policy;
mod proof;
mod session;

use backoff::Backoff;

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// A connection.
    pub connect: Duration,
    /// One answer of a worker.
    pub answer: Duration,
    /// Between two full comparisons with a node when nothing happens.
    pub period: Duration,
    /// The first pause after a failure; it doubles from there.
    pub first_pause: Duration,
    /// The longest pause.
    pub longest_pause: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            answer: Duration::from_secs(30),
            period: Duration::from_secs(30),
            first_pause: Duration::from_millis(200),
            longest_pause: Duration::from_secs(15),
        }
    }
}

impl Limits {
    async fn within<T>(
        &self,
        what: &str,
        call: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Status> {
        tokio::time::timeout(self.answer, call)
            .await
            .unwrap_or_else(|_| {
                Err(Status::deadline_exceeded(format!(
                    "{what}: no answer within {:?}",
                    self.answer
                )))
            })
    }
}

/// What every node's task needs.
#[derive(Clone, Debug)]
pub struct Context {
    /// How to reach workers.
    pub dialer: Dialer,
    /// Who we are to them.
    pub elections: Arc<Elections>,
    /// Where to report.
    pub board: Arc<Board>,
    /// What nodes should carry.
    pub plans: watch::Receiver<Arc<Plan>>,
    /// How long things may take.
    pub limits: Limits,
}

/// Keeps one task per declared node until the plans end.
pub async fn supervise(context: Context) {
    let mut plans = context.plans.clone();
    let mut tasks: HashMap<String, Guarded> = HashMap::new();
    loop {
        let plan = Arc::clone(&plans.borrow_and_update());
        tasks.retain(|name, _| {
            let stays = plan.nodes.contains_key(name);
            if !stays {
                context.board.remove(name);
            }
            stays
        });
        for name in plan.nodes.keys() {
            // A task ends only when its node is gone, but nodes come back.
            if tasks.get(name).is_none_or(|task| task.0.is_finished()) {
                let task = tokio::spawn(run(context.clone(), name.clone()));
                tasks.insert(name.clone(), Guarded(task));
            }
        }
        if plans.changed().await.is_err() {
            return;
        }
    }
}

/// A task that ends with its owner.
#[derive(Debug)]
struct Guarded(JoinHandle<()>);

impl Drop for Guarded {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn run(context: Context, name: String) {
    let limits = context.limits;
    let mut plans = context.plans.clone();
    let mut backoff = Backoff::new(limits.first_pause, limits.longest_pause);
    // Who has taken NICs from this controller: it does not fight over them.
    let mut displaced = HashMap::new();
    let mut told = String::new();
    loop {
        let Some(target) = target(&mut plans, &name) else {
            return;
        };
        let error = session::run(&context, &name, &target, &mut backoff, &mut displaced).await;
        let problem = Problem::new(error.reason(), error.to_string());
        // A node that stays away is told once.
        if problem.message == told {
            tracing::debug!(node = name, %error, "no session with the node");
        } else {
            tracing::warn!(node = name, %error, "no session with the node");
            told.clone_from(&problem.message);
        }
        context
            .board
            .update(&name, |report| report.unreachable = Some(problem));
        let pause = tokio::time::sleep(backoff.pause());
        tokio::pin!(pause);
        // Another address is worth trying at once.
        loop {
            tokio::select! {
                () = &mut pause => break,
                changed = plans.changed() => {
                    let Some(now) = changed.ok().and_then(|()| self::target(&mut plans, &name)) else {
                        return;
                    };
                    if now.address != target.address {
                        break;
                    }
                }
            }
        }
    }
}

fn target(plans: &mut watch::Receiver<Arc<Plan>>, name: &str) -> Option<Arc<NodePlan>> {
    plans.borrow_and_update().nodes.get(name).cloned()
}
