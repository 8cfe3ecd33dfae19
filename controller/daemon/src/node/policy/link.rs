//! The stream that keeps one worker's policy up to date.
//!
//! A worker answers every update in order. The first update of a stream is a
//! snapshot, and so is the one after RESYNC; every other is the difference to
//! what the worker has last confirmed.
//!
//! The first snapshot bears the generation that the worker is at: where that is this
//! policy already, nothing changes. A new generation would end the worker's recovery
//! after a crash, and have everything judged again, because a controller was restarted.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use penstock_rules::model::{Policy, PortId};
use penstock_slowpath_api::encode::{delta, snapshot};
use penstock_slowpath_api::v1;
use penstock_slowpath_api::v1::policy_status::Result as Outcome;
use penstock_slowpath_api::v1::slow_path_client::SlowPathClient;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use super::same;
use crate::node::Limits;

/// Snapshots that a worker may ask for before something must be wrong.
const RESYNCS: usize = 3;

/// Why a policy is not in force.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    /// The stream is of no more use.
    #[error("the policy stream failed: {}", crate::dial::words(.0))]
    Stream(#[from] Status),
    /// The worker keeps what it had.
    #[error("the worker refuses the policy: {0}")]
    Refused(String),
    /// The worker contradicts itself.
    #[error("the worker asked for a snapshot {RESYNCS} times and took none: {0}")]
    NeverSynced(String),
}

/// An open policy stream.
#[derive(Debug)]
pub(crate) struct Link {
    updates: mpsc::Sender<v1::PolicyUpdate>,
    statuses: Streaming<v1::PolicyStatus>,
    limits: Limits,
    /// The highest generation that this worker may have seen.
    generation: u64,
    /// Whether the worker has been asked if it has the policy already.
    asked: bool,
    confirmed: Option<(u64, Arc<Policy>)>,
    attachments: BTreeMap<PortId, v1::Attachment>,
    uplink_errors: BTreeMap<u32, String>,
    uplink_mtus: BTreeMap<u32, u32>,
    complaint: String,
}

impl Link {
    /// Opens a stream to a worker that is at `generation`. Nothing is sent yet.
    pub(crate) async fn open(
        mut client: SlowPathClient<Channel>,
        generation: u64,
        limits: Limits,
    ) -> Result<Self, Status> {
        let (updates, receiver) = mpsc::channel(1);
        let statuses = limits
            .within("opening the policy stream", async {
                client.sync_policy(ReceiverStream::new(receiver)).await
            })
            .await?
            .into_inner();
        Ok(Self {
            updates,
            statuses,
            limits,
            generation,
            // Without a policy there is nothing to ask for.
            asked: generation == 0,
            confirmed: None,
            attachments: BTreeMap::new(),
            uplink_errors: BTreeMap::new(),
            uplink_mtus: BTreeMap::new(),
            complaint: String::new(),
        })
    }

    /// The generation in force by this stream; 0: none yet.
    pub(crate) fn generation(&self) -> u64 {
        self.confirmed
            .as_ref()
            .map_or(0, |(generation, _)| *generation)
    }

    /// What the worker last said about each port's interface.
    pub(crate) fn attachments(&self) -> &BTreeMap<PortId, v1::Attachment> {
        &self.attachments
    }

    /// Why NICs' uplinks carry nothing, as the worker last said, by device id; those that
    /// carry are not in it.
    pub(crate) fn uplink_errors(&self) -> &BTreeMap<u32, String> {
        &self.uplink_errors
    }

    /// What a NIC's uplink takes, as the worker last said; `None`: it has not.
    pub(crate) fn uplink_mtu(&self, device_id: u32) -> Option<u32> {
        self.uplink_mtus.get(&device_id).copied()
    }

    /// What is wrong though the policy is in force, as the worker last said.
    pub(crate) fn complaint(&self) -> Option<&str> {
        Some(self.complaint.as_str()).filter(|words| !words.is_empty())
    }

    /// Waits for a status nobody asked for: an interface has come or gone.
    /// Cancel safe.
    ///
    /// # Errors
    /// When the stream has ended.
    pub(crate) async fn hear(&mut self) -> Result<(), Status> {
        let status = self.next().await?;
        if Outcome::try_from(status.result) == Ok(Outcome::InForce)
            && status.generation == self.generation()
        {
            self.learn(status);
        }
        Ok(())
    }

    /// Returns once `policy` is in force.
    ///
    /// # Errors
    /// After [`LinkError::Stream`] the link is of no more use.
    pub(crate) async fn ensure(&mut self, policy: &Arc<Policy>) -> Result<(), LinkError> {
        let mut message = String::new();
        for _ in 0..=RESYNCS {
            let generation = if mem::replace(&mut self.asked, true) {
                self.generation + 1
            } else {
                self.generation
            };
            let update = match &self.confirmed {
                Some((_, confirmed)) if same(confirmed, policy) => return Ok(()),
                Some((base, confirmed)) => delta(confirmed, policy, *base, generation),
                None => snapshot(policy, generation),
            };
            let status = self.exchange(update).await?;
            match Outcome::try_from(status.result) {
                Ok(Outcome::InForce) => {
                    self.confirmed = Some((generation, Arc::clone(policy)));
                    self.learn(status);
                    return Ok(());
                }
                Ok(Outcome::Resync) => {
                    self.confirmed = None;
                    message = status.message;
                }
                Ok(Outcome::Refused) => {
                    // What it holds now is its own affair: begin anew.
                    self.confirmed = None;
                    return Err(LinkError::Refused(status.message));
                }
                Ok(Outcome::Unspecified) | Err(_) => {
                    return Err(LinkError::Stream(Status::internal(format!(
                        "the worker answered with the unknown result {}",
                        status.result
                    ))));
                }
            }
        }
        Err(LinkError::NeverSynced(message))
    }

    /// Sends an update and waits for its answer.
    async fn exchange(&mut self, update: v1::PolicyUpdate) -> Result<v1::PolicyStatus, Status> {
        let generation = update.generation;
        self.generation = generation;
        let limits = self.limits;
        limits
            .within("a policy update", async {
                self.updates
                    .send(update)
                    .await
                    .map_err(|_| Status::unavailable("the policy stream is closed"))?;
                loop {
                    let status = self.next().await?;
                    let other = status.generation != generation
                        && Outcome::try_from(status.result) == Ok(Outcome::InForce);
                    // News about the generation before may still be under way.
                    if !other {
                        return Ok(status);
                    }
                }
            })
            .await
    }

    async fn next(&mut self) -> Result<v1::PolicyStatus, Status> {
        self.statuses
            .message()
            .await?
            .ok_or_else(|| Status::unavailable("the worker closed the policy stream"))
    }

    fn learn(&mut self, status: v1::PolicyStatus) {
        self.complaint = status.message;
        let mtus = status
            .nics
            .iter()
            .map(|nic| (nic.device_id, nic.uplink_mtu));
        self.uplink_mtus = mtus.filter(|(_, mtu)| *mtu != 0).collect();
        self.attachments = status
            .attachments
            .into_iter()
            .map(|attachment| (attachment.port_id, attachment))
            .collect();
        self.uplink_errors = status
            .nics
            .into_iter()
            .filter(|nic| !nic.uplink_error.is_empty())
            .map(|nic| (nic.device_id, nic.uplink_error))
            .collect();
    }
}
