//! One connection to one worker, from GetNode to its end.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use p4runtime::election::Id;
use penstock_policies::compile::CompileError;
use penstock_slowpath_api::v1;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tonic::Status;
use tonic::transport::Channel;

use super::Context;
use super::backoff::Backoff;
use super::nic::{Desired, Loss, Lost, Nic, OpenError};
use super::policy::Link;
use crate::dial;
use crate::plan::NodePlan;
use crate::status::{self, Problem, Reason};

/// Why a session has ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error(transparent)]
    Dial(#[from] dial::Error),
    #[error("{address} does not answer GetNode: {}", dial::words(.status))]
    GetNode { address: String, status: Status },
    #[error(
        "the worker at {address} is {found:?}; correct this node's worker_address, or start \
         the worker with the name {wanted:?}"
    )]
    WrongNode {
        address: String,
        found: String,
        wanted: String,
    },
    #[error("the policy stream: {}", dial::words(.0))]
    Policy(Status),
    #[error("worker_address has changed")]
    Moved,
    #[error("the node is no longer declared")]
    Gone,
    #[error("the node's resources do not compile: {0}")]
    Compile(#[from] CompileError),
    #[error("another controller is primary with election id {0}; stop it, or remove the node here")]
    NotPrimary(Id),
    #[error("NIC {device_id}: {error}")]
    Arbitration { device_id: u32, error: OpenError },
}

impl Error {
    pub(super) const fn reason(&self) -> Reason {
        match self {
            Self::NotPrimary(_) => Reason::NotPrimary,
            _ => Reason::NodeUnreachable,
        }
    }
}

/// The election id that has displaced this controller, by device.
pub(super) type Displaced = HashMap<u32, Id>;

mod round;
mod states;

struct Session<'a> {
    context: &'a Context,
    name: &'a str,
    channel: Channel,
    info: v1::NodeInfo,
    link: Link,
    nics: HashMap<u32, Nic>,
    lost: (Lost, mpsc::Receiver<(u32, Loss)>),
    /// What was last written without any problem.
    settled: BTreeMap<u32, Desired>,
    /// Programs that were last shown to be right, and the revision of the node's plan by
    /// which they were.
    proved: (u64, BTreeMap<u32, Desired>),
    /// Entries that each NIC has by resource.
    counts: BTreeMap<u32, BTreeMap<Arc<str>, u64>>,
    /// What is known of each declared NIC.
    states: BTreeMap<u32, status::Nic>,
}

/// Runs until the session is of no more use.
pub(super) async fn run(
    context: &Context,
    name: &str,
    target: &NodePlan,
    backoff: &mut Backoff,
    displaced: &mut Displaced,
) -> Error {
    let opened = Session::open(context, name, target, displaced).await;
    match opened {
        Ok(mut session) => match session.serve(&target.address, backoff, displaced).await {
            Ok(never) => match never {},
            Err(error) => error,
        },
        Err(error) => error,
    }
}

impl<'a> Session<'a> {
    /// Becomes primary of the NICs before it touches the policy: a policy stream
    /// has no arbitration of its own, and displaces whoever had one.
    async fn open(
        context: &'a Context,
        name: &'a str,
        target: &NodePlan,
        displaced: &mut Displaced,
    ) -> Result<Self, Error> {
        let limits = context.limits;
        let address = &target.address;
        let channel = context
            .dialer
            .connect(name, address, limits.connect)
            .await?;
        let mut client = dial::slow_path(channel.clone());
        let unanswered = |status| Error::GetNode {
            address: address.clone(),
            status,
        };
        let info = limits
            .within("GetNode", async {
                client.get_node(v1::GetNodeRequest {}).await
            })
            .await
            .map_err(unanswered)?
            .into_inner();
        let short = |name: &str| name.strip_prefix("nodes/").unwrap_or(name).to_owned();
        if short(&info.node) != short(name) {
            return Err(Error::WrongNode {
                address: address.clone(),
                found: info.node,
                wanted: short(name),
            });
        }
        let lost = mpsc::channel(64);
        let mut nics = HashMap::new();
        let declared = target.names.model.nodes.get(&target.node);
        for device_id in info.nics.iter().map(|nic| nic.device_id) {
            if declared.is_none_or(|node| !node.nics.contains_key(&device_id)) {
                continue;
            }
            let primary = displaced.get(&device_id).copied();
            let elections = &context.elections;
            match Nic::open(
                channel.clone(),
                device_id,
                elections,
                limits,
                &lost.0,
                primary,
            )
            .await
            {
                Ok(nic) => {
                    displaced.remove(&device_id);
                    nics.insert(device_id, nic);
                }
                Err(OpenError::NotPrimary(id)) => {
                    displaced.insert(device_id, id);
                    return Err(Error::NotPrimary(id));
                }
                // Its own problem; the rounds try again and report.
                Err(error @ (OpenError::Refused { .. } | OpenError::Pipeline(_))) => {
                    tracing::warn!(node = name, device_id, %error, "a NIC cannot be opened");
                }
                Err(error) => return Err(Error::Arbitration { device_id, error }),
            }
        }
        let link = Link::open(client, info.generation, limits)
            .await
            .map_err(Error::Policy)?;
        tracing::info!(
            node = name,
            version = info.version,
            generation = info.generation,
            "connected"
        );
        // Whatever was known of the worker before, this may be another life of it.
        context.board.update(name, |report| {
            report.unreachable = None;
            report.revision = 0;
            report.generation = 0;
            report.failure = None;
            report.problems.clear();
            report.entries.clear();
            report.nics.clear();
        });
        Ok(Self {
            context,
            name,
            channel,
            info,
            link,
            nics,
            lost,
            settled: BTreeMap::new(),
            proved: (0, BTreeMap::new()),
            counts: BTreeMap::new(),
            states: BTreeMap::new(),
        })
    }

    async fn serve(
        &mut self,
        address: &str,
        backoff: &mut Backoff,
        displaced: &mut Displaced,
    ) -> Result<std::convert::Infallible, Error> {
        let period = self.context.limits.period;
        let mut plans = self.context.plans.clone();
        // The first round compares everything, and so does one per period.
        let mut full = true;
        // The revision of the node's plan that nothing is left to do for.
        let mut settled = None;
        let mut next_full = Instant::now();
        loop {
            let plan = Arc::clone(&plans.borrow_and_update());
            let target = plan.nodes.get(self.name).ok_or(Error::Gone)?;
            if target.address != address {
                return Err(Error::Moved);
            }
            if full {
                next_full = Instant::now() + period;
            }
            let clean = if settled == Some(target.revision) && !full {
                let revision = plan.revision;
                self.context
                    .board
                    .update(self.name, |report| report.revision = revision);
                true
            } else {
                self.round(&plan, target, full).await?
            };
            settled = clean.then_some(target.revision);
            let wake = if clean {
                backoff.reset();
                next_full
            } else {
                next_full.min(Instant::now() + backoff.pause())
            };
            tokio::select! {
                () = tokio::time::sleep_until(wake) => full = true,
                changed = plans.changed() => {
                    full = !clean;
                    if changed.is_err() {
                        return Err(Error::Gone);
                    }
                }
                heard = self.link.hear() => {
                    heard.map_err(Error::Policy)?;
                    settled = None;
                    full = !clean;
                }
                Some((device_id, why)) = self.lost.1.recv() => {
                    tracing::warn!(node = self.name, device_id, %why, "lost a NIC");
                    if let Loss::Displaced(id) = why {
                        displaced.insert(device_id, id);
                        return Err(Error::NotPrimary(id));
                    }
                    self.nics.remove(&device_id);
                    self.settled.remove(&device_id);
                    self.context.board.update(self.name, |report| {
                        let message = format!("NIC {device_id}: {why}");
                        report.failure = Some(Problem::new(Reason::NicLost, message));
                    });
                    // Not at once: whatever ended it may go on for a while.
                    tokio::time::sleep(backoff.pause()).await;
                    full = true;
                }
            }
        }
    }
}
