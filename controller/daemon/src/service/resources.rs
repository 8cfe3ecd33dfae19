//! The Resources service.

use std::ops::Bound;
use std::sync::Arc;

use penstock_api::v1;
use penstock_api::v1::resources_server;
use tokio::sync::watch;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::errors::{invalid_field, quoted, status};
use crate::registry::{self, Registry};
use crate::world::{Kind, Row};

mod scope;
mod watching;

use scope::Scope;

const DEFAULT_PAGE: usize = 100;
const LARGEST_PAGE: usize = 1000;

/// See the module.
#[derive(Debug)]
pub struct Resources {
    registry: Arc<Registry>,
    /// Whose turn it is to write: first come, first served.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Turns true when the server stops.
    stopping: watch::Receiver<bool>,
}

impl Resources {
    /// Serves a registry; streams end when `stopping` turns true.
    pub fn new(registry: Arc<Registry>, stopping: watch::Receiver<bool>) -> Self {
        Self {
            registry,
            turn: Arc::default(),
            stopping,
        }
    }

    /// Writes, on a thread of its own. Once begun it finishes even if the client
    /// goes away: half a request is never left behind. A client that goes away
    /// before its turn leaves nothing, or what it gave up could overtake what it
    /// sent instead; and those that wait hold no thread.
    async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Registry) -> Result<T, registry::Error> + Send + 'static,
    ) -> Result<T, Status> {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let registry = Arc::clone(&self.registry);
        let write = move || {
            let _turn = turn;
            work(&registry)
        };
        tokio::task::spawn_blocking(write)
            .await
            .map_err(|error| Status::internal(format!("the request was interrupted: {error}")))?
            .map_err(|error| status(&error))
    }
}

#[tonic::async_trait]
impl resources_server::Resources for Resources {
    async fn apply(
        &self,
        request: Request<v1::ApplyRequest>,
    ) -> Result<Response<v1::ApplyResponse>, Status> {
        let request = request.into_inner();
        let applied = self.write(move |registry| registry.apply(request)).await?;
        let resources = applied
            .rows
            .iter()
            .map(|row| crate::status::show_accepted(row))
            .collect();
        Ok(Response::new(v1::ApplyResponse {
            revision: applied.revision,
            resources,
            changed: applied.changed,
        }))
    }

    async fn get(
        &self,
        request: Request<v1::GetRequest>,
    ) -> Result<Response<v1::Resource>, Status> {
        let name = request.into_inner().name;
        if name.is_empty() {
            return Err(invalid_field("name", "is empty; give a full resource name"));
        }
        let hub = self.registry.hub();
        match hub.world().rows.get(&name) {
            Some(row) => Ok(Response::new(hub.show(row))),
            None => Err(Status::not_found(format!(
                "{} does not exist",
                quoted(&name)
            ))),
        }
    }

    async fn list(
        &self,
        request: Request<v1::ListRequest>,
    ) -> Result<Response<v1::ListResponse>, Status> {
        let request = request.into_inner();
        let scope = Scope::new(&request.parent, &request.kind)?;
        let page_size = match usize::try_from(request.page_size).unwrap_or(usize::MAX) {
            0 => DEFAULT_PAGE,
            size @ 1..=LARGEST_PAGE => size,
            size => {
                return Err(invalid_field(
                    "page_size",
                    format!("{size} is not between 1 and {LARGEST_PAGE}"),
                ));
            }
        };
        let after = scope.open_token(&request.page_token)?;
        let hub = self.registry.hub();
        let world = hub.world();
        let start = match &after {
            Some(last) => Bound::Excluded(last.as_str()),
            None => Bound::Included(scope.first()),
        };
        let mut rows = world
            .rows
            .range::<str, _>((start, Bound::Unbounded))
            .map(|(_, row)| row)
            .take_while(|row| row.name().starts_with(scope.first()))
            .filter(|row| scope.contains(row));
        let page: Vec<&Arc<Row>> = rows.by_ref().take(page_size).collect();
        let next_page_token = match (rows.next(), page.last()) {
            (Some(_), Some(last)) => scope.token(last.name()),
            _ => String::new(),
        };
        Ok(Response::new(v1::ListResponse {
            resources: page.into_iter().map(|row| hub.show(row)).collect(),
            next_page_token,
            revision: world.revision,
        }))
    }

    async fn delete(
        &self,
        request: Request<v1::DeleteRequest>,
    ) -> Result<Response<v1::DeleteResponse>, Status> {
        let request = request.into_inner();
        let deleted = self
            .write(move |registry| registry.delete(&request))
            .await?;
        Ok(Response::new(v1::DeleteResponse {
            revision: deleted.revision,
            deleted: deleted.deleted,
        }))
    }

    type WatchStream = ReceiverStream<Result<v1::Event, Status>>;

    async fn watch(
        &self,
        request: Request<v1::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let request = request.into_inner();
        let scope = Scope::new(&request.parent, &request.kind)?;
        let stream = watching::start(self.registry.hub().view(), scope, self.stopping.clone())?;
        Ok(Response::new(stream))
    }
}

/// The kind that a request names, if any.
fn kind(name: &str) -> Result<Option<Kind>, Status> {
    if name.is_empty() {
        return Ok(None);
    }
    Kind::ALL
        .into_iter()
        .find(|kind| kind.name() == name)
        .map(Some)
        .ok_or_else(|| {
            let names: Vec<_> = Kind::ALL.into_iter().map(Kind::name).collect();
            invalid_field(
                "kind",
                format!(
                    "{name:?} is none of {}; or leave it empty",
                    names.join(", ")
                ),
            )
        })
}
