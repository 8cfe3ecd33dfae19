//! What of a node is on disk, and what is not yet.
//!
//! A policy that the disk does not take leaves nothing behind: a restart then begins
//! closed, not with what was revoked. It is tried again, and said until it is there.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use penstock_rules::Ruleset;
use penstock_slowpath_api::encode;

use super::{Node, POLICY};
use crate::ports::{Attachments, Numbers};
use crate::snapshot::{SnapshotError, Store};

const PORTS: &str = "ports";
/// Between two tries to keep what the disk did not take.
const AGAIN: Duration = Duration::from_secs(5);

/// Device port numbers, kept over a restart.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PortsFile {
    /// Each interface once.
    #[prost(message, repeated, tag = "1")]
    pub numbers: Vec<Number>,
}

/// An interface's device port.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Number {
    /// Its name.
    #[prost(string, tag = "1")]
    pub interface: String,
    /// Its number.
    #[prost(uint32, tag = "2")]
    pub device_port: u32,
}

impl PortsFile {
    /// The numbers kept in `store`; `None`: they are lost, and what tables say of device
    /// ports is of other interfaces now.
    ///
    /// # Errors
    /// The data directory fails.
    pub fn load(store: &Store) -> Result<Option<Vec<(String, u32)>>, SnapshotError> {
        let file: Self = match store.load(PORTS) {
            Ok(file) => file.unwrap_or_default(),
            Err(SnapshotError::Damaged { what, .. }) => {
                store.quarantine(PORTS, &what)?;
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let numbers = file.numbers.into_iter();
        let numbers = numbers.map(|n| (n.interface, n.device_port));
        Ok(Some(numbers.collect()))
    }
}

/// What could not be kept.
#[derive(Debug, Default)]
pub(super) struct Kept(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Why the policy in force is not on disk, and since when.
    policy: Option<(String, Instant)>,
    /// The numbers that are on disk, and whether the last try to keep others failed.
    numbers: Option<Numbers>,
    numbers_failed: bool,
}

impl Kept {
    /// The policy that is in force soon is on disk, or is not.
    pub(super) fn note_policy(&self, kept: Result<(), SnapshotError>) {
        let mut state = self.state();
        match kept {
            Ok(()) => {
                if state.policy.take().is_some() {
                    tracing::info!("the policy is on disk again");
                }
            }
            Err(error) => {
                if state.policy.is_none() {
                    tracing::error!(%error, "the policy is not kept: a restart would begin closed");
                }
                state.policy = Some((error.to_string(), Instant::now()));
            }
        }
    }

    /// Whether it is time to try again.
    pub(super) fn is_policy_due(&self) -> bool {
        let state = self.state();
        state
            .policy
            .as_ref()
            .is_some_and(|(_, since)| since.elapsed() >= AGAIN)
    }

    /// What the controller is told as long as it is so.
    pub(super) fn complaint(&self) -> String {
        let state = self.state();
        state.policy.as_ref().map_or_else(String::new, |(why, _)| {
            format!(
                "in force, but not on disk: after a restart its ports carry nothing until a \
                 controller sends it anew: {why}"
            )
        })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Node {
    /// Writes the policy down before it is in force. May take as long as it is large.
    pub(super) fn keep_policy(&self, ruleset: &Ruleset) -> Result<(), SnapshotError> {
        let update = encode::snapshot(&ruleset.policy(), ruleset.generation());
        self.store.save_or_forget(POLICY, &update)
    }

    /// Writes the policy in force down that could not be; whether it is there now.
    pub(super) async fn keep_again(self: &Arc<Self>) -> bool {
        let Some(ruleset) = self.ruleset() else {
            return false;
        };
        let node = Arc::clone(self);
        let kept = tokio::task::spawn_blocking(move || node.keep_policy(&ruleset)).await;
        let Ok(kept) = kept else {
            // The worker is ending.
            return false;
        };
        let is_kept = kept.is_ok();
        self.kept.note_policy(kept);
        is_kept
    }

    /// Writes device port numbers down where they differ from those on disk. While they do,
    /// a restart gives other numbers, and tables of before carry nothing.
    pub(super) async fn keep_numbers(&self, attachments: &Attachments) {
        if self.kept.state().numbers.as_ref() == Some(attachments.numbers()) {
            return;
        }
        let numbers = attachments.numbers().clone();
        let file = PortsFile {
            numbers: numbers
                .iter()
                .map(|(interface, device_port)| Number {
                    interface: interface.to_owned(),
                    device_port,
                })
                .collect(),
        };
        let store = Arc::clone(&self.store);
        let saved = tokio::task::spawn_blocking(move || store.save(PORTS, &file)).await;
        let mut state = self.kept.state();
        match saved {
            Ok(Ok(())) => {
                if state.numbers_failed {
                    tracing::info!("device port numbers are on disk again");
                }
                state.numbers = Some(numbers);
                state.numbers_failed = false;
            }
            Ok(Err(error)) => {
                if !state.numbers_failed {
                    tracing::error!(%error, "device port numbers are not kept: a restart would change them");
                }
                state.numbers_failed = true;
            }
            // The worker is ending.
            Err(_) => {}
        }
    }
}
