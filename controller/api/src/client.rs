//! A connection to a controller: bounded in time, with room for large sets.

use std::time::Duration;

use penstock_identity::client::{Client as TlsClient, Expected};
use penstock_identity::{Credentials, Kind};
use tonic::transport::{Channel, Endpoint};

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
    /// Who we are, and the authority of the controller; for `https` only.
    pub tls: Option<Credentials>,
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
    /// We and the server do not agree on who is who.
    #[error("{0}")]
    Identity(penstock_identity::client::ConnectError),
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
    // TLS is not tonic's: to it, this is a plain endpoint.
    let endpoint = Endpoint::from_shared(server.replacen("https://", "http://", 1))
        .map_err(|_| ConnectError::Address {
            server: server.clone(),
        })?
        .connect_timeout(connect_timeout)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(Duration::from_secs(15))
        .keep_alive_timeout(Duration::from_secs(15))
        .keep_alive_while_idle(true);
    // The endpoint's own limit does not cover the TLS handshake.
    let channel = match (encrypted, tls) {
        (true, Some(credentials)) => {
            let address = host_and_port(&endpoint).ok_or(ConnectError::Address {
                server: server.clone(),
            })?;
            // Whichever controller is behind the address: they all serve the same.
            let client = TlsClient::new(credentials, Expected::Any(Kind::Controller));
            let connecting = client.channel(endpoint, &address);
            tokio::time::timeout(connect_timeout, connecting)
                .await
                .map(|connected| connected.map_err(identity))
        }
        (false, None) => tokio::time::timeout(connect_timeout, endpoint.connect())
            .await
            .map(|connected| {
                connected.map_err(|error| ConnectError::Unreachable {
                    server: server.clone(),
                    cause: innermost(&error),
                })
            }),
        (true, None) => {
            let problem =
                "needs our certificate and key and the authority of the server; give them";
            return Err(ConnectError::Scheme { server, problem });
        }
        (false, Some(_)) => {
            let problem = "is not encrypted, but TLS files are given; write https://";
            return Err(ConnectError::Scheme { server, problem });
        }
    };
    let channel = channel.unwrap_or_else(|_| {
        Err(ConnectError::Unreachable {
            server,
            cause: format!("no answer within {connect_timeout:?}"),
        })
    })?;
    Ok(Client {
        resources: ResourcesClient::new(channel.clone())
            .max_decoding_message_size(MESSAGE_LIMIT)
            .max_encoding_message_size(MESSAGE_LIMIT),
        diagnostics: DiagnosticsClient::new(channel)
            .max_decoding_message_size(MESSAGE_LIMIT)
            .max_encoding_message_size(MESSAGE_LIMIT),
    })
}

/// What is dialled for a URL; the port may be left out.
fn host_and_port(endpoint: &Endpoint) -> Option<String> {
    let authority = endpoint.uri().authority()?;
    let port = authority.port_u16().unwrap_or(443);
    Some(format!("{}:{port}", authority.host()))
}

fn identity(error: penstock_identity::client::ConnectError) -> ConnectError {
    use penstock_identity::client::ConnectError as E;
    match error {
        E::Reach { address, source } => ConnectError::Unreachable {
            server: address,
            cause: source.to_string(),
        },
        other => ConnectError::Identity(other),
    }
}

/// The last of a chain of causes: "Connection refused", not "transport error".
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(cause) = error.source() {
        error = cause;
    }
    error.to_string()
}
