//! Asking workers.

use std::sync::Arc;
use std::time::Duration;

use penstock_api::v1;
use penstock_slowpath_api::v1 as worker;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};

use super::convert;
use crate::dial::{self, Dialer};
use crate::plan::NodePlan;

/// Flows under way to a client.
const QUEUE: usize = 256;

/// Nodes and what is planned for them.
pub(super) type Nodes = Vec<(String, Arc<NodePlan>)>;

/// How to ask.
#[derive(Clone, Debug)]
pub(super) struct Relay {
    pub(super) dialer: Dialer,
    pub(super) deadline: Duration,
}

impl Relay {
    /// Flows of all nodes as they come; then, if some node did not answer, an
    /// error that says which.
    pub(super) fn flows(
        self,
        nodes: Nodes,
        port: Option<u32>,
        limit: u32,
    ) -> ReceiverStream<Result<v1::Flow, Status>> {
        let (sender, receiver) = mpsc::channel(QUEUE);
        tokio::spawn(async move {
            let asked = nodes.len();
            let mut asking = JoinSet::new();
            for (name, plan) in nodes {
                let relay = self.clone();
                let sender = sender.clone();
                asking.spawn(async move {
                    let answer = relay.flows_of(&name, &plan, port, limit, &sender).await;
                    answer.map_err(|status| (name, status))
                });
            }
            let failed = gather(asking).await.1;
            if let Some(status) = incomplete(asked, failed) {
                // The client has gone: nobody to tell.
                let _ = sender.send(Err(status)).await;
            }
        });
        ReceiverStream::new(receiver)
    }

    async fn flows_of(
        &self,
        name: &str,
        plan: &NodePlan,
        port: Option<u32>,
        limit: u32,
        sender: &mpsc::Sender<Result<v1::Flow, Status>>,
    ) -> Result<(), Status> {
        let request = worker::ListFlowsRequest {
            port_id: port.unwrap_or(0),
            limit,
        };
        let mut client = self.client(plan).await?;
        let mut flows = self
            .within(async { client.list_flows(request).await })
            .await?
            .into_inner();
        // Each flow within the deadline, not all of them: the client may be slow.
        while let Some(flow) = self.within(flows.message()).await? {
            if sender
                .send(Ok(convert::flow(name, plan, flow)))
                .await
                .is_err()
            {
                break;
            }
        }
        Ok(())
    }

    /// Drops of all nodes that answer. A node that does not is a counter named
    /// `unavailable` with its reason as a drop; none at all is an error.
    pub(super) async fn drops(
        self,
        nodes: Nodes,
        port: Option<u32>,
        limit: u32,
        allowed: bool,
    ) -> Result<v1::ListDropsResponse, Status> {
        let asked = nodes.len();
        let mut asking = JoinSet::new();
        for (name, plan) in nodes {
            let relay = self.clone();
            asking.spawn(async move {
                let answer = relay.drops_of(&name, &plan, port, limit, allowed).await;
                answer.map_err(|status| (name, status))
            });
        }
        let (answers, failed) = gather(asking).await;
        if asked > 0 && answers.is_empty() {
            return Err(incomplete(asked, failed)
                .unwrap_or_else(|| Status::unavailable("no node has answered")));
        }
        let mut response = v1::ListDropsResponse::default();
        for mut answer in answers {
            response.counters.append(&mut answer.counters);
            response.drops.append(&mut answer.drops);
        }
        for (node, status) in failed {
            response.drops.push(v1::Drop {
                node,
                reason: UNAVAILABLE.to_owned(),
                explanation: format!("this node has not answered: {}", status.message()),
                ..v1::Drop::default()
            });
        }
        response
            .counters
            .sort_by(|a, b| (&a.node, &a.reason).cmp(&(&b.node, &b.reason)));
        response.drops.sort_by_key(|drop| drop.age_ns);
        Ok(response)
    }

    async fn drops_of(
        &self,
        name: &str,
        plan: &NodePlan,
        port: Option<u32>,
        limit: u32,
        allowed: bool,
    ) -> Result<v1::ListDropsResponse, Status> {
        let request = worker::ListDropsRequest {
            port_id: port.unwrap_or(0),
            limit,
            allowed,
        };
        let mut client = self.client(plan).await?;
        let worker::ListDropsResponse { counters, drops } = self
            .within(async { client.list_drops(request).await })
            .await?
            .into_inner();
        Ok(v1::ListDropsResponse {
            counters: counters
                .into_iter()
                .map(|counter| v1::DropCounter {
                    node: name.to_owned(),
                    reason: counter.reason,
                    packets: counter.packets,
                })
                .collect(),
            drops: drops
                .into_iter()
                .map(|drop| convert::drop(name, plan, drop))
                .collect(),
        })
    }

    async fn client(
        &self,
        plan: &NodePlan,
    ) -> Result<worker::slow_path_client::SlowPathClient<tonic::transport::Channel>, Status> {
        let channel = self
            .dialer
            .connect(plan.node.as_str(), &plan.address, self.deadline)
            .await
            .map_err(|error| Status::unavailable(error.to_string()))?;
        Ok(dial::slow_path(channel))
    }

    async fn within<T>(&self, call: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
        tokio::time::timeout(self.deadline, call)
            .await
            .unwrap_or_else(|_| {
                Err(Status::deadline_exceeded(format!(
                    "no answer within {:?}",
                    self.deadline
                )))
            })
    }
}

/// The reason of the drop that stands for a node that has not answered.
const UNAVAILABLE: &str = "node_unavailable";

async fn gather<T: 'static>(
    mut asking: JoinSet<Result<T, (String, Status)>>,
) -> (Vec<T>, Vec<(String, Status)>) {
    let (mut answers, mut failed) = (Vec::new(), Vec::new());
    while let Some(joined) = asking.join_next().await {
        match joined {
            Ok(Ok(answer)) => answers.push(answer),
            Ok(Err(failure)) => failed.push(failure),
            Err(error) => {
                failed.push(("(unknown)".to_owned(), Status::internal(error.to_string())))
            }
        }
    }
    failed.sort_by(|a, b| a.0.cmp(&b.0));
    (answers, failed)
}

fn incomplete(asked: usize, failed: Vec<(String, Status)>) -> Option<Status> {
    let (first, rest) = failed.split_first()?;
    let mut message = format!(
        "{} of {asked} nodes have not answered; {}: {}",
        failed.len(),
        first.0,
        first.1.message()
    );
    if !rest.is_empty() {
        let names: Vec<_> = rest
            .iter()
            .take(20)
            .map(|(name, _)| name.as_str())
            .collect();
        message.push_str(&format!("; also {}", names.join(", ")));
    }
    Some(Status::new(Code::Unavailable, message))
}
