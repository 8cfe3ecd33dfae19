//! Becoming primary of a NIC and bringing its pipeline to this version.

use std::sync::Arc;

use p4runtime::election::Id;
use p4runtime::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime::{pipeline, role, transport, v1};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::stream::{self, Lost, Watched};
use super::{Elections, Limits, Nic};

/// Why a NIC cannot be programmed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    /// Somebody else is.
    #[error("another controller with election id {0} is primary")]
    NotPrimary(Id),
    /// Even a higher bid was not enough.
    #[error("the worker has no primary, and does not accept election id {0} either")]
    NoPrimary(Id),
    /// The bid itself is refused.
    #[error("the bid to be primary: {}", crate::dial::words(.0))]
    Arbitration(Status),
    /// The worker says something else.
    #[error("{what}: {}", crate::dial::words(.status))]
    Refused {
        /// What was tried.
        what: &'static str,
        /// Its answer.
        status: Status,
    },
    /// No new election id could be made durable.
    #[error(transparent)]
    Store(#[from] crate::store::Error),
    /// This binary is broken.
    #[error("the built-in pipeline cannot be read: {0}")]
    Pipeline(#[from] prost::DecodeError),
}

fn refused(what: &'static str) -> impl Fn(Status) -> OpenError {
    move |status| OpenError::Refused { what, status }
}

impl Nic {
    /// Opens a NIC as its primary. Where this controller has been `displaced` by
    /// another one, it only takes the place when that one is gone.
    pub(crate) async fn open(
        channel: Channel,
        device_id: u32,
        elections: &Arc<Elections>,
        limits: Limits,
        lost: &Lost,
        displaced: Option<Id>,
    ) -> Result<Self, OpenError> {
        let mut client = transport::client(channel);
        let lost = (device_id, lost.clone());
        let device_id = u64::from(device_id);
        let (requests, receiver) = mpsc::channel(4);
        // Id 0 is no bid, but asks how things stand.
        let mut election = match displaced {
            None => elections.next(),
            Some(_) => Id(0),
        };
        let send = |id| {
            requests
                .try_send(stream::bid(device_id, id))
                .map_err(|_| OpenError::Arbitration(Status::unavailable("the stream is closed")))
        };
        send(election)?;
        let mut responses = limits
            .within("opening the stream", async {
                client.stream_channel(ReceiverStream::new(receiver)).await
            })
            .await
            .map_err(OpenError::Arbitration)?
            .into_inner();
        for attempt in 0.. {
            let answer = limits
                .within("arbitration", stream::answer(&mut responses))
                .await
                .map_err(OpenError::Arbitration)?;
            let code = answer
                .status
                .map_or(Code::Ok, |status| Code::from_i32(status.code));
            let seen = answer.election_id.map_or(Id(0), Id::from);
            match code {
                Code::Ok => break,
                Code::AlreadyExists => return Err(OpenError::NotPrimary(seen)),
                // The worker remembers a higher id whose owner is gone.
                Code::NotFound if attempt == 0 => {
                    let elections = Arc::clone(elections);
                    election = tokio::task::spawn_blocking(move || elections.next_above(seen))
                        .await
                        .map_err(|error| {
                            OpenError::Arbitration(Status::internal(error.to_string()))
                        })??;
                    send(election)?;
                }
                Code::NotFound => return Err(OpenError::NoPrimary(election)),
                other => {
                    return Err(OpenError::Arbitration(Status::new(
                        other,
                        "the worker refuses the bid",
                    )));
                }
            }
        }
        let mut nic = Self {
            device_id,
            client,
            election,
            _stream: Watched::new(requests, responses, lost),
            limits,
            left: None,
        };
        nic.bring_pipeline().await?;
        Ok(nic)
    }

    /// Leaves the pipeline alone if its cookie is ours: a commit may cost entries.
    async fn bring_pipeline(&mut self) -> Result<(), OpenError> {
        const GET: &str = "reading the pipeline";
        const SET: &str = "committing the pipeline";

        let request = v1::GetForwardingPipelineConfigRequest {
            device_id: self.device_id,
            response_type: v1::get_forwarding_pipeline_config_request::ResponseType::CookieOnly
                .into(),
        };
        let client = &mut self.client;
        let answer = self
            .limits
            .within(GET, async {
                client.get_forwarding_pipeline_config(request).await
            })
            .await;
        let present = match answer {
            Ok(answer) => answer.into_inner().config,
            // How a device says that it has none.
            Err(status) if matches!(status.code(), Code::FailedPrecondition | Code::NotFound) => {
                None
            }
            Err(status) => return Err(refused(GET)(status)),
        };
        let cookie = present
            .as_ref()
            .and_then(|config| config.cookie.as_ref())
            .map(|cookie| cookie.cookie);
        if cookie == Some(pipeline::COOKIE) {
            return Ok(());
        }
        tracing::info!(
            device_id = self.device_id,
            found = cookie,
            wanted = pipeline::COOKIE,
            "committing the pipeline"
        );
        // Entries are worth keeping only where there was a pipeline before.
        if present.is_some() {
            match self.commit(Action::ReconcileAndCommit).await? {
                Ok(()) => return Ok(()),
                Err(status) => tracing::info!(
                    device_id = self.device_id,
                    %status,
                    "the NIC cannot keep its entries over a new pipeline"
                ),
            }
        }
        self.commit(Action::VerifyAndCommit)
            .await?
            .map_err(refused(SET))
    }

    async fn commit(&mut self, action: Action) -> Result<Result<(), Status>, OpenError> {
        let request = v1::SetForwardingPipelineConfigRequest {
            device_id: self.device_id,
            role: role::CONTROLLER.to_owned(),
            election_id: Some(self.election.into()),
            action: action.into(),
            config: Some(pipeline::forwarding_config(pipeline::DEVICE_CONFIG)?),
            ..Default::default()
        };
        let client = &mut self.client;
        Ok(self
            .limits
            .within("committing the pipeline", async {
                client.set_forwarding_pipeline_config(request).await
            })
            .await
            .map(|_| ()))
    }
}
