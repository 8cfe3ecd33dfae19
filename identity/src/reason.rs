//! What TLS says, in words that lead somewhere.

use std::time::Duration;

use rustls::{AlertDescription, CertificateError, Error};

/// Why a certificate is refused, and what to do.
pub(crate) fn certificate(error: &CertificateError) -> String {
    use CertificateError as E;
    match error {
        E::ExpiredContext { time, not_after } => format!(
            "it expired {} ago; issue a new one, or set this machine's clock",
            span(time.as_secs().saturating_sub(not_after.as_secs()))
        ),
        E::NotValidYetContext { time, not_before } => format!(
            "it becomes valid in {}; set this machine's clock",
            span(not_before.as_secs().saturating_sub(time.as_secs()))
        ),
        E::UnknownIssuer | E::BadSignature => {
            "it is not signed by the authority that is trusted here; use certificates of one \
             authority everywhere"
                .to_owned()
        }
        E::InvalidPurposeContext { required, .. } => format!(
            "it was not issued for this purpose ({required:?}); use the certificate of the \
             right program"
        ),
        other => other.to_string(),
    }
}

/// Why the other side ended the connection.
pub(crate) fn alert(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::UnknownCA | AlertDescription::DecryptError => {
            "it trusts another authority".to_owned()
        }
        AlertDescription::CertificateExpired => "it says that it has expired".to_owned(),
        AlertDescription::UnsupportedCertificate => {
            "it is not for clients of this server".to_owned()
        }
        other => format!("it says {other:?}"),
    }
}

/// The error of TLS inside one of a socket.
pub(crate) fn tls(error: &std::io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}

fn span(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{:?}", Duration::from_secs(seconds)),
        120..=7199 => format!("{} minutes", seconds / 60),
        7200..=172_799 => format!("{} hours", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}
