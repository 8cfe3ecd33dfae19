//! The node's policy and ports: what is in force, kept on disk, and attached.
//!
//! One lock orders all changes. A policy is on disk before it is in force, so that a
//! restart never brings back what a newer one had revoked; where the disk refuses it, none
//! is there, and it is tried again.

mod kept;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use penstock_engine::{Homes, PolicyChange};
use penstock_rules::Ruleset;
use penstock_slowpath_api::v1;
use tokio::sync::{Mutex, watch};
use tonic::Status;

use super::carry;
use crate::lcore::Lcores;
use crate::mailbox::MailboxError;
use crate::policy::{self, UpdateError};
use crate::ports::{Attachments, State as PortState};
use crate::snapshot::{SnapshotError, Store};
use kept::Kept;
pub use kept::{Number, PortsFile};

const POLICY: &str = "policy";

/// What does not change while the worker runs.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The node's name.
    pub node: String,
    /// Polling threads.
    pub lcores: u32,
    /// The NICs, as the schema puts them.
    pub nics: Vec<v1::NicInfo>,
}

/// See the module's contract.
#[derive(Debug)]
pub struct Node {
    facts: Facts,
    lcores: Lcores,
    store: Arc<Store>,
    state: Mutex<Attachments>,
    /// Written under the lock of `state` only.
    ruleset: StdMutex<Option<Arc<Ruleset>>>,
    /// What is not on disk as it is in force.
    kept: Kept,
    /// Goes up with each stream; the newest may change the policy.
    newest: watch::Sender<u64>,
    /// Told when a port came or went by itself.
    attachments: watch::Sender<()>,
}

/// Why a node could not resume.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// Its files.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The polling thread.
    #[error(transparent)]
    Mailbox(#[from] MailboxError),
}

impl Node {
    /// The node as its files describe it: the last accepted policy is in force, its
    /// connections are there and its ports attached when this returns. A policy that cannot be used is set
    /// aside, and the node starts closed.
    ///
    /// # Errors
    /// The data directory or the polling thread fail.
    pub async fn resume(
        facts: Facts,
        lcores: Lcores,
        store: Arc<Store>,
        attachments: Attachments,
        recovery: Duration,
    ) -> Result<Self, ResumeError> {
        let node = Self {
            facts,
            lcores,
            store,
            state: Mutex::new(attachments),
            ruleset: StdMutex::new(None),
            kept: Kept::default(),
            newest: watch::Sender::new(0),
            attachments: watch::Sender::new(()),
        };
        // Before a policy is in force, nobody is at home.
        node.tell_homes(&*node.state.lock().await).await?;
        let kept: Option<v1::PolicyUpdate> = node.store.load_or_start_closed(POLICY)?;
        let Some(kept) = kept else {
            // Without policy there is no port that they could be of.
            carry::forget(&node.store)?;
            return Ok(node);
        };
        match node.compile(&Ruleset::default(), kept) {
            Ok(ruleset) => {
                tracing::info!(
                    generation = ruleset.generation(),
                    ports = ruleset.ports().count(),
                    "policy resumed from disk"
                );
                let mut attachments = node.state.lock().await;
                node.enforce(&attachments, PolicyChange::new(None, Arc::new(ruleset)))
                    .await?;
                if !carry::resume(&node.lcores, &node.store).await? {
                    // The last life has ended in a crash: its connections are lost.
                    node.lcores
                        .each(move |core| {
                            // An hour at most: it fits.
                            let until = core.clock.now() + recovery.as_nanos() as u64;
                            core.engine.recover_until(until);
                        })
                        .await?;
                }
                node.reconcile(&mut attachments).await?;
            }
            Err(answer) => {
                node.store.quarantine(POLICY, &answer.message)?;
                carry::forget(&node.store)?;
            }
        }
        Ok(node)
    }

    /// Towards the polling threads.
    #[must_use]
    pub fn lcores(&self) -> &Lcores {
        &self.lcores
    }

    /// The policy in force.
    #[must_use]
    pub fn ruleset(&self) -> Option<Arc<Ruleset>> {
        self.ruleset
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// What `GetNode` answers.
    #[must_use]
    pub fn info(&self) -> v1::NodeInfo {
        v1::NodeInfo {
            node: self.facts.node.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            lcores: self.facts.lcores,
            nics: self.facts.nics.clone(),
            generation: self.generation(),
        }
    }

    fn generation(&self) -> u64 {
        self.ruleset().map_or(0, |ruleset| ruleset.generation())
    }

    /// A stream begins: older ones may not change the policy any more. Its number.
    pub fn begin(&self) -> u64 {
        let mut mine = 0;
        self.newest.send_modify(|newest| {
            *newest += 1;
            mine = *newest;
        });
        mine
    }

    /// The number of the newest stream.
    #[must_use]
    pub fn newest(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// Told when a port came or went by itself.
    #[must_use]
    pub fn attachments(&self) -> watch::Receiver<()> {
        self.attachments.subscribe()
    }

    /// Takes an update from the stream with this number, to its end even if the stream
    /// does not last so long.
    ///
    /// # Errors
    /// There is a newer stream, or the polling thread has ended.
    pub async fn update(
        self: Arc<Self>,
        stream: u64,
        update: v1::PolicyUpdate,
    ) -> Result<v1::PolicyStatus, Status> {
        tracing::debug!(generation = update.generation, "policy received");
        tokio::spawn(async move {
            let mut attachments = self.state.lock().await;
            if *self.newest.borrow() != stream {
                return Err(displaced());
            }
            self.take(&mut attachments, update).await
        })
        .await
        .unwrap_or_else(|error| Err(Status::internal(format!("the agent failed: {error}"))))
    }

    async fn take(
        self: &Arc<Self>,
        attachments: &mut Attachments,
        update: v1::PolicyUpdate,
    ) -> Result<v1::PolicyStatus, Status> {
        let node = Arc::clone(self);
        let before = self.ruleset();
        // Compiling and writing take as long as the policy is large.
        let prepared = tokio::task::spawn_blocking(move || {
            let none = Ruleset::default();
            let ruleset = node.compile(before.as_deref().unwrap_or(&none), update)?;
            // A policy of the same generation is the same, or was refused.
            if before.as_deref().map(Ruleset::generation) == Some(ruleset.generation()) {
                return Ok(None);
            }
            let kept = node.keep_policy(&ruleset);
            Ok(Some((
                PolicyChange::new(before.as_deref(), Arc::new(ruleset)),
                kept,
            )))
        })
        .await
        .map_err(|error| Status::internal(format!("the agent failed: {error}")))?;
        let (change, kept) = match prepared {
            Ok(Some(prepared)) => prepared,
            // In force already, generation and all. To enforce it again would end a recovery
            // and have everything judged again.
            Ok(None) => {
                self.reconcile(attachments).await.map_err(ended)?;
                return Ok(self.in_force(attachments));
            }
            Err(answer) => return Ok(answer),
        };
        let generation = change.ruleset().generation();
        self.kept.note_policy(kept);
        self.enforce(attachments, change).await.map_err(ended)?;
        self.reconcile(attachments).await.map_err(ended)?;
        tracing::info!(generation, "policy in force");
        Ok(self.in_force(attachments))
    }

    /// The state of everything, unasked.
    pub async fn status(&self) -> v1::PolicyStatus {
        let attachments = self.state.lock().await;
        self.in_force(&attachments)
    }

    /// Looks after ports, and after what could not be kept: to be called now and then.
    ///
    /// # Errors
    /// The polling thread has ended.
    pub async fn look_after_ports(self: &Arc<Self>) -> Result<(), MailboxError> {
        let mut attachments = self.state.lock().await;
        let mut changed = self.reconcile(&mut attachments).await?;
        if self.kept.is_policy_due() {
            changed |= self.keep_again().await;
        }
        if changed {
            self.attachments.send_replace(());
        }
        Ok(())
    }

    /// Ends forwarding and writes all connections down for the worker's next life.
    pub async fn keep_connections(&self) {
        if self.ruleset().is_none() {
            return;
        }
        match carry::keep(&self.lcores, &self.store).await {
            Ok(connections) => tracing::info!(connections, "connections are kept on disk"),
            Err(error) => tracing::error!(%error, "connections are not kept"),
        }
    }

    /// Detaches all ports, uplinks included.
    pub async fn close(&self) {
        self.state.lock().await.close().await;
    }

    /// The policy that `update` makes of `current`, or the answer that refuses it.
    fn compile(
        &self,
        current: &Ruleset,
        update: v1::PolicyUpdate,
    ) -> Result<Ruleset, v1::PolicyStatus> {
        let generation = update.generation;
        let answer = |result: v1::policy_status::Result, message: String| v1::PolicyStatus {
            generation,
            result: result.into(),
            message,
            attachments: Vec::new(),
            nics: Vec::new(),
        };
        let refused = |message| answer(v1::policy_status::Result::Refused, message);
        let next = policy::apply(current, update).map_err(|error| match error {
            UpdateError::Resync(_) => answer(v1::policy_status::Result::Resync, error.to_string()),
            UpdateError::Invalid(_)
            | UpdateError::Contradiction(_)
            | UpdateError::Generation { .. } => refused(error.to_string()),
        })?;
        for (_, port) in next.ports() {
            if !self
                .facts
                .nics
                .iter()
                .any(|nic| nic.device_id == port.device_id)
            {
                return Err(refused(format!(
                    "port {}: device_id {} is no NIC of this node",
                    port.name, port.device_id
                )));
            }
        }
        Ok(next)
    }

    /// Puts a policy in force: when this returns, no packet passes by what it has taken
    /// back. What its fences keep from the NICs' own answers may still be in there.
    async fn enforce(
        &self,
        attachments: &Attachments,
        change: PolicyChange,
    ) -> Result<(), MailboxError> {
        let ruleset = Arc::clone(change.ruleset());
        self.lcores
            .each(move |core| core.set_policy(change))
            .await?;
        *self.ruleset.lock().unwrap_or_else(PoisonError::into_inner) = Some(ruleset);
        self.tell_homes(attachments).await?;
        self.lcores.in_force().await
    }

    /// Tells the engines which port is behind which interface. What tables say otherwise
    /// carries nothing.
    async fn tell_homes(&self, attachments: &Attachments) -> Result<(), MailboxError> {
        let ruleset = self.ruleset();
        let numbers = attachments.numbers();
        let ports = ruleset.iter().flat_map(|ruleset| ruleset.ports());
        let homes = Homes::new(
            numbers.limit(),
            ports.filter_map(|(id, port)| Some((numbers.of(&port.attachment)?, port.vlan, id))),
        );
        // Dropped here, not on an lcore.
        let before = self
            .lcores
            .each(move |core| core.engine.set_homes(homes))
            .await?;
        drop(before);
        Ok(())
    }

    /// Attaches what the policy names; returns whether anything changed.
    async fn reconcile(&self, attachments: &mut Attachments) -> Result<bool, MailboxError> {
        let wanted: BTreeSet<String> = self.ruleset().map_or_else(BTreeSet::new, |ruleset| {
            let ports = ruleset.ports();
            ports.map(|(_, port)| port.attachment.clone()).collect()
        });
        let before = attachments.numbers().clone();
        let changed = attachments.reconcile(&wanted).await;
        if *attachments.numbers() != before {
            self.tell_homes(attachments).await?;
        }
        self.keep_numbers(attachments).await;
        Ok(changed)
    }

    fn in_force(&self, attachments: &Attachments) -> v1::PolicyStatus {
        let nics = self.facts.nics.iter().map(|nic| v1::NicState {
            device_id: nic.device_id,
            uplink_error: attachments
                .uplink_error(nic.uplink_port)
                .unwrap_or_default()
                .to_owned(),
            uplink_mtu: attachments
                .uplink_mtu(nic.uplink_port)
                .unwrap_or_default()
                .into(),
        });
        let nics = nics.collect();
        let ruleset = self.ruleset();
        let mut ports: Vec<_> = ruleset.iter().flat_map(|ruleset| ruleset.ports()).collect();
        ports.sort_unstable_by_key(|(id, _)| *id);
        let attachments = ports.into_iter().map(|(id, port)| {
            let (device_port, error) = match attachments.states().get(&port.attachment) {
                Some(PortState::Attached { device_port, .. }) => (*device_port, String::new()),
                Some(PortState::Failed(why)) => (0, why.clone()),
                None => (0, "not looked at yet".to_owned()),
            };
            v1::Attachment {
                port_id: id,
                device_port,
                error,
            }
        });
        v1::PolicyStatus {
            generation: self.generation(),
            result: v1::policy_status::Result::InForce.into(),
            message: self.kept.complaint(),
            attachments: attachments.collect(),
            nics,
        }
    }
}

fn ended(error: MailboxError) -> Status {
    Status::unavailable(error.to_string())
}

/// The end of a stream that is not the newest.
pub(super) fn displaced() -> Status {
    Status::aborted("a newer SyncPolicy stream has taken over")
}
