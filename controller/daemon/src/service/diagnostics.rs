//! The Diagnostics service.
//!
//! Explain judges what is accepted, with the very code that workers judge by.
//! Flows and drops are asked of the workers, all at once and each with a
//! deadline: a node that does not answer costs its part, not the answer.

use std::sync::Arc;
use std::time::Duration;

use penstock_api::v1;
use penstock_api::v1::diagnostics_server;
use tokio::sync::watch;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::errors::{invalid_field, quoted};
use crate::dial::Dialer;
use crate::plan::{NodePlan, Plan};

mod convert;
mod explain;
mod relay;

/// How long a node may take to answer.
const DEADLINE: Duration = Duration::from_secs(5);
const DEFAULT_FLOWS: u32 = 10_000;
const DEFAULT_DROPS: u32 = 100;
const MOST_DROPS: u32 = 4096;

/// See the module.
#[derive(Debug)]
pub struct Diagnostics {
    plans: watch::Receiver<Arc<Plan>>,
    dialer: Dialer,
    deadline: Duration,
}

impl Diagnostics {
    /// Serves what is planned; asks workers through `dialer`.
    pub fn new(plans: watch::Receiver<Arc<Plan>>, dialer: Dialer) -> Self {
        Self {
            plans,
            dialer,
            deadline: DEADLINE,
        }
    }

    fn plan(&self) -> Arc<Plan> {
        Arc::clone(&self.plans.borrow())
    }

    fn relay(&self) -> relay::Relay {
        relay::Relay {
            dialer: self.dialer.clone(),
            deadline: self.deadline,
        }
    }
}

/// The nodes that a request asks, and the port that it is about.
fn targets(plan: &Plan, node: &str, port: &str) -> Result<(relay::Nodes, Option<u32>), Status> {
    let mut nodes: Vec<_> = if node.is_empty() {
        plan.nodes
            .iter()
            .map(|(name, plan)| (name.clone(), Arc::clone(plan)))
            .collect()
    } else {
        let found = plan
            .nodes
            .get_key_value(node)
            .ok_or_else(|| Status::not_found(format!("node: {} does not exist", quoted(node))))?;
        vec![(found.0.clone(), Arc::clone(found.1))]
    };
    if port.is_empty() {
        return Ok((nodes, None));
    }
    let hosts = |plan: &NodePlan| {
        let mut ports = plan.policy.ports.iter();
        ports.find(|(_, it)| it.name == port).map(|(id, _)| *id)
    };
    let host = plan.nodes.values().find_map(|plan| hosts(plan));
    let id =
        host.ok_or_else(|| Status::not_found(format!("port: {} does not exist", quoted(port))))?;
    nodes.retain(|(_, plan)| hosts(plan).is_some());
    if nodes.is_empty() {
        return Err(invalid_field(
            "node",
            format!("{port} is not on {node}; leave node empty"),
        ));
    }
    Ok((nodes, Some(id)))
}

#[tonic::async_trait]
impl diagnostics_server::Diagnostics for Diagnostics {
    async fn explain(
        &self,
        request: Request<v1::ExplainRequest>,
    ) -> Result<Response<v1::ExplainResponse>, Status> {
        let plan = self.plan();
        let request = request.into_inner();
        tokio::task::spawn_blocking(move || explain::explain(&plan, &request))
            .await
            .map_err(|error| Status::internal(format!("the question was interrupted: {error}")))?
            .map(Response::new)
    }

    type ListFlowsStream = ReceiverStream<Result<v1::Flow, Status>>;

    async fn list_flows(
        &self,
        request: Request<v1::ListFlowsRequest>,
    ) -> Result<Response<Self::ListFlowsStream>, Status> {
        let request = request.into_inner();
        let limit = match request.limit {
            0 => DEFAULT_FLOWS,
            limit @ 1..=DEFAULT_FLOWS => limit,
            limit => {
                return Err(invalid_field(
                    "limit",
                    format!("{limit} is not between 1 and {DEFAULT_FLOWS}"),
                ));
            }
        };
        let (nodes, port) = targets(&self.plan(), &request.node, &request.port)?;
        Ok(Response::new(self.relay().flows(nodes, port, limit)))
    }

    async fn list_drops(
        &self,
        request: Request<v1::ListDropsRequest>,
    ) -> Result<Response<v1::ListDropsResponse>, Status> {
        let request = request.into_inner();
        let limit = match request.limit {
            0 => DEFAULT_DROPS,
            limit @ 1..=MOST_DROPS => limit,
            limit => {
                return Err(invalid_field(
                    "limit",
                    format!("{limit} is not between 1 and {MOST_DROPS}"),
                ));
            }
        };
        let (nodes, port) = targets(&self.plan(), &request.node, &request.port)?;
        self.relay()
            .drops(nodes, port, limit, request.allowed)
            .await
            .map(Response::new)
    }
}
