//! The one place where the channel to the controller is made.

use std::time::Duration;

use p4runtime::transport;
use penstock_identity::server::Door;
use penstock_identity::{Credentials, CredentialsError, Files, Identity, Kind, NameError};
use penstock_slowpath_api::v1::slow_path_server::SlowPathServer;
use tokio::net::TcpListener;

use super::{p4rt, slowpath};
use crate::config::{Config, Tls};

/// After a stop, calls have this long to end; streams never would by themselves.
const GRACE: Duration = Duration::from_millis(500);

/// Why nobody can be let in.
#[derive(Debug, thiserror::Error)]
pub enum DoorError {
    /// The files of `[tls]` cannot serve.
    #[error("tls: {0}")]
    Credentials(#[from] CredentialsError),
    /// No certificate can be for this node.
    #[error("node = {node:?} cannot be in a certificate: {source}")]
    Node {
        /// The configured name.
        node: String,
        /// What is wrong with it.
        source: NameError,
    },
    /// The certificate is somebody else's.
    #[error(
        "tls.certificate = {path}: it is for {found}, and this node is {wanted}; give the node's \
         own certificate, or correct `node`"
    )]
    NotOurs {
        /// The file.
        path: String,
        /// Whom it names.
        found: Identity,
        /// Whom it should name.
        wanted: Identity,
    },
}

/// Who may come in: controllers that know this node by its own certificate, or, without
/// `[tls]`, whoever reaches the socket.
///
/// # Errors
/// The certificate, its key and the authority do not work together, or are for another node.
pub fn door(config: &Config) -> Result<Door, DoorError> {
    let Some(tls) = &config.tls else {
        tracing::warn!(
            listen = %config.listen,
            "--insecure: whoever reaches this address programs the node"
        );
        return Ok(Door::open());
    };
    let Tls {
        certificate,
        key,
        client_ca,
    } = tls;
    let wanted = Identity::new(Kind::Node, &config.node).map_err(|source| DoorError::Node {
        node: config.node.clone(),
        source,
    })?;
    let credentials = Credentials::load(&Files {
        ca: client_ca.clone(),
        certificate: certificate.clone(),
        key: key.clone(),
    })?;
    if credentials.identity() != &wanted {
        return Err(DoorError::NotOurs {
            path: certificate.display().to_string(),
            found: credentials.identity().clone(),
            wanted,
        });
    }
    Ok(Door::locked(credentials, &[Kind::Controller]))
}

/// Serves both services, and reflection for people with a client of their own, until
/// `stop` ends.
///
/// # Errors
/// The listener fails.
pub async fn serve(
    listener: TcpListener,
    door: &Door,
    p4rt: p4rt::Server,
    slowpath: slowpath::Server,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let (stopping, mut stopped) = tokio::sync::watch::channel(false);
    let slowpath = SlowPathServer::new(slowpath)
        .max_decoding_message_size(transport::MAX_MESSAGE)
        .max_encoding_message_size(transport::MAX_MESSAGE);
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(penstock_slowpath_api::DESCRIPTORS)
        .register_encoded_file_descriptor_set(p4runtime::p4info::DESCRIPTORS)
        .build_v1()?;
    let (health, health_service) = tonic_health::server::health_reporter();
    health
        .set_serving::<SlowPathServer<slowpath::Server>>()
        .await;
    let server = transport::server()
        .layer(door.guard())
        .add_service(reflection)
        .add_service(health_service)
        .add_service(transport::service(p4rt))
        .add_service(slowpath)
        .serve_with_incoming_shutdown(door.accept(listener), async move {
            drop(stopped.wait_for(|stopping| *stopping).await);
        });
    let grace = async {
        stop.await;
        stopping.send_replace(true);
        tokio::time::sleep(GRACE).await;
    };
    let mut server = std::pin::pin!(server);
    tokio::select! {
        ended = &mut server => Ok(ended?),
        () = grace => Ok(()),
    }
}
