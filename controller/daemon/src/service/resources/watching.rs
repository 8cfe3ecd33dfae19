//! One watcher.

use std::time::Duration;

use penstock_api::v1;
use penstock_api::v1::event::Type;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::Scope;
use crate::hub::{Change, View};
use crate::status;

/// Events under way to a watcher.
const QUEUE: usize = 256;
/// A watcher that takes no event for so long is given up.
const PATIENCE: Duration = Duration::from_secs(30);

type Event = Result<v1::Event, Status>;

/// Everything in the view, SYNCED, and every change from then on.
pub(super) fn start(
    view: View,
    scope: Scope,
    stopping: watch::Receiver<bool>,
) -> Result<ReceiverStream<Event>, Status> {
    let (sender, receiver) = mpsc::channel(QUEUE + 1);
    // The last place is kept for the reason why the stream ends.
    let last_word = sender
        .clone()
        .try_reserve_owned()
        .map_err(|_| Status::internal("a fresh queue has no room"))?;
    tokio::spawn(async move {
        if let Err(End::Told(reason)) = run(view, &scope, stopping, &sender).await {
            last_word.send(Err(reason));
        }
    });
    Ok(ReceiverStream::new(receiver))
}

/// Why a watcher is no longer served.
enum End {
    /// Nobody listens any more.
    Gone,
    /// To be told.
    Told(Status),
}

async fn run(
    mut view: View,
    scope: &Scope,
    mut stopping: watch::Receiver<bool>,
    sender: &mpsc::Sender<Event>,
) -> Result<std::convert::Infallible, End> {
    let revision = view.world.revision;
    for row in view.world.rows.values().filter(|row| scope.contains(row)) {
        let status = view.statuses.get(row.name());
        let resource = status::show(row, status.map(AsRef::as_ref));
        send(sender, Type::Put, Some(resource), revision).await?;
    }
    send(sender, Type::Synced, None, revision).await?;
    drop(std::mem::take(&mut view.statuses));
    loop {
        let changes = tokio::select! {
            changes = view.events.recv() => changes,
            _ = stopping.wait_for(|stopping| *stopping) => {
                return Err(End::Told(Status::unavailable("penstockd is stopping; watch again")));
            }
            () = sender.closed() => return Err(End::Gone),
        };
        let changes = match changes {
            Ok(changes) => changes,
            Err(RecvError::Lagged(missed)) => {
                return Err(End::Told(Status::resource_exhausted(format!(
                    "the watcher fell behind and missed {missed} changes; watch again"
                ))));
            }
            Err(RecvError::Closed) => {
                return Err(End::Told(Status::unavailable("penstockd is stopping")));
            }
        };
        for change in changes.changes.iter().filter(|it| scope.contains(it.row())) {
            let (kind, resource) = match change {
                Change::Put(row, status) => (Type::Put, status::show(row, status.as_deref())),
                Change::Deleted(row) => (Type::Deleted, status::show_gone(row)),
            };
            send(sender, kind, Some(resource), changes.revision).await?;
        }
    }
}

async fn send(
    sender: &mpsc::Sender<Event>,
    kind: Type,
    resource: Option<v1::Resource>,
    revision: u64,
) -> Result<(), End> {
    let event = v1::Event {
        r#type: kind.into(),
        resource,
        revision,
    };
    match tokio::time::timeout(PATIENCE, sender.send(Ok(event))).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(End::Gone),
        Err(_) => Err(End::Told(Status::resource_exhausted(format!(
            "the watcher took no event for {PATIENCE:?}; watch again"
        )))),
    }
}
