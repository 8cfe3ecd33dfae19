//! An authority for development and tests: one self-signed certificate, and what it signs.
//!
//! It keeps no list of what it has issued and takes nothing back. In production, certificates
//! come from an authority that does; see `docs/identity.md`.

use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};

use crate::{Identity, Kind};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// An authority lasts longer than what it issues.
const AUTHORITY: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
/// Clocks differ.
const EARLIER: Duration = Duration::from_secs(5 * 60);

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing}: {source}")]
pub struct Error {
    doing: &'static str,
    source: rcgen::Error,
}

fn failed(doing: &'static str) -> impl Fn(rcgen::Error) -> Error {
    move |source| Error { doing, source }
}

/// A certificate and its key, in PEM.
#[derive(Clone)]
pub struct Issued {
    /// Public.
    pub certificate: String,
    /// Secret.
    pub key: String,
}

impl std::fmt::Debug for Issued {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Issued").finish_non_exhaustive()
    }
}

/// See the module.
#[derive(Debug)]
pub struct Authority(Issuer<'static, KeyPair>);

impl Authority {
    /// A new one, with what it is kept as.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn create() -> Result<(Self, Issued), Error> {
        let now = SystemTime::now();
        let mut params = CertificateParams::default();
        params.not_before = (now - EARLIER).into();
        params.not_after = (now + AUTHORITY).into();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params
            .distinguished_name
            .push(DnType::CommonName, "Penstock development authority");
        let key = KeyPair::generate().map_err(failed("make a key"))?;
        let certificate = params
            .self_signed(&key)
            .map_err(failed("sign the authority"))?;
        let kept = Issued {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        };
        Ok((Self(Issuer::new(params, key)), kept))
    }

    /// One that was kept.
    ///
    /// # Errors
    /// It is something else.
    pub fn open(kept: &Issued) -> Result<Self, Error> {
        let key = KeyPair::from_pem(&kept.key).map_err(failed("read the authority's key"))?;
        let issuer = Issuer::from_ca_cert_pem(&kept.certificate, key)
            .map_err(failed("read the authority's certificate"))?;
        Ok(Self(issuer))
    }

    /// A certificate that is valid for so many days.
    ///
    /// # Errors
    /// It cannot be signed.
    pub fn issue(&self, identity: &Identity, days: u32) -> Result<Issued, Error> {
        let now = SystemTime::now();
        self.issue_between(identity, now - EARLIER, now + DAY * days)
    }

    /// A certificate that is valid between these moments.
    ///
    /// # Errors
    /// It cannot be signed.
    pub fn issue_between(
        &self,
        identity: &Identity,
        not_before: SystemTime,
        not_after: SystemTime,
    ) -> Result<Issued, Error> {
        let mut names = vec![identity.dns_name()];
        if identity.kind() == Kind::Controller {
            // Operators need not know which controller they call.
            names.push(format!("{}.penstock", Kind::Controller));
        }
        let mut params =
            CertificateParams::new(names).map_err(failed("put the DNS name into a certificate"))?;
        let uri = identity.to_string();
        let uri = uri
            .try_into()
            .map_err(failed("put the name into a certificate"))?;
        params.subject_alt_names.push(SanType::URI(uri));
        params.not_before = not_before.into();
        params.not_after = not_after.into();
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = match identity.kind() {
            Kind::Node => vec![ExtendedKeyUsagePurpose::ServerAuth],
            Kind::Operator => vec![ExtendedKeyUsagePurpose::ClientAuth],
            Kind::Controller => vec![
                ExtendedKeyUsagePurpose::ServerAuth,
                ExtendedKeyUsagePurpose::ClientAuth,
            ],
        };
        params.distinguished_name = rcgen::DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::CommonName, identity.dns_name());
        let key = KeyPair::generate().map_err(failed("make a key"))?;
        let certificate = params
            .signed_by(&key, &self.0)
            .map_err(failed("sign a certificate"))?;
        Ok(Issued {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }
}
