//! One program's certificate, its key, and whom it trusts.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::sign::CertifiedKey;

use crate::client::verify_server;
use crate::{Identity, Kind, NameError, reason};

/// PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The authority that everybody's certificate is from.
    pub ca: PathBuf,
    /// Our certificate, and what leads from it to the authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// What [`Files`] say, checked.
#[derive(Clone)]
pub struct Credentials {
    pub(crate) identity: Identity,
    pub(crate) key: Arc<CertifiedKey>,
    pub(crate) roots: Arc<RootCertStore>,
    pub(crate) provider: Arc<CryptoProvider>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key stays out of logs.
        f.debug_tuple("Credentials").field(&self.identity).finish()
    }
}

/// Why files cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// One cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// One holds something else.
    #[error("{path}: no usable {what} in PEM: {problem}")]
    Pem {
        /// Which.
        path: PathBuf,
        /// What it should hold.
        what: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// Two that do not belong together.
    #[error("{key} is not the key of {certificate}; give the two that were issued together")]
    Mismatch {
        /// The certificate.
        certificate: PathBuf,
        /// The key.
        key: PathBuf,
    },
    /// A certificate that does not say who it is for.
    #[error("{path}: {source}")]
    Identity {
        /// Which.
        path: PathBuf,
        /// What it says.
        source: NameError,
    },
    /// A certificate that everybody would refuse.
    #[error("{path}: nobody would accept this certificate of {identity}: {why}")]
    Refused {
        /// Which.
        path: PathBuf,
        /// Whom it is for.
        identity: Identity,
        /// What is wrong and what to do.
        why: String,
    },
}

impl Credentials {
    /// Reads and checks: the key is the certificate's, the certificate names somebody, is
    /// from the authority and is valid now.
    ///
    /// # Errors
    /// The first that is not so.
    pub fn load(files: &Files) -> Result<Self, CredentialsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&files.ca)? {
            roots
                .add(certificate)
                .map_err(|error| pem(&files.ca, "authority's certificate", &error))?;
        }
        let chain = certificates(&files.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(&read(&files.key)?)
            .map_err(|error| pem(&files.key, "private key", &error))?;
        let key = provider
            .key_provider
            .load_private_key(key)
            .map_err(|error| pem(&files.key, "private key", &error))?;
        let identity = match chain.first() {
            Some(first) => Identity::of(first),
            None => Err(NameError::Certificate),
        }
        .map_err(|source| CredentialsError::Identity {
            path: files.certificate.clone(),
            source,
        })?;
        let key = CertifiedKey::new(chain, key);
        match key.keys_match() {
            // Kinds of keys that cannot tell show it at the first handshake.
            Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {}
            Err(_) => {
                return Err(CredentialsError::Mismatch {
                    certificate: files.certificate.clone(),
                    key: files.key.clone(),
                });
            }
        }
        let this = Self {
            identity,
            key: Arc::new(key),
            roots: Arc::new(roots),
            provider,
        };
        this.check().map_err(|error| CredentialsError::Refused {
            path: files.certificate.clone(),
            identity: this.identity.clone(),
            why: match error {
                rustls::Error::InvalidCertificate(error) => reason::certificate(&error),
                other => other.to_string(),
            },
        })?;
        Ok(this)
    }

    /// Who we are.
    #[must_use]
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// As a peer with the same authority would see us.
    fn check(&self) -> Result<(), rustls::Error> {
        let (first, intermediates) = self
            .key
            .cert
            .split_first()
            .ok_or(rustls::Error::NoCertificatesPresented)?;
        if self.identity.kind() != Kind::Operator {
            verify_server(self, first, intermediates, UnixTime::now())?;
        }
        if self.identity.kind() != Kind::Node {
            self.client_verifier()?
                .verify_client_cert(first, intermediates, UnixTime::now())?;
        }
        Ok(())
    }

    /// Verifies clients: they must show a certificate of the authority.
    pub(crate) fn client_verifier(
        &self,
    ) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, rustls::Error> {
        WebPkiClientVerifier::builder_with_provider(
            Arc::clone(&self.roots),
            Arc::clone(&self.provider),
        )
        .build()
        .map_err(|error| rustls::Error::General(error.to_string()))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, CredentialsError> {
    std::fs::read(path).map_err(|source| CredentialsError::Read {
        path: path.to_owned(),
        source,
    })
}

fn pem(path: &Path, what: &'static str, problem: &dyn fmt::Display) -> CredentialsError {
    CredentialsError::Pem {
        path: path.to_owned(),
        what,
        problem: problem.to_string(),
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, CredentialsError> {
    let text = read(path)?;
    let all: Vec<_> = CertificateDer::pem_slice_iter(&text)
        .collect::<Result<_, _>>()
        .map_err(|error| pem(path, "certificate", &error))?;
    if all.is_empty() {
        return Err(pem(path, "certificate", &"there is none"));
    }
    Ok(all)
}
