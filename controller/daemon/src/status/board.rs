//! Where node tasks leave their reports, and the task that turns them into
//! statuses.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::{Report, compute};
use crate::hub::Hub;
use crate::plan::Plan;

/// Reports that arrive together are published together.
const GATHER: Duration = Duration::from_millis(20);

/// The newest report of each node.
#[derive(Debug, Default)]
pub struct Board {
    reports: Mutex<HashMap<String, Report>>,
    changed: Notify,
}

impl Board {
    /// Changes a node's report.
    pub fn update(&self, node: &str, change: impl FnOnce(&mut Report)) {
        let mut reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        let report = reports.entry(node.to_owned()).or_default();
        let before = report.clone();
        change(report);
        if *report != before {
            self.changed.notify_one();
        }
    }

    /// The node is no longer declared.
    pub fn remove(&self, node: &str) {
        let mut reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        if reports.remove(node).is_some() {
            self.changed.notify_one();
        }
    }

    /// A copy of one report.
    pub fn get(&self, node: &str) -> Option<Report> {
        self.all().remove(node)
    }

    fn all(&self) -> HashMap<String, Report> {
        self.reports
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Publishes statuses until the plans end.
pub async fn publish(board: Arc<Board>, hub: Arc<Hub>, mut plans: watch::Receiver<Arc<Plan>>) {
    loop {
        let plan = Arc::clone(&plans.borrow_and_update());
        let world = hub.world();
        let reports = board.all();
        let statuses = tokio::task::spawn_blocking(move || compute(&world, &plan, &reports)).await;
        match statuses {
            Ok(statuses) => hub.publish_statuses(statuses),
            Err(error) => tracing::error!(%error, "computing statuses failed"),
        }
        tokio::select! {
            changed = plans.changed() => if changed.is_err() { return },
            () = board.changed.notified() => {}
        }
        tokio::time::sleep(GATHER).await;
    }
}
