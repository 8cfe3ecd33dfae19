//! One client's stream: arbitration, and refusals of what a soft NIC has no use for.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use p4runtime::election::Id;
use p4runtime::v1;
use p4runtime::v1::stream_message_request::Update;
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

use super::Server;
use super::arbitration::StreamId;
use super::device::{Device, Outbound};

/// Messages that may wait for a client to read them.
const BACKLOG: usize = 64;

type Response = Result<v1::StreamMessageResponse, Status>;

/// Serves the stream until either side ends it.
pub(super) fn serve(
    server: Server,
    mut requests: Streaming<v1::StreamMessageRequest>,
) -> ReceiverStream<Response> {
    let (outbound, answers) = mpsc::channel(BACKLOG);
    tokio::spawn(async move {
        let mut client = Client {
            id: StreamId(server.next_stream.fetch_add(1, Ordering::Relaxed)),
            server,
            outbound,
            device: None,
        };
        let end = client.run(&mut requests).await;
        if let Some(device) = client.device.take() {
            device.leave(client.id).await;
        }
        if let Err(status) = end {
            // The client may be gone, and then wants no reason.
            drop(client.outbound.send(Err(status)).await);
        }
    });
    ReceiverStream::new(answers)
}

struct Client {
    id: StreamId,
    server: Server,
    outbound: Outbound,
    /// Set by the first bid.
    device: Option<Arc<Device>>,
}

impl Client {
    async fn run(
        &mut self,
        requests: &mut Streaming<v1::StreamMessageRequest>,
    ) -> Result<(), Status> {
        loop {
            let request = tokio::select! {
                request = requests.next() => request,
                () = self.outbound.closed() => return Ok(()),
            };
            match request {
                None => return Ok(()),
                // The connection is gone; there is nobody to tell.
                Some(Err(_)) => return Ok(()),
                Some(Ok(request)) => self.handle(request).await?,
            }
        }
    }

    async fn handle(&mut self, request: v1::StreamMessageRequest) -> Result<(), Status> {
        match request.update {
            Some(Update::Arbitration(bid)) => self.bid(bid).await,
            Some(Update::Packet(packet)) => {
                let details = v1::PacketOutError {
                    packet_out: Some(packet),
                };
                self.refuse(
                    "packet_out: the soft NIC originates packets in the worker; it takes none from clients",
                    v1::stream_error::Details::PacketOut(details),
                )
                .await
            }
            Some(Update::DigestAck(ack)) => {
                let details = v1::DigestListAckError {
                    digest_list_ack: Some(ack),
                };
                self.refuse(
                    "digest_ack: this pipeline has no digests",
                    v1::stream_error::Details::DigestListAck(details),
                )
                .await
            }
            Some(Update::Other(other)) => {
                let details = v1::StreamOtherError { other: Some(other) };
                self.refuse(
                    "other: this pipeline has no messages of its own",
                    v1::stream_error::Details::Other(details),
                )
                .await
            }
            None => Err(Status::invalid_argument(
                "update: a message of a kind that this worker does not know",
            )),
        }
    }

    async fn bid(&mut self, bid: v1::MasterArbitrationUpdate) -> Result<(), Status> {
        let v1::MasterArbitrationUpdate {
            device_id,
            role,
            election_id,
            status: _,
        } = bid;
        let device = self.server.device(device_id)?;
        if let Some(before) = &self.device
            && before.id() != device.id()
        {
            return Err(Status::failed_precondition(format!(
                "device_id changed from {} to {device_id}; open another stream for another device",
                before.id()
            )));
        }
        let role = role.unwrap_or_default();
        if role.config.is_some() {
            return Err(Status::unimplemented(
                "role.config: roles are fixed by the pipeline; leave it out",
            ));
        }
        let id = election_id.map(Id::from).unwrap_or_default();
        self.device = Some(Arc::clone(&device));
        device
            .bid(self.id, self.outbound.clone(), role.name, id)
            .await
    }

    async fn refuse(
        &self,
        message: &str,
        details: v1::stream_error::Details,
    ) -> Result<(), Status> {
        let error = v1::StreamError {
            canonical_code: Code::Unimplemented.into(),
            message: message.to_owned(),
            space: "penstock".to_owned(),
            code: 0,
            details: Some(details),
        };
        let response = v1::StreamMessageResponse {
            update: Some(v1::stream_message_response::Update::Error(error)),
        };
        // A client that is gone wants no answer.
        drop(self.outbound.send(Ok(response)).await);
        Ok(())
    }
}
