//! The dialling end.

mod stream;
mod verifier;

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, Error as TlsError};
use tokio::net::TcpStream;
use tonic::transport::{Channel, Endpoint};

pub use stream::Stream;
pub(crate) use verifier::verify_server;
use verifier::{Presented, Verifier};

use crate::{Credentials, Identity, Kind, reason};

/// A server that has not spoken by then after the handshake waits for us to begin.
const FIRST_WORD: Duration = Duration::from_secs(2);

/// Who must be at the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// This one, whatever address it has.
    Exactly(Identity),
    /// Anyone of this kind.
    Any(Kind),
}

impl Expected {
    fn accepts(&self, found: &Identity) -> bool {
        match self {
            Self::Exactly(wanted) => found == wanted,
            Self::Any(kind) => found.kind() == *kind,
        }
    }

    /// What is asked for in the handshake, where one address serves many names.
    fn server_name(&self) -> String {
        match self {
            Self::Exactly(wanted) => wanted.dns_name(),
            Self::Any(kind) => format!("{kind}.penstock"),
        }
    }
}

impl std::fmt::Display for Expected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exactly(wanted) => wanted.fmt(f),
            Self::Any(kind) => write!(f, "any {kind}"),
        }
    }
}

/// Why there is no connection.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ConnectError {
    /// Nobody answers.
    #[error("cannot connect to {address}: {source}")]
    Reach {
        /// Where.
        address: String,
        /// What the system says.
        source: Arc<std::io::Error>,
    },
    /// Somebody else is there.
    #[error("{address} presented a certificate of {presented}, where {expected} must be: {why}")]
    Refused {
        /// Where.
        address: String,
        /// Whom its certificate names.
        presented: String,
        /// Who should have been there.
        expected: Expected,
        /// What is wrong and what to do.
        why: String,
    },
    /// They do not want us.
    #[error("{address} refused our certificate of {ours}: {why}; its log says more")]
    RefusedUs {
        /// Where.
        address: String,
        /// As whom we came.
        ours: Identity,
        /// What they said.
        why: String,
    },
    /// Something else speaks there.
    #[error(
        "{address} does not speak TLS; start the server there with its certificate, or \
         correct the address"
    )]
    NotTls {
        /// Where.
        address: String,
    },
    /// TLS, and yet no agreement.
    #[error("{address}: no agreement on TLS: {why}")]
    Handshake {
        /// Where.
        address: String,
        /// What was said.
        why: String,
    },
    /// gRPC cannot begin.
    #[error("{address}: {why}")]
    Channel {
        /// Where.
        address: String,
        /// What was said.
        why: String,
    },
}

/// Connects as somebody, to somebody.
#[derive(Clone, Debug)]
pub struct Client {
    credentials: Credentials,
    expected: Expected,
}

impl Client {
    /// Shows these credentials, and talks to nobody but `expected`.
    #[must_use]
    pub const fn new(credentials: Credentials, expected: Expected) -> Self {
        Self {
            credentials,
            expected,
        }
    }

    /// Opens a channel to `address` (`HOST:PORT`) with the settings of `endpoint`, whose
    /// URI is not dialled, and has to be `http`: TLS is none of its business. A channel that is lost dials again, with the same checks.
    ///
    /// # Errors
    /// Nobody is there, or somebody else, or they refuse us.
    pub async fn channel(
        &self,
        endpoint: Endpoint,
        address: &str,
    ) -> Result<Channel, ConnectError> {
        let this = self.clone();
        let to = address.to_owned();
        let connector = tower::service_fn(move |_| {
            let (this, to) = (this.clone(), to.clone());
            async move { this.connect(&to).await.map(TokioIo::new) }
        });
        let origin = format!("https://{address}").parse().map_err(|error| {
            let why = format!("not HOST:PORT: {error}");
            let address = address.to_owned();
            ConnectError::Channel { address, why }
        })?;
        endpoint
            .origin(origin)
            .connect_with_connector(connector)
            .await
            .map_err(|error| unwrap(error, address))
    }

    /// One connection over which both ends have accepted each other.
    ///
    /// In TLS 1.3 a client is done before the server has looked at its certificate. So
    /// this waits for the server's first word, which in HTTP/2 needs no question.
    ///
    /// # Errors
    /// As for [`Self::channel`].
    pub async fn connect(&self, address: &str) -> Result<Stream, ConnectError> {
        let presented = Presented::default();
        let config = self.config(&presented).map_err(|error| {
            let (address, why) = (address.to_owned(), error.to_string());
            ConnectError::Handshake { address, why }
        })?;
        let server_name = ServerName::try_from(self.expected.server_name()).map_err(|error| {
            let (address, why) = (address.to_owned(), error.to_string());
            ConnectError::Handshake { address, why }
        })?;
        let socket = TcpStream::connect(address)
            .await
            .and_then(|socket| socket.set_nodelay(true).map(|()| socket))
            .map_err(|source| ConnectError::Reach {
                address: address.to_owned(),
                source: Arc::new(source),
            })?;
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let mut stream = match connector.connect(server_name, socket).await {
            Ok(stream) => Stream::new(stream),
            Err(error) => return Err(self.explain(&error, address, &presented)),
        };
        match tokio::time::timeout(FIRST_WORD, stream.listen()).await {
            Ok(Ok(())) | Err(_) => Ok(stream),
            Ok(Err(error)) => Err(self.explain(&error, address, &presented)),
        }
    }

    fn config(&self, presented: &Presented) -> Result<ClientConfig, TlsError> {
        let credentials = &self.credentials;
        let verifier = Verifier {
            credentials: credentials.clone(),
            expected: self.expected.clone(),
            presented: presented.clone(),
        };
        let mut config = ClientConfig::builder_with_provider(Arc::clone(&credentials.provider))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_client_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(Arc::clone(
                &credentials.key,
            ))));
        config.alpn_protocols = vec![b"h2".to_vec()];
        // A resumed session would not be verified again.
        config.resumption = rustls::client::Resumption::disabled();
        Ok(config)
    }

    fn explain(
        &self,
        error: &std::io::Error,
        address: &str,
        presented: &Presented,
    ) -> ConnectError {
        let address = address.to_owned();
        let ours = self.credentials.identity.clone();
        match reason::tls(error) {
            Some(TlsError::InvalidCertificate(error)) => ConnectError::Refused {
                address,
                presented: presented.who(),
                expected: self.expected.clone(),
                why: presented
                    .why()
                    .unwrap_or_else(|| reason::certificate(error)),
            },
            Some(TlsError::AlertReceived(alert)) => {
                let why = reason::alert(*alert);
                match presented.accepted() {
                    true => ConnectError::RefusedUs { address, ours, why },
                    false => ConnectError::Handshake { address, why },
                }
            }
            Some(TlsError::InvalidMessage(_)) => ConnectError::NotTls { address },
            Some(other) => ConnectError::Handshake {
                address,
                why: other.to_string(),
            },
            None if presented.accepted() => ConnectError::RefusedUs {
                address,
                ours,
                why: error.to_string(),
            },
            // What knows no TLS hangs up.
            None if matches!(
                error.kind(),
                ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset
            ) =>
            {
                ConnectError::NotTls { address }
            }
            None => ConnectError::Handshake {
                address,
                why: error.to_string(),
            },
        }
    }
}

/// Our own error, out of what tonic has wrapped it in; or what it says itself.
fn unwrap(error: tonic::transport::Error, address: &str) -> ConnectError {
    use std::error::Error as _;
    let address = address.to_owned();
    let mut why = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(ours) = error.downcast_ref::<ConnectError>() {
            return ours.clone();
        }
        why = format!("{why}: {error}");
        cause = error.source();
    }
    ConnectError::Channel { address, why }
}
