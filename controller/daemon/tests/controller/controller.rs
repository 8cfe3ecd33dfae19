//! A controller in this process.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use penstock_api::client::{Client, Options as ClientOptions, connect};
use penstock_api::v1;
use penstock_daemon::node::Limits;
use penstock_daemon::server::{Error, Options, serve};
use penstock_daemon::store::{Embedded, Memory, Store};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::Status;

use crate::waiting::{soon, until};

pub struct Controller {
    pub client: Client,
    pub address: String,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<(), Error>>,
}

/// Short, so that tests are.
pub const LIMITS: Limits = Limits {
    connect: Duration::from_secs(2),
    answer: Duration::from_secs(2),
    period: Duration::from_millis(300),
    first_pause: Duration::from_millis(10),
    longest_pause: Duration::from_millis(100),
};

impl Controller {
    /// On a store that is gone with it.
    pub async fn start() -> Self {
        Self::with_store(Arc::new(Memory::default()), LIMITS).await
    }

    pub async fn in_directory(directory: &Path) -> Self {
        Self::with_store(Arc::new(Embedded::open(directory).unwrap()), LIMITS).await
    }

    pub async fn with_store(store: Arc<dyn Store>, limits: Limits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (stop, stopped) = oneshot::channel();
        let options = Options {
            limits,
            ..Options::default()
        };
        let task = tokio::spawn(serve(listener, store, options, async {
            let _ = stopped.await;
        }));
        let client = connect(ClientOptions {
            server: format!("http://{address}"),
            connect_timeout: Duration::from_secs(5),
            tls: None,
        })
        .await
        .unwrap();
        Self {
            client,
            address,
            stop: Some(stop),
            task,
        }
    }

    /// As on SIGTERM.
    pub async fn stop(mut self) {
        let _ = self.stop.take().unwrap().send(());
        drop(self.client);
        soon("the controller to stop", self.task)
            .await
            .unwrap()
            .unwrap();
    }

    pub async fn apply(&self, resources: Vec<v1::Resource>) -> Result<v1::ApplyResponse, Status> {
        self.apply_request(v1::ApplyRequest {
            resources,
            ..Default::default()
        })
        .await
    }

    pub async fn apply_request(
        &self,
        request: v1::ApplyRequest,
    ) -> Result<v1::ApplyResponse, Status> {
        let mut client = self.client.resources.clone();
        client.apply(request).await.map(tonic::Response::into_inner)
    }

    pub async fn get(&self, name: &str) -> Result<v1::Resource, Status> {
        let mut client = self.client.resources.clone();
        let request = v1::GetRequest {
            name: name.to_owned(),
        };
        client.get(request).await.map(tonic::Response::into_inner)
    }

    pub async fn delete(&self, names: &[&str]) -> Result<v1::DeleteResponse, Status> {
        let mut client = self.client.resources.clone();
        let request = v1::DeleteRequest {
            names: names.iter().map(ToString::to_string).collect(),
            ..Default::default()
        };
        client
            .delete(request)
            .await
            .map(tonic::Response::into_inner)
    }

    /// Everything below `parent`, all pages.
    pub async fn list(&self, parent: &str, kind: &str, page_size: u32) -> Vec<v1::Resource> {
        let mut client = self.client.resources.clone();
        let mut all = Vec::new();
        let mut token = String::new();
        loop {
            let request = v1::ListRequest {
                parent: parent.to_owned(),
                kind: kind.to_owned(),
                page_size,
                page_token: token,
            };
            let page = client.list(request).await.unwrap().into_inner();
            all.extend(page.resources);
            token = page.next_page_token;
            if token.is_empty() {
                return all;
            }
        }
    }

    /// Waits until a condition of a resource has this state.
    pub async fn condition(
        &self,
        name: &str,
        kind: v1::condition::Type,
        state: v1::condition::State,
    ) -> v1::Condition {
        until(&format!("{name} to be {kind:?}={state:?}"), || async {
            let resource = self.get(name).await.ok()?;
            let generation = resource.metadata?.generation;
            let status = resource.status?;
            if status.observed_generation != generation {
                return None;
            }
            let mut conditions = status.conditions.into_iter();
            conditions.find(|it| it.r#type() == kind && it.state() == state)
        })
        .await
    }

    pub async fn programmed(&self, name: &str) -> v1::Condition {
        let kind = v1::condition::Type::Programmed;
        self.condition(name, kind, v1::condition::State::True).await
    }

    pub async fn not_programmed(&self, name: &str, reason: &str) -> v1::Condition {
        until(
            &format!("{name} not to be programmed: {reason}"),
            || async {
                let status = self.get(name).await.ok()?.status?;
                let mut conditions = status.conditions.into_iter();
                conditions.find(|it| {
                    it.r#type() == v1::condition::Type::Programmed
                        && it.state() != v1::condition::State::True
                        && it.reason == reason
                })
            },
        )
        .await
    }
}
