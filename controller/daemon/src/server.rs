//! The whole controller, put together.
//!
//! [`serve`] is the only place that knows every part. The socket, the store and
//! the moment to stop come from the caller, so tests run what production runs.

use std::sync::Arc;
use std::time::Duration;

use penstock_api::v1::diagnostics_server::DiagnosticsServer;
use penstock_api::v1::resources_server::ResourcesServer;
use penstock_identity::server::Door;
use penstock_identity::{Credentials, Kind};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::transport::Server;

use crate::dial::Dialer;
use crate::election::Elections;
use crate::node::{self, Limits};
use crate::plan::{self, Plan};
use crate::registry::{MESSAGE_LIMIT, Registry};
use crate::service::{Diagnostics, Resources};
use crate::status::{Board, board};
use crate::store::{self, Store};
use crate::world::LoadError;

/// After the signal, calls in progress have so long to end.
const GRACE: Duration = Duration::from_secs(5);

/// Why the controller does not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What is stored cannot be served.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// A task of the start was interrupted.
    #[error("starting was interrupted: {0}")]
    Interrupted(#[from] tokio::task::JoinError),
    /// The server failed.
    #[error("serving failed: {0}")]
    Serve(#[from] tonic::transport::Error),
    /// The reflection service cannot be built.
    #[error("the API's description is unreadable: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
}

/// What may differ between installations.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Who we are and whom we trust, towards clients and workers alike. Without, whoever
    /// reaches the listener is served, and only workers on this machine are dialled.
    pub credentials: Option<Credentials>,
    /// How long things with workers may take.
    pub limits: Limits,
}

/// Serves until `stop` ends, then lets calls in progress end and returns.
///
/// # Errors
/// When the store cannot be loaded, or the server fails.
pub async fn serve(
    listener: TcpListener,
    store: Arc<dyn Store>,
    options: Options,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), Error> {
    let (dialer, door) = match options.credentials {
        Some(credentials) => (
            Dialer::new(credentials.clone()),
            Door::locked(credentials, &[Kind::Operator, Kind::Controller]),
        ),
        None => (Dialer::default(), Door::open()),
    };
    let (registry, elections) = tokio::task::spawn_blocking(move || {
        let registry = Arc::new(Registry::open(store)?);
        let elections = Arc::new(Elections::start(Arc::clone(&registry))?);
        Ok::<_, Error>((registry, elections))
    })
    .await??;
    let hub = Arc::clone(registry.hub());
    let first = Arc::new(Plan::default());
    let (plan_sender, plans) = watch::channel(first);
    let board = Arc::new(Board::default());
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(plan::follow(Arc::clone(&hub), plan_sender));
    tasks.spawn(board::publish(
        Arc::clone(&board),
        Arc::clone(&hub),
        plans.clone(),
    ));
    tasks.spawn(node::supervise(node::Context {
        dialer: dialer.clone(),
        elections,
        board,
        plans: plans.clone(),
        limits: options.limits,
    }));

    let (stopping_sender, stopping) = watch::channel(false);
    let (health, health_service) = tonic_health::server::health_reporter();
    let resources = ResourcesServer::new(Resources::new(registry, stopping.clone()))
        .max_decoding_message_size(MESSAGE_LIMIT)
        .max_encoding_message_size(MESSAGE_LIMIT);
    let diagnostics = DiagnosticsServer::new(Diagnostics::new(plans, dialer))
        .max_decoding_message_size(MESSAGE_LIMIT)
        .max_encoding_message_size(MESSAGE_LIMIT);
    health.set_serving::<ResourcesServer<Resources>>().await;
    health.set_serving::<DiagnosticsServer<Diagnostics>>().await;
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(penstock_api::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };

    let server = Server::builder()
        .http2_keepalive_interval(Some(Duration::from_secs(20)))
        .http2_keepalive_timeout(Some(Duration::from_secs(10)))
        .layer(door.guard())
        .add_service(health_service)
        .add_service(reflection().build_v1()?)
        // Older clients, and Python's, ask in this version only.
        .add_service(reflection().build_v1alpha()?)
        .add_service(resources)
        .add_service(diagnostics);
    let incoming = door.accept(listener);
    let mut stopped = stopping.clone();
    let serving = server.serve_with_incoming_shutdown(incoming, async move {
        // An error means that the sender is gone, which is a stop as well.
        let _ = stopped.wait_for(|stopping| *stopping).await;
    });
    tokio::pin!(serving);
    tokio::select! {
        result = &mut serving => return Ok(result?),
        () = stop => {}
    }
    tracing::info!("stopping");
    health.set_not_serving::<ResourcesServer<Resources>>().await;
    health
        .set_not_serving::<DiagnosticsServer<Diagnostics>>()
        .await;
    stopping_sender.send_replace(true);
    match tokio::time::timeout(GRACE, serving).await {
        Ok(result) => result?,
        Err(_) => tracing::warn!(after = ?GRACE, "gave up waiting for calls to end"),
    }
    tasks.shutdown().await;
    Ok(())
}
