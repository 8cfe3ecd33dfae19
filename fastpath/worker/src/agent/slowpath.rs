//! The SlowPath server: policies in, flows and drops out.

mod answers;
mod carry;
pub mod node;
mod sync;

use std::pin::Pin;
use std::sync::Arc;

use penstock_slowpath_api::v1;
use tokio_stream::Stream;
use tonic::{Request, Response, Status, Streaming};

pub use node::{Facts, Node};

/// The server. Clones serve the same node.
#[derive(Clone, Debug)]
pub struct Server {
    node: Arc<Node>,
}

impl Server {
    /// Serves this node.
    #[must_use]
    pub fn new(node: Arc<Node>) -> Self {
        Self { node }
    }
}

type Answer<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl v1::slow_path_server::SlowPath for Server {
    type SyncPolicyStream = Answer<v1::PolicyStatus>;
    type ListFlowsStream = Answer<v1::Flow>;
    type ExportFlowsStream = Answer<v1::FlowState>;

    async fn get_node(
        &self,
        _: Request<v1::GetNodeRequest>,
    ) -> Result<Response<v1::NodeInfo>, Status> {
        Ok(Response::new(self.node.info()))
    }

    async fn sync_policy(
        &self,
        request: Request<Streaming<v1::PolicyUpdate>>,
    ) -> Result<Response<Self::SyncPolicyStream>, Status> {
        let answers = sync::serve(Arc::clone(&self.node), request.into_inner());
        Ok(Response::new(Box::pin(answers)))
    }

    async fn list_flows(
        &self,
        request: Request<v1::ListFlowsRequest>,
    ) -> Result<Response<Self::ListFlowsStream>, Status> {
        let flows = answers::flows(self.node.lcores(), request.into_inner()).await?;
        let flows = flows.into_iter().map(Ok);
        Ok(Response::new(Box::pin(tokio_stream::iter(flows))))
    }

    async fn list_drops(
        &self,
        request: Request<v1::ListDropsRequest>,
    ) -> Result<Response<v1::ListDropsResponse>, Status> {
        let ruleset = self.node.ruleset();
        let drops =
            answers::drops(self.node.lcores(), ruleset.as_deref(), request.into_inner()).await?;
        Ok(Response::new(drops))
    }

    async fn export_flows(
        &self,
        request: Request<v1::ExportFlowsRequest>,
    ) -> Result<Response<Self::ExportFlowsStream>, Status> {
        let v1::ExportFlowsRequest { port_id } = request.into_inner();
        let port = (port_id != 0).then_some(port_id);
        let flows = carry::export(self.node.lcores().clone(), port);
        Ok(Response::new(Box::pin(flows)))
    }

    async fn import_flows(
        &self,
        request: Request<Streaming<v1::FlowState>>,
    ) -> Result<Response<v1::ImportFlowsResponse>, Status> {
        let answer = carry::import(self.node.lcores(), request.into_inner()).await?;
        Ok(Response::new(answer))
    }
}
