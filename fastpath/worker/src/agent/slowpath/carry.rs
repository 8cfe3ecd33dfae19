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

use crate::flows::file::{self, FlowsFile, Moment};
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

/// Takes up what the caller sends.
///
/// # Errors
/// A polling thread has ended, or the stream breaks: what came before stays.
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

/// Writes all connections down; the polling threads pause from here on, so that no packet
/// changes what is written. Returns how many.
pub(super) async fn keep(lcores: &Lcores, store: &Arc<Store>) -> Result<usize, KeepError> {
    lcores.each(Core::pause).await?;
    let written = Some(Moment::now()?);
    let mut flows = Vec::new();
    for lcore in 0..lcores.count() as usize {
        let mut next = Some(0);
        while let Some(from) = next {
            let states;
            (states, next) = slice(lcores, lcore, from, None).await?;
            flows.extend(states.iter().map(flows::encode));
        }
    }
    let count = flows.len();
    let store = Arc::clone(store);
    let file = FlowsFile { written, flows };
    tokio::task::spawn_blocking(move || store.save(file::NAME, &file)).await??;
    Ok(count)
}

/// Takes up what the worker's last life has written down. Whether there was something to go
/// on from: whatever is wrong with it is logged, and then there was not.
///
/// # Errors
/// A polling thread has ended.
pub(super) async fn resume(lcores: &Lcores, store: &Store) -> Result<bool, MailboxError> {
    let file: FlowsFile = match store.take(file::NAME) {
        Ok(Some(file)) => file,
        Ok(None) => return Ok(false),
        Err(error) => {
            tracing::error!(%error, "connections are lost");
            return Ok(false);
        }
    };
    let longest = Duration::from_nanos(Timeouts::default().longest());
    let opened = match Moment::now() {
        Ok(now) => file.open(&now, longest).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    let flows: Vec<Result<FlowState, Malformed>> = match opened {
        Ok(flows) => flows,
        Err(why) => {
            tracing::warn!(why, "connections of before are not gone on from");
            return Ok(false);
        }
    };
    let mut total = Imported::default();
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
    let lost: Vec<_> = total
        .refusals()
        .map(|(why, n)| format!("{} {n}", why.name()))
        .collect();
    tracing::info!(
        connections = total.imported,
        lost = lost.join(", "),
        "connections resumed from disk"
    );
    Ok(true)
}
