//! One connection to one worker, from GetNode to its end.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use p4runtime::election::Id;
use penstock_flow::Addr;
use penstock_policies::compile::CompileError;
use penstock_policies::nic::Interfaces;
use penstock_slowpath_api::v1;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::Status;
use tonic::transport::Channel;

use super::backoff::Backoff;
use super::nic::{Desired, Loss, Lost, Nic, OpenError, Synced};
use super::policy::{Link, LinkError};
use super::{Context, desired};
use crate::dial;
use crate::plan::{NodePlan, Plan};
use crate::status::{ATTACHMENT_NOT_FOUND, NOT_PRIMARY, Problem, UNREACHABLE};

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
}

impl Error {
    pub(super) const fn reason(&self) -> &'static str {
        match self {
            Self::NotPrimary(_) => NOT_PRIMARY,
            _ => UNREACHABLE,
        }
    }
}

/// The election id that has displaced this controller, by device.
pub(super) type Displaced = HashMap<u32, Id>;

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
    /// Entries that each NIC has by resource.
    counts: BTreeMap<u32, BTreeMap<Arc<str>, u64>>,
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
        let channel = context.dialer.connect(address, limits.connect).await?;
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
                Err(error) => {
                    tracing::warn!(node = name, device_id, %error, "a NIC cannot be opened");
                }
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
            counts: BTreeMap::new(),
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
                        report.failure = Some(Problem::new("NicLost", message));
                    });
                    // Not at once: whatever ended it may go on for a while.
                    tokio::time::sleep(backoff.pause()).await;
                    full = true;
                }
            }
        }
    }

    /// Brings everything to the plan; answers whether nothing is left to retry.
    async fn round(&mut self, plan: &Plan, target: &NodePlan, full: bool) -> Result<bool, Error> {
        match self.link.ensure(&target.policy).await {
            Ok(()) => {}
            Err(LinkError::Stream(status)) => return Err(Error::Policy(status)),
            Err(error) => {
                self.fail(Problem::new("PolicyRefused", error.to_string()));
                return Ok(false);
            }
        }
        let mut problems = self.attachment_problems(target);
        let interfaces = self.interfaces();
        let mut failure = None;
        let mut syncs = JoinSet::new();
        let tables = desired::tables(target, &interfaces)?;
        // A NIC that is no longer declared keeps what it has.
        self.nics.retain(|id, _| tables.contains_key(id));
        self.settled.retain(|id, _| tables.contains_key(id));
        self.counts.retain(|id, _| tables.contains_key(id));
        for (device_id, desired) in tables {
            if let Err(problem) = self.check_nic(target, device_id) {
                failure.get_or_insert(problem);
                continue;
            }
            if !full && self.settled.get(&device_id) == Some(&desired) {
                continue;
            }
            self.settled.remove(&device_id);
            match self.nic(device_id).await {
                Ok(mut nic) => {
                    syncs.spawn(async move {
                        let result = nic.sync(&desired).await;
                        (device_id, nic, desired, result)
                    });
                }
                Err(OpenError::NotPrimary(id)) => return Err(Error::NotPrimary(id)),
                Err(error) => {
                    let message = format!("NIC {device_id}: {error}");
                    failure.get_or_insert(Problem::new("NicNotOpen", message));
                }
            }
        }
        let (mut writes, mut drift) = (0, 0);
        while let Some(joined) = syncs.join_next().await {
            let Ok((device_id, nic, desired, result)) = joined else {
                failure.get_or_insert(Problem::new("Internal", "a sync was interrupted"));
                continue;
            };
            match result {
                Ok(synced) => {
                    writes += synced.writes;
                    drift += synced.drift;
                    self.log(device_id, &synced);
                    self.nics.insert(device_id, nic);
                    if synced.problems.is_empty() && synced.leftovers.is_none() {
                        self.settled.insert(device_id, desired);
                    }
                    self.counts.insert(device_id, synced.entries);
                    problems.extend(synced.problems);
                    if let Some(problem) = synced.leftovers {
                        failure.get_or_insert(problem);
                    }
                }
                // Unknown what was applied: the NIC is opened and read anew.
                Err(status) => {
                    let message = format!("NIC {device_id}: {}", dial::words(&status));
                    failure.get_or_insert(Problem::new("NicFailed", message));
                }
            }
        }
        let retry = failure.is_some()
            || problems
                .values()
                .any(|problem| problem.reason != ATTACHMENT_NOT_FOUND);
        let entries = self.count_entries();
        let generation = self.link.generation();
        self.context.board.update(self.name, |report| {
            report.generation = generation;
            if failure.is_none() {
                report.revision = plan.revision;
            }
            report.failure = failure;
            report.problems = problems;
            report.entries = entries;
            report.writes += writes;
            report.drift += drift;
        });
        Ok(!retry)
    }

    fn fail(&self, problem: Problem) {
        tracing::warn!(
            node = self.name,
            reason = problem.reason,
            message = problem.message,
            "not programmed"
        );
        self.context
            .board
            .update(self.name, |report| report.failure = Some(problem));
    }

    fn log(&self, device_id: u32, synced: &Synced) {
        if synced.drift > 0 {
            tracing::warn!(
                node = self.name,
                device_id,
                entries = synced.drift,
                "tables had changed behind the controller's back"
            );
        }
        if synced.writes > 0 {
            tracing::info!(
                node = self.name,
                device_id,
                writes = synced.writes,
                refused = synced.problems.len(),
                "tables written"
            );
        }
    }

    /// Takes the open NIC, or opens it.
    async fn nic(&mut self, device_id: u32) -> Result<Nic, OpenError> {
        if let Some(nic) = self.nics.remove(&device_id) {
            return Ok(nic);
        }
        Nic::open(
            self.channel.clone(),
            device_id,
            &self.context.elections,
            self.context.limits,
            &self.lost.0,
            None,
        )
        .await
    }

    /// Whether the worker has the NIC that is declared.
    fn check_nic(&self, target: &NodePlan, device_id: u32) -> Result<(), Problem> {
        let declared = target
            .names
            .model
            .nodes
            .get(&target.node)
            .and_then(|node| node.nics.get(&device_id));
        let found = self.info.nics.iter().find(|nic| nic.device_id == device_id);
        match (declared, found) {
            (Some(declared), Some(found)) => {
                let theirs = <[u8; 16]>::try_from(found.vtep.as_slice())
                    .ok()
                    .map(Addr::from_octets);
                if theirs == Some(declared.vtep) {
                    return Ok(());
                }
                let theirs = theirs.map_or("none".to_owned(), |address| address.to_string());
                Err(Problem::new(
                    "NicMismatch",
                    format!(
                        "NIC {device_id} is declared with vtep {}, the worker has {theirs}; \
                         correct one of them",
                        declared.vtep
                    ),
                ))
            }
            _ => Err(Problem::new(
                "NicNotFound",
                format!(
                    "the worker has no NIC {device_id}, only {:?}; correct the node's nics",
                    self.info
                        .nics
                        .iter()
                        .map(|nic| nic.device_id)
                        .collect::<Vec<_>>()
                ),
            )),
        }
    }

    fn interfaces(&self) -> Interfaces {
        Interfaces {
            ports: self
                .link
                .attachments()
                .iter()
                .filter(|(_, attachment)| attachment.device_port != 0)
                .map(|(id, attachment)| (*id, attachment.device_port))
                .collect(),
            uplinks: self
                .info
                .nics
                .iter()
                .filter(|nic| nic.uplink_port != 0)
                .map(|nic| (nic.device_id, nic.uplink_port))
                .collect(),
        }
    }

    fn attachment_problems(&self, target: &NodePlan) -> BTreeMap<String, Problem> {
        let mut problems = BTreeMap::new();
        for (id, port) in &target.policy.ports {
            let attachment = self.link.attachments().get(id);
            if attachment.is_some_and(|it| it.device_port != 0) {
                continue;
            }
            let why = match attachment {
                Some(it) if !it.error.is_empty() => it.error.as_str(),
                _ => "the worker does not say why",
            };
            let message = format!(
                "attachment {:?} is not found on {}: {why}",
                port.attachment, self.name
            );
            problems.insert(
                port.name.clone(),
                Problem::new(ATTACHMENT_NOT_FOUND, message),
            );
        }
        problems
    }

    fn count_entries(&self) -> HashMap<String, u64> {
        let mut entries = HashMap::new();
        for (owner, count) in self.counts.values().flatten() {
            *entries.entry(owner.to_string()).or_default() += count;
        }
        entries
    }
}
