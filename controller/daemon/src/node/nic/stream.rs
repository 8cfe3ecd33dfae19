//! The stream that holds a primary's place, watched in the background.

use p4runtime::election::Id;
use p4runtime::v1;
use p4runtime::v1::stream_message_request::Update as Request;
use p4runtime::v1::stream_message_response::Update as Response;
use tokio::sync::mpsc;
use tonic::{Code, Status, Streaming};

/// Tells which NIC is lost, and why.
pub(crate) type Lost = mpsc::Sender<(u32, Loss)>;

/// Why a NIC is lost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Loss {
    /// Somebody has made a higher bid.
    #[error("another controller has become primary with election id {0}")]
    Displaced(Id),
    /// The stream has ended.
    #[error("{0}")]
    Broken(String),
}

/// An open stream on which this controller has become primary.
#[derive(Debug)]
pub(super) struct Watched {
    /// Closing it gives up the place.
    _requests: mpsc::Sender<v1::StreamMessageRequest>,
    task: tokio::task::JoinHandle<()>,
}

impl Watched {
    /// Tells `lost` once when the place or the stream is lost.
    pub(super) fn new(
        requests: mpsc::Sender<v1::StreamMessageRequest>,
        mut responses: Streaming<v1::StreamMessageResponse>,
        (device_id, lost): (u32, Lost),
    ) -> Self {
        let task = tokio::spawn(async move {
            let why = loop {
                match responses.message().await {
                    Ok(Some(message)) => {
                        if let Some(why) = loss(message, device_id) {
                            break why;
                        }
                    }
                    Ok(None) => {
                        break Loss::Broken("the worker closed the P4Runtime stream".to_owned());
                    }
                    Err(status) => {
                        break Loss::Broken(format!(
                            "the P4Runtime stream failed: {}",
                            crate::dial::words(&status)
                        ));
                    }
                }
            };
            // Nobody listens any more when the session is over.
            let _ = lost.send((device_id, why)).await;
        });
        Self {
            _requests: requests,
            task,
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What a message says against this controller, if anything.
fn loss(message: v1::StreamMessageResponse, device_id: u32) -> Option<Loss> {
    match message.update? {
        Response::Arbitration(arbitration) => {
            let code = arbitration
                .status
                .map_or(Code::Ok, |status| Code::from_i32(status.code));
            let primary = arbitration.election_id.map_or(Id(0), Id::from);
            (code != Code::Ok).then_some(Loss::Displaced(primary))
        }
        Response::Error(error) => {
            let code = error.canonical_code;
            tracing::warn!(device_id, code, error.message, "the NIC reports an error");
            None
        }
        Response::Packet(_)
        | Response::Digest(_)
        | Response::IdleTimeoutNotification(_)
        | Response::Other(_) => {
            tracing::debug!(device_id, "a stream message that is not for the controller");
            None
        }
    }
}

/// A bid to be primary.
pub(super) fn bid(device_id: u64, election: p4runtime::election::Id) -> v1::StreamMessageRequest {
    v1::StreamMessageRequest {
        update: Some(Request::Arbitration(v1::MasterArbitrationUpdate {
            device_id,
            role: Some(v1::Role {
                name: p4runtime::role::CONTROLLER.to_owned(),
                ..Default::default()
            }),
            election_id: Some(election.into()),
            status: None,
        })),
    }
}

/// The next arbitration answer.
pub(super) async fn answer(
    responses: &mut Streaming<v1::StreamMessageResponse>,
) -> Result<v1::MasterArbitrationUpdate, Status> {
    loop {
        let message = responses
            .message()
            .await?
            .ok_or_else(|| Status::unavailable("the stream ended before an answer"))?;
        match message.update {
            Some(Response::Arbitration(arbitration)) => return Ok(arbitration),
            Some(Response::Error(error)) => {
                return Err(Status::new(
                    Code::from_i32(error.canonical_code),
                    error.message,
                ));
            }
            _ => {}
        }
    }
}
