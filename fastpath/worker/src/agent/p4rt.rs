//! The P4Runtime server of the node's NICs, one device id each.

pub mod arbitration;
pub mod convert;
pub mod device;
pub mod files;
pub mod pipeline;
pub mod read;
mod stream;
pub mod tables;
pub mod write;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use p4runtime::{batch, v1};
use tokio_stream::Stream;
use tonic::{Request, Response, Status, Streaming};

pub use device::Device;
use read::Query;

/// The version of P4Runtime that is spoken: roles have names since 1.4.
const VERSION: &str = "1.4.1";

/// The server. Clones serve the same devices.
#[derive(Clone, Debug)]
pub struct Server {
    devices: Arc<BTreeMap<u64, Arc<Device>>>,
    next_stream: Arc<AtomicU64>,
}

impl Server {
    /// Serves these devices.
    #[must_use]
    pub fn new(devices: impl IntoIterator<Item = Arc<Device>>) -> Self {
        let by_id = devices.into_iter().map(|d| (u64::from(d.id()), d));
        Self {
            devices: Arc::new(by_id.collect()),
            next_stream: Arc::new(AtomicU64::new(1)),
        }
    }

    fn device(&self, id: u64) -> Result<Arc<Device>, Status> {
        self.devices.get(&id).map(Arc::clone).ok_or_else(|| {
            let known: Vec<_> = self.devices.keys().map(u64::to_string).collect();
            Status::not_found(format!(
                "device_id {id} is no NIC of this node; it has {}",
                known.join(", ")
            ))
        })
    }
}

type Answer<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl v1::p4_runtime_server::P4Runtime for Server {
    type ReadStream = Answer<v1::ReadResponse>;
    type StreamChannelStream = Answer<v1::StreamMessageResponse>;

    async fn write(
        &self,
        request: Request<v1::WriteRequest>,
    ) -> Result<Response<v1::WriteResponse>, Status> {
        let request = request.into_inner();
        let outcomes = self.device(request.device_id)?.write(request).await?;
        batch::answer(&outcomes)?;
        Ok(Response::new(v1::WriteResponse {}))
    }

    async fn read(
        &self,
        request: Request<v1::ReadRequest>,
    ) -> Result<Response<Self::ReadStream>, Status> {
        let v1::ReadRequest {
            device_id,
            // Every role reads everything.
            role: _,
            entities,
        } = request.into_inner();
        let device = self.device(device_id)?;
        let queries: Vec<_> = entities
            .iter()
            .map(Query::decode)
            .collect::<Result<_, _>>()?;
        let entities = device.read(&queries).await?;
        let messages: Vec<_> = entities
            .chunks(read::CHUNK)
            .map(|chunk| {
                Ok(v1::ReadResponse {
                    entities: chunk.to_vec(),
                })
            })
            .collect();
        Ok(Response::new(Box::pin(tokio_stream::iter(messages))))
    }

    async fn set_forwarding_pipeline_config(
        &self,
        request: Request<v1::SetForwardingPipelineConfigRequest>,
    ) -> Result<Response<v1::SetForwardingPipelineConfigResponse>, Status> {
        let request = request.into_inner();
        let device = self.device(request.device_id)?;
        device.set_pipeline(request).await?;
        Ok(Response::new(v1::SetForwardingPipelineConfigResponse {}))
    }

    async fn get_forwarding_pipeline_config(
        &self,
        request: Request<v1::GetForwardingPipelineConfigRequest>,
    ) -> Result<Response<v1::GetForwardingPipelineConfigResponse>, Status> {
        let request = request.into_inner();
        let device = self.device(request.device_id)?;
        let config = device.pipeline(request.response_type).await?;
        Ok(Response::new(v1::GetForwardingPipelineConfigResponse {
            config: Some(config),
        }))
    }

    async fn stream_channel(
        &self,
        request: Request<Streaming<v1::StreamMessageRequest>>,
    ) -> Result<Response<Self::StreamChannelStream>, Status> {
        let answers = stream::serve(self.clone(), request.into_inner());
        Ok(Response::new(Box::pin(answers)))
    }

    async fn capabilities(
        &self,
        _: Request<v1::CapabilitiesRequest>,
    ) -> Result<Response<v1::CapabilitiesResponse>, Status> {
        Ok(Response::new(v1::CapabilitiesResponse {
            p4runtime_api_version: VERSION.to_owned(),
            experimental: None,
        }))
    }
}
