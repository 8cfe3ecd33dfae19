//! A connection to a controller: bounded in time, with room for large sets.

use std::time::Duration;

use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use crate::MESSAGE_LIMIT;
use crate::v1::diagnostics_client::DiagnosticsClient;
use crate::v1::resources_client::ResourcesClient;

/// Whom to call, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// `http://HOST:PORT` or `https://HOST:PORT`.
    pub server: String,
    /// Longest time to connect.
    pub connect_timeout: Duration,
    /// Who we are and whom we trust; for `https` only.
    pub tls: Option<Tls>,
}

/// Mutual TLS, as PEM.
#[derive(Clone)]
pub struct Tls {
    /// The authority that vouches for the server.
    pub ca: Vec<u8>,
    /// Our certificate and key, if the server asks for one.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The key stays out of logs.
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

/// Both services of one controller.
#[derive(Clone, Debug)]
pub struct Client {
    /// Declares and reads.
    pub resources: ResourcesClient<Channel>,
    /// Answers why.
    pub diagnostics: DiagnosticsClient<Channel>,
}

/// No connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Not a URL.
    #[error("{server:?} is no server address; write http://HOST:PORT or https://HOST:PORT")]
    Address {
        /// As given.
        server: String,
    },
    /// A https URL without anyone to trust, or the reverse.
    #[error("{server} {problem}")]
    Scheme {
        /// As given.
        server: String,
        /// What does not go together.
        problem: &'static str,
    },
    /// The certificates cannot be used.
    #[error("cannot use the TLS files: {0}; they must be PEM")]
    Tls(tonic::transport::Error),
    /// Nobody answers.
    #[error("cannot reach {server}: {cause}; is penstockd running there?")]
    Unreachable {
        /// As given.
        server: String,
        /// The innermost reason.
        cause: String,
    },
}

/// Connects now, so that a wrong address shows at once.
///
/// # Errors
/// If the address has no meaning, or nobody answers in time.
pub async fn connect(options: Options) -> Result<Client, ConnectError> {
    let Options {
        server,
        connect_timeout,
        tls,
    } = options;
    let encrypted = match server.split_once("://") {
        Some(("http", _)) => false,
        Some(("https", _)) => true,
        _ => return Err(ConnectError::Address { server }),
    };
    let mut endpoint = Endpoint::from_shared(server.clone())
        .map_err(|_| ConnectError::Address {
            server: server.clone(),
        })?
        .connect_timeout(connect_timeout)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(Duration::from_secs(15))
        .keep_alive_timeout(Duration::from_secs(15))
        .keep_alive_while_idle(true);
    match (encrypted, tls) {
        (true, Some(Tls { ca, identity })) => {
            let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca));
            if let Some((certificate, key)) = identity {
                config = config.identity(Identity::from_pem(certificate, key));
            }
            endpoint = endpoint.tls_config(config).map_err(ConnectError::Tls)?;
        }
        (false, None) => {}
        (true, None) => {
            let problem = "needs the certificate authority of the server; give it";
            return Err(ConnectError::Scheme { server, problem });
        }
        (false, Some(_)) => {
            let problem = "is not encrypted, but TLS files are given; write https://";
            return Err(ConnectError::Scheme { server, problem });
        }
    }
    // The endpoint's own limit does not cover the TLS handshake.
    let connected = match tokio::time::timeout(connect_timeout, endpoint.connect()).await {
        Ok(Ok(channel)) => Ok(channel),
        Ok(Err(e)) => Err(innermost(&e)),
        Err(_) => Err(format!("no answer within {connect_timeout:?}")),
    };
    let channel = connected.map_err(|cause| ConnectError::Unreachable { server, cause })?;
    Ok(Client {
        resources: ResourcesClient::new(channel.clone())
            .max_decoding_message_size(MESSAGE_LIMIT)
            .max_encoding_message_size(MESSAGE_LIMIT),
        diagnostics: DiagnosticsClient::new(channel)
            .max_decoding_message_size(MESSAGE_LIMIT)
            .max_encoding_message_size(MESSAGE_LIMIT),
    })
}

/// The last of a chain of causes: "Connection refused", not "transport error".
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(cause) = error.source() {
        error = cause;
    }
    error.to_string()
}
