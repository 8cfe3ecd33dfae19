//! One SyncPolicy stream.
//!
//! Every update is answered, in order. Beside that, when a port's interface comes or goes by
//! itself, the stream repeats IN_FORCE for the generation in force with the new
//! attachments.

use std::sync::Arc;

use penstock_slowpath_api::v1;
use tokio::sync::{mpsc, watch};
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::node::{Node, displaced};

/// Answers that may wait for the controller to read them.
const BACKLOG: usize = 16;

type Answer = Result<v1::PolicyStatus, Status>;

/// Serves the stream until either side ends it or a newer one begins.
pub(super) fn serve(
    node: Arc<Node>,
    mut updates: Streaming<v1::PolicyUpdate>,
) -> ReceiverStream<Answer> {
    let (answers, stream) = mpsc::channel(BACKLOG);
    let number = node.begin();
    tokio::spawn(async move {
        if let Err(status) = run(&node, number, &mut updates, &answers).await {
            // The controller may be gone, and then wants no reason.
            drop(answers.send(Err(status)).await);
        }
    });
    ReceiverStream::new(stream)
}

async fn run(
    node: &Arc<Node>,
    number: u64,
    updates: &mut Streaming<v1::PolicyUpdate>,
    answers: &mpsc::Sender<Answer>,
) -> Result<(), Status> {
    let mut newest = node.newest();
    let mut attachments = node.attachments();
    // What was before this stream is told with its first answer.
    attachments.mark_unchanged();
    let mut synced = false;
    loop {
        let answer = tokio::select! {
            () = newer_than(&mut newest, number) => return Err(displaced()),
            () = answers.closed() => return Ok(()),
            update = updates.next() => match update {
                None => return Ok(()),
                // The connection is gone; there is nobody to tell.
                Some(Err(_)) => return Ok(()),
                Some(Ok(update)) => {
                    let answer = Arc::clone(node).update(number, update).await?;
                    synced |= answer.result() == v1::policy_status::Result::InForce;
                    answer
                }
            },
            Ok(()) = attachments.changed(), if synced => node.status().await,
        };
        if answers.send(Ok(answer)).await.is_err() {
            return Ok(());
        }
    }
}

/// Ends when a newer stream has begun.
async fn newer_than(newest: &mut watch::Receiver<u64>, number: u64) {
    // The sender lives as long as the node, which this stream keeps alive.
    drop(newest.wait_for(|newest| *newest > number).await);
}
