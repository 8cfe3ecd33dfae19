//! Who a server is.

use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

use super::Expected;
use crate::{Credentials, Identity};

/// What a server has shown in one handshake, for the error message.
#[derive(Clone, Debug, Default)]
pub(super) struct Presented(Arc<Mutex<Shown>>);

#[derive(Debug, Default)]
struct Shown {
    who: Option<String>,
    why: Option<String>,
    accepted: bool,
}

impl Presented {
    fn update(&self, change: impl FnOnce(&mut Shown)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn look<T>(&self, part: impl FnOnce(&Shown) -> T) -> T {
        part(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whom the certificate names; nothing vouches for it yet.
    pub(super) fn who(&self) -> String {
        self.look(|shown| shown.who.clone())
            .unwrap_or_else(|| "nobody".to_owned())
    }

    /// What only we know to be wrong.
    pub(super) fn why(&self) -> Option<String> {
        self.look(|shown| shown.why.clone())
    }

    pub(super) fn accepted(&self) -> bool {
        self.look(|shown| shown.accepted)
    }
}

/// Verifies one server in one handshake.
#[derive(Debug)]
pub(super) struct Verifier {
    pub(super) credentials: Credentials,
    pub(super) expected: Expected,
    pub(super) presented: Presented,
}

/// From the authority, valid now, for servers. By whom it is used is asked elsewhere.
pub(crate) fn verify_server(
    credentials: &Credentials,
    certificate: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    now: UnixTime,
) -> Result<(), Error> {
    verify_server_cert_signed_by_trust_anchor(
        &ParsedCertificate::try_from(certificate)?,
        &credentials.roots,
        intermediates,
        now,
        credentials.provider.signature_verification_algorithms.all,
    )
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        // The name comes from what is expected, and is verified as that.
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let found = Identity::of(end_entity);
        self.presented.update(|shown| {
            shown.who = Some(match &found {
                Ok(identity) => identity.to_string(),
                Err(_) => "nobody that Penstock knows".to_owned(),
            });
        });
        verify_server(&self.credentials, end_entity, intermediates, now)?;
        let why = match found {
            Ok(identity) if self.expected.accepts(&identity) => {
                self.presented.update(|shown| shown.accepted = true);
                return Ok(ServerCertVerified::assertion());
            }
            Ok(_) => "correct the address, or the certificate of the program there".to_owned(),
            Err(error) => error.to_string(),
        };
        self.presented.update(|shown| shown.why = Some(why));
        Err(CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.credentials.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.credentials.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.credentials.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}
