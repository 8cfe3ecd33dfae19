//! The listening end.

mod connection;
mod guard;
mod hello;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::SingleCertAndKey;
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error as TlsError, ServerConfig,
    SignatureScheme,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;

pub use connection::{Connection, Peer};
pub use guard::Guard;
use hello::Hello;

use crate::{Credentials, Identity, Kind, reason};

/// A client that has not said who it is by then is dropped.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Handshakes at a time; who comes later waits in the kernel's queue.
const HANDSHAKES: usize = 256;
/// Connections that have been let in and wait for the server.
const BACKLOG: usize = 64;
/// Without memory or descriptors for a connection, wait for some.
const SHORTAGE: Duration = Duration::from_millis(100);

/// Who may come in.
#[derive(Clone, Debug)]
pub struct Door {
    lock: Option<(Credentials, &'static [Kind])>,
}

impl Door {
    /// Whoever reaches the socket. The caller binds it where only this machine can.
    #[must_use]
    pub const fn open() -> Self {
        Self { lock: None }
    }

    /// Those of these kinds, from our own authority, who see who we are in turn.
    #[must_use]
    pub const fn locked(credentials: Credentials, admits: &'static [Kind]) -> Self {
        Self {
            lock: Some((credentials, admits)),
        }
    }

    /// Turns away calls of kinds that are not admitted, and says so to them: the layer
    /// that every service of the server is behind.
    #[must_use]
    pub fn guard(&self) -> tonic::service::InterceptorLayer<Guard> {
        let lock = self
            .lock
            .as_ref()
            .map(|(credentials, admits)| (credentials.identity.clone(), *admits));
        tonic::service::InterceptorLayer::new(Guard { lock })
    }

    /// Accepts until the stream is dropped. Handshakes go on beside each other, so that a
    /// silent client delays nobody. Needs a tokio runtime.
    #[must_use]
    pub fn accept(&self, listener: TcpListener) -> ReceiverStream<io::Result<Connection>> {
        let (sender, receiver) = mpsc::channel(BACKLOG);
        let credentials = self
            .lock
            .as_ref()
            .map(|(credentials, _)| credentials.clone());
        tokio::spawn(accept(listener, credentials, sender));
        ReceiverStream::new(receiver)
    }
}

async fn accept(
    listener: TcpListener,
    credentials: Option<Credentials>,
    sender: mpsc::Sender<io::Result<Connection>>,
) {
    let mut handshakes = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = sender.closed() => return,
            Some(_) = handshakes.join_next() => continue,
            accepted = listener.accept(), if handshakes.len() < HANDSHAKES => accepted,
        };
        match accepted {
            Ok((stream, address)) => {
                let (credentials, sender) = (credentials.clone(), sender.clone());
                handshakes.spawn(async move {
                    if let Some(connection) = welcome(stream, address, credentials).await {
                        // Nobody serves any more: it is closed.
                        let _ = sender.send(Ok(connection)).await;
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(SHORTAGE).await;
            }
        }
    }
}

async fn welcome(
    stream: TcpStream,
    address: SocketAddr,
    credentials: Option<Credentials>,
) -> Option<Connection> {
    let greeted = async {
        stream.set_nodelay(true)?;
        let hello = Hello::read(&stream).await?;
        match credentials {
            None => {
                if hello == Hello::Tls {
                    // It learns from the first bytes that come back.
                    tracing::warn!(%address, "a client speaks TLS, and this server runs without");
                }
                Ok(Some(Connection::plain(stream, address)))
            }
            Some(_) if hello == Hello::Http2 => {
                tracing::warn!(%address, "turned a client away that does not speak TLS");
                hello::turn_away(stream).await?;
                Ok(None)
            }
            Some(credentials) => shake(stream, address, &credentials).await.map(Some),
        }
    };
    match tokio::time::timeout(HANDSHAKE, greeted).await {
        Ok(Ok(connection)) => connection,
        // Nothing was said: a look whether the port is open, as load balancers do.
        Ok(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
            tracing::debug!(%address, "a client left before it had said who it is");
            None
        }
        Ok(Err(error)) => {
            tracing::warn!(%address, %error, "refused a client");
            None
        }
        Err(_) => {
            tracing::warn!(%address, "a client has not said who it is within {HANDSHAKE:?}");
            None
        }
    }
}

async fn shake(
    stream: TcpStream,
    address: SocketAddr,
    credentials: &Credentials,
) -> io::Result<Connection> {
    let verifier = Arc::new(Verifier {
        inner: credentials.client_verifier().map_err(io::Error::other)?,
        presented: Mutex::new(None),
    });
    let mut config = ServerConfig::builder_with_provider(Arc::clone(&credentials.provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(io::Error::other)?
        .with_client_cert_verifier(Arc::clone(&verifier) as _)
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(Arc::clone(
            &credentials.key,
        ))));
    config.alpn_protocols = vec![b"h2".to_vec()];
    // Nothing is resumed: every connection is verified.
    config.send_tls13_tickets = 0;
    let accepted = tokio_rustls::TlsAcceptor::from(Arc::new(config))
        .accept(stream)
        .await;
    let presented = verifier
        .presented
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    match (accepted, presented) {
        (Ok(stream), Some(Ok(identity))) => {
            tracing::debug!(%address, %identity, "a client has come in");
            Ok(Connection::tls(stream, address, identity))
        }
        (Ok(_), _) => Err(io::Error::other("it presented no certificate")),
        (Err(error), presented) => Err(explain(&error, presented)),
    }
}

type Shown = Option<Result<Identity, String>>;

fn explain(error: &io::Error, presented: Shown) -> io::Error {
    let who = match &presented {
        None => "no certificate".to_owned(),
        Some(Ok(identity)) => format!("a certificate of {identity}"),
        Some(Err(_)) => "a certificate of nobody that Penstock knows".to_owned(),
    };
    let why = match (reason::tls(error), &presented) {
        (Some(TlsError::InvalidCertificate(_)), Some(Err(why))) => why.clone(),
        (Some(TlsError::InvalidCertificate(error)), _) => reason::certificate(error),
        (Some(TlsError::AlertReceived(alert)), _) => {
            format!("it refused our certificate: {alert:?}")
        }
        (Some(TlsError::NoCertificatesPresented), _) => {
            "give it one of the authority that is trusted here".to_owned()
        }
        _ => error.to_string(),
    };
    io::Error::new(error.kind(), format!("it presented {who}: {why}"))
}

/// Verifies one client in one handshake, and keeps who it is.
#[derive(Debug)]
struct Verifier {
    inner: Arc<dyn ClientCertVerifier>,
    presented: Mutex<Shown>,
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, TlsError> {
        let found = Identity::of(end_entity).map_err(|error| error.to_string());
        let named = found.is_ok();
        *self
            .presented
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(found);
        let verified = self
            .inner
            .verify_client_cert(end_entity, intermediates, now)?;
        if !named {
            return Err(CertificateError::ApplicationVerificationFailure.into());
        }
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, TlsError> {
        self.inner
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, TlsError> {
        self.inner
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
