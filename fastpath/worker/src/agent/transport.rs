//! The one place where the channel to the controller is made.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use p4runtime::transport;
use penstock_slowpath_api::v1::slow_path_server::SlowPathServer;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Certificate, Identity, ServerTlsConfig};

use super::{p4rt, slowpath};
use crate::config::Tls;

/// After a stop, calls have this long to end; streams never would by themselves.
const GRACE: Duration = Duration::from_millis(500);

/// Why TLS cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("tls.{field} = {path}: {source}")]
pub struct TlsError {
    field: &'static str,
    path: String,
    source: std::io::Error,
}

/// The worker's identity, and whose clients it trusts: both sides show a certificate.
///
/// # Errors
/// A file cannot be read.
pub fn tls(config: &Tls) -> Result<ServerTlsConfig, TlsError> {
    let read = |field, path: &Path| {
        std::fs::read(path).map_err(|source| TlsError {
            field,
            path: path.display().to_string(),
            source,
        })
    };
    let certificate = read("certificate", &config.certificate)?;
    let key = read("key", &config.key)?;
    let client_ca = read("client_ca", &config.client_ca)?;
    Ok(ServerTlsConfig::new()
        .identity(Identity::from_pem(certificate, key))
        .client_ca_root(Certificate::from_pem(client_ca)))
}

/// Serves both services, and reflection for people with a client of their own, until
/// `stop` ends.
///
/// # Errors
/// The listener fails, or the identity is not usable.
pub async fn serve(
    listener: TcpListener,
    tls: Option<ServerTlsConfig>,
    p4rt: p4rt::Server,
    slowpath: slowpath::Server,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let (stopping, mut stopped) = tokio::sync::watch::channel(false);
    let slowpath = SlowPathServer::new(slowpath)
        .max_decoding_message_size(transport::MAX_MESSAGE)
        .max_encoding_message_size(transport::MAX_MESSAGE);
    let mut server = transport::server();
    if let Some(tls) = tls {
        server = server
            .tls_config(tls)
            .context("tls: certificate, key and client_ca do not work together")?;
    }
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(penstock_slowpath_api::DESCRIPTORS)
        .register_encoded_file_descriptor_set(p4runtime::p4info::DESCRIPTORS)
        .build_v1()?;
    let (health, health_service) = tonic_health::server::health_reporter();
    health
        .set_serving::<SlowPathServer<slowpath::Server>>()
        .await;
    let server = server
        .add_service(reflection)
        .add_service(health_service)
        .add_service(transport::service(p4rt))
        .add_service(slowpath)
        .serve_with_incoming_shutdown(TcpListenerStream::new(listener), async move {
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
