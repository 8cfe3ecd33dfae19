//! Client and server over a socket: large answers and long error lists arrive
//! whole. With the defaults of the libraries the first is refused, and the second
//! shows as a broken connection.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::pin::Pin;
use std::time::Duration;

use p4runtime::batch::{self, Outcome, Refusal};
use p4runtime::pipeline::{Entry, Table, entity, flow};
use p4runtime::v1::p4_runtime_client::P4RuntimeClient;
use p4runtime::v1::p4_runtime_server::P4Runtime;
use p4runtime::{Bits, transport, update, v1};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_stream::{Stream, StreamExt};
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status, Streaming};

const ENTRIES: u16 = 60_000;

struct Switch;

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl P4Runtime for Switch {
    type ReadStream = Answers<v1::ReadResponse>;
    type StreamChannelStream = Answers<v1::StreamMessageResponse>;

    /// Refuses every second update with a long message.
    async fn write(
        &self,
        request: Request<v1::WriteRequest>,
    ) -> Result<Response<v1::WriteResponse>, Status> {
        let outcomes: Vec<_> = (0..request.get_ref().updates.len())
            .map(|index| match index % 2 {
                0 => Ok(()),
                _ => Err(Refusal::new(Code::InvalidArgument, long_message(index))),
            })
            .collect();
        batch::answer(&outcomes)?;
        Ok(Response::new(v1::WriteResponse::default()))
    }

    /// Answers everything in one message, as bmv2 does.
    async fn read(
        &self,
        _: Request<v1::ReadRequest>,
    ) -> Result<Response<Self::ReadStream>, Status> {
        let entities = (0..ENTRIES).map(|n| entity(entry(n).encode())).collect();
        let answer = v1::ReadResponse { entities };
        Ok(Response::new(Box::pin(tokio_stream::once(Ok(answer)))))
    }

    async fn set_forwarding_pipeline_config(
        &self,
        _: Request<v1::SetForwardingPipelineConfigRequest>,
    ) -> Result<Response<v1::SetForwardingPipelineConfigResponse>, Status> {
        Err(Status::unimplemented("not part of this test"))
    }

    async fn get_forwarding_pipeline_config(
        &self,
        _: Request<v1::GetForwardingPipelineConfigRequest>,
    ) -> Result<Response<v1::GetForwardingPipelineConfigResponse>, Status> {
        Err(Status::unimplemented("not part of this test"))
    }

    async fn stream_channel(
        &self,
        _: Request<Streaming<v1::StreamMessageRequest>>,
    ) -> Result<Response<Self::StreamChannelStream>, Status> {
        Err(Status::unimplemented("not part of this test"))
    }

    async fn capabilities(
        &self,
        _: Request<v1::CapabilitiesRequest>,
    ) -> Result<Response<v1::CapabilitiesResponse>, Status> {
        Ok(Response::new(v1::CapabilitiesResponse {
            p4runtime_api_version: "1.4.0".to_owned(),
            experimental: None,
        }))
    }
}

fn long_message(index: usize) -> String {
    format!("update {index}: {}", "x".repeat(500))
}

fn entry(sport: u16) -> Entry {
    flow::Entry {
        key: flow::Key {
            ingress: 1,
            vpc: Bits::MAX,
            src: u128::MAX,
            dst: u128::MAX - 1,
            proto: 6,
            sport,
            dport: 443,
        },
        action: flow::Action::Forward {
            nexthop_id: 0x0102_0304,
        },
        idle_timeout_ns: 1_000_000_000,
    }
    .into()
}

async fn connect() -> P4RuntimeClient<Channel> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(
        transport::server()
            .add_service(transport::service(Switch))
            .serve_with_incoming(TcpListenerStream::new(listener)),
    );
    let endpoint = transport::endpoint(format!("http://{address}")).unwrap();
    transport::client(endpoint.connect().await.unwrap())
}

/// Nothing here takes seconds; what does, hangs.
async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(Duration::from_secs(20), work).await {
        Ok(done) => done,
        Err(_) => unreachable!("{what} took more than 20 s"),
    }
}

#[tokio::test]
async fn a_read_of_everything_arrives_in_one_message() {
    let mut client = connect().await;
    let request = v1::ReadRequest {
        device_id: 1,
        entities: vec![Table::Flow.read_all()],
        ..Default::default()
    };
    let read = within("the read", async {
        let mut answers = client.read(request).await.unwrap().into_inner();
        let mut entries = Vec::new();
        while let Some(answer) = answers.next().await {
            for entity in answer.unwrap().entities {
                let Some(v1::entity::Entity::TableEntry(found)) = entity.entity else {
                    continue;
                };
                entries.push(Entry::decode(&found).unwrap());
            }
        }
        entries
    })
    .await;
    assert_eq!(read, (0..ENTRIES).map(entry).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_full_batch_of_errors_keeps_its_details() {
    let mut client = connect().await;
    let updates: Vec<_> = (0..batch::MAX_UPDATES as u16)
        .map(|n| update::insert(&entry(n)))
        .collect();
    let request = v1::WriteRequest {
        device_id: 1,
        updates,
        ..Default::default()
    };
    let status = within("the write", client.write(request))
        .await
        .unwrap_err();
    let Outcome::Each(outcomes) = batch::outcome(status.clone(), batch::MAX_UPDATES) else {
        unreachable!("details were lost: {status:?}");
    };
    for (index, outcome) in outcomes.into_iter().enumerate() {
        match index % 2 {
            0 => assert_eq!(outcome, Ok(())),
            _ => assert_eq!(
                outcome,
                Err(Refusal::new(Code::InvalidArgument, long_message(index)))
            ),
        }
    }
}
