//! Connections on their way to and from another worker, or this one's next life.

use std::sync::Arc;
use std::time::Duration;

use penstock_engine::{FlowState, ImportError};
use penstock_flow::conntrack::Timeouts;
use penstock_rules::model::PortId;
use penstock_slowpath_api::v1;
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::node::ResumeError;
use crate::flows::file::{self, FlowsPart, Moment};
use crate::flows::{self, Malformed};
use crate::lcore::{Core, Imported, Lcores, SLOTS};
use crate::mailbox::MailboxError;
use crate::snapshot::{SnapshotError, Store};

/// What reading a slice may take.
const DEADLINE: Duration = Duration::from_secs(5);
/// Connections that may wait for the caller to read them.
const BACKLOG: usize = 2 * SLOTS as usize;

/// All connections, or one port's, slice by slice, as fast as the caller reads.
pub(super) fn export(
    lcores: Lcores,
    port: Option<PortId>,
) -> ReceiverStream<Result<v1::FlowState, Status>> {
    let (flows, stream) = mpsc::channel(BACKLOG);
    tokio::spawn(async move {
        for lcore in 0..lcores.count() as usize {
            let mut next = Some(0);
            while let Some(from) = next {
                let states;
                (states, next) = match slice(&lcores, lcore, from, port).await {
                    Ok(slice) => slice,
                    Err(error) => {
                        let status = Status::unavailable(error.to_string());
                        // Whoever is gone wants no reason.
                        drop(flows.send(Err(status)).await);
                        return;
                    }
                };
                for state in &states {
                    if flows.send(Ok(flows::encode(state))).await.is_err() {
                        return;
                    }
                }
            }
        }
    });
    ReceiverStream::new(stream)
}

/// The next slice of an lcore's table, and where the one after it begins.
async fn slice(
    lcores: &Lcores,
    lcore: usize,
    from: u32,
    port: Option<PortId>,
) -> Result<(Vec<FlowState>, Option<u32>), MailboxError> {
    let slice = lcores.one(lcore, move |core| core.export(from, port));
    tokio::time::timeout(DEADLINE, slice)
        .await
        .unwrap_or(Err(MailboxError::Deadline(DEADLINE)))
}

/// Has each connection taken up by the lcore whose it is.
async fn take_up(lcores: &Lcores, states: Vec<FlowState>) -> Result<Imported, MailboxError> {
    let states: Arc<[FlowState]> = states.into();
    let mut total = Imported::default();
    for result in lcores.each(move |core| core.import(&states)).await? {
        total.add(&result);
    }
    Ok(total)
}

/// Takes up what the caller sends, as slices of it are complete.
///
/// # Errors
/// A polling thread has ended or does not answer in time, or the stream breaks: the slices
/// before stay taken up, and the caller does not hear which.
pub(super) async fn import(
    lcores: &Lcores,
    mut stream: Streaming<v1::FlowState>,
) -> Result<v1::ImportFlowsResponse, Status> {
    let mut total = Imported::default();
    let mut slice = Vec::with_capacity(SLOTS as usize);
    loop {
        let message = stream.next().await.transpose()?;
        let last = message.is_none();
        if let Some(message) = message {
            match flows::decode(message) {
                Ok(mut state) => {
                    // Packets may pass where it came from until they come here.
                    state.tracker.moved_unseen();
                    slice.push(state);
                }
                Err(error) => {
                    tracing::debug!(%error, "a connection is not taken up");
                    total.refuse(ImportError::Malformed);
                }
            }
        }
        if last || slice.len() == SLOTS as usize {
            let states = std::mem::take(&mut slice);
            let result = take_up(lcores, states).await;
            total.add(&result.map_err(|error| Status::unavailable(error.to_string()))?);
        }
        if last {
            break;
        }
    }
    let refused = total.refusals().map(|(why, flows)| v1::ImportRefusal {
        reason: why.name().to_owned(),
        flows,
    });
    Ok(v1::ImportFlowsResponse {
        imported: total.imported,
        refused: refused.collect(),
    })
}

/// Why connections do not wait for the worker's next life.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeepError {
    /// The polling thread.
    #[error(transparent)]
    Mailbox(#[from] MailboxError),
    /// The data directory.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The system does not tell the time.
    #[error("reading the machine's uptime: {0}")]
    Time(#[from] std::io::Error),
    /// A thread of the agent.
    #[error("the agent failed: {0}")]
    Agent(#[from] tokio::task::JoinError),
}

/// Writes all connections down, a slice after the other; the polling threads pause from
/// here on, so that no packet changes what is written. Returns how many.
pub(super) async fn keep(lcores: &Lcores, store: &Store) -> Result<usize, KeepError> {
    lcores.each(Core::pause).await?;
    let written = Moment::now()?;
    let mut file = store.write_parts(file::NAME)?;
    let mut count = 0;
    for lcore in 0..lcores.count() as usize {
        let mut next = Some(0);
        while let Some(from) = next {
            let states;
            (states, next) = slice(lcores, lcore, from, None).await?;
            if states.is_empty() {
                continue;
            }
            count += states.len();
            let written = Some(written.clone());
            let putting = tokio::task::spawn_blocking(move || {
                let flows = states.iter().map(flows::encode).collect();
                file.put(&FlowsPart { written, flows }).map(|()| file)
            });
            file = putting.await??;
        }
    }
    tokio::task::spawn_blocking(move || file.finish()).await??;
    Ok(count)
}

/// Takes up what the worker's last life has written down, a part after the other. Whether
/// that was all of it; what comes before damage is good, and connections of a file that
/// cannot be gone on from are lost.
///
/// # Errors
/// A polling thread has ended; or the system does not let the file be read or removed, and
/// a later start might find it again.
pub(super) async fn resume(lcores: &Lcores, store: &Store) -> Result<bool, ResumeError> {
    let Some(mut parts) = store.take_parts(file::NAME)? else {
        return Ok(false);
    };
    let now = Moment::now().map_err(|error| error.to_string());
    let longest = Duration::from_nanos(Timeouts::default().longest());
    let mut total = Imported::default();
    let whole = loop {
        let part: FlowsPart = match parts.next_part() {
            Ok(Some(part)) => part,
            Ok(None) => {
                parts.discard()?;
                break true;
            }
            Err(SnapshotError::Damaged { what, .. }) => {
                parts.quarantine(&what, "connections from here on are lost")?;
                break false;
            }
            Err(error) => return Err(error.into()),
        };
        let opened = now.as_ref().map_err(String::clone);
        let opened =
            opened.and_then(|now| part.open(now, longest).map_err(|error| error.to_string()));
        match opened {
            Ok(flows) => resume_part(lcores, flows, &mut total).await?,
            Err(why) => {
                tracing::warn!(why, "connections of before are not gone on from");
                parts.discard()?;
                return Ok(false);
            }
        }
    };
    let lost: Vec<_> = total
        .refusals()
        .map(|(why, n)| format!("{} {n}", why.name()))
        .collect();
    tracing::info!(
        connections = total.imported,
        lost = lost.join(", "),
        "connections resumed from disk"
    );
    Ok(whole)
}

async fn resume_part(
    lcores: &Lcores,
    flows: Vec<Result<FlowState, Malformed>>,
    total: &mut Imported,
) -> Result<(), MailboxError> {
    let mut states = Vec::with_capacity(flows.len());
    for flow in flows {
        match flow {
            Ok(state) => states.push(state),
            Err(error) => {
                tracing::warn!(%error, "a connection is lost");
                total.refuse(ImportError::Malformed);
            }
        }
    }
    for slice in states.chunks(SLOTS as usize) {
        total.add(&take_up(lcores, slice.to_vec()).await?);
    }
    Ok(())
}

/// Drops what the worker's last life has written down, unread.
///
/// # Errors
/// The system does not let it be removed.
pub(super) fn forget(store: &Store) -> Result<(), SnapshotError> {
    match store.take_parts(file::NAME)? {
        Some(parts) => parts.discard(),
        None => Ok(()),
    }
}
