//! Names of programs and people.

use std::fmt;

use rustls::pki_types::CertificateDer;

const DOMAIN: &str = "spiffe://penstock/";

/// What somebody is, and so what they may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A worker; its name is the node's.
    Node,
    /// A penstockd.
    Controller,
    /// Whoever declares resources: a person, or a program in their place.
    Operator,
}

impl Kind {
    /// As identities spell it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Controller => "controller",
            Self::Operator => "operator",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One program or person: `spiffe://penstock/KIND/NAME`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    kind: Kind,
    name: String,
}

/// Why something is no identity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// A name that does not do.
    #[error("{0:?} is not a name: use 1 to 63 of a-z, 0-9 and -, no - first or last")]
    Name(String),
    /// A URI of something else.
    #[error(
        "{0:?} is no identity: expected spiffe://penstock/ and node, controller or operator, then /NAME"
    )]
    Uri(String),
    /// A certificate that does not say who it is for.
    #[error(
        "the certificate has {0} URI names, where one says who it is for: spiffe://penstock/KIND/NAME"
    )]
    Count(usize),
    /// No certificate.
    #[error("not an X.509 certificate")]
    Certificate,
}

impl Identity {
    /// Checks the name; it becomes a part of URIs and DNS names.
    ///
    /// # Errors
    /// The name does not do.
    pub fn new(kind: Kind, name: &str) -> Result<Self, NameError> {
        let plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
        let good = (1..=63).contains(&name.len())
            && name.bytes().all(plain)
            && !name.starts_with('-')
            && !name.ends_with('-');
        if !good {
            return Err(NameError::Name(name.to_owned()));
        }
        Ok(Self {
            kind,
            name: name.to_owned(),
        })
    }

    /// From its URI.
    ///
    /// # Errors
    /// It is another URI.
    pub fn parse(uri: &str) -> Result<Self, NameError> {
        let wrong = || NameError::Uri(uri.to_owned());
        let path = uri.strip_prefix(DOMAIN).ok_or_else(wrong)?;
        let (kind, name) = path.split_once('/').ok_or_else(wrong)?;
        let kind = [Kind::Node, Kind::Controller, Kind::Operator]
            .into_iter()
            .find(|known| known.as_str() == kind)
            .ok_or_else(wrong)?;
        Self::new(kind, name).map_err(|_| wrong())
    }

    /// Whom a certificate is for. This says nothing about who vouches for it.
    ///
    /// # Errors
    /// It is no certificate, or names nobody of ours, or more than one.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Self, NameError> {
        let parsed =
            webpki::EndEntityCert::try_from(certificate).map_err(|_| NameError::Certificate)?;
        let mut uris = parsed.valid_uri_names();
        match (uris.next(), uris.count()) {
            (Some(uri), 0) => Self::parse(uri),
            (first, more) => Err(NameError::Count(usize::from(first.is_some()) + more)),
        }
    }

    /// What it is.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Its own name among its kind.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// As a DNS name, for clients that verify those: `NAME.KIND.penstock`.
    #[must_use]
    pub fn dns_name(&self) -> String {
        format!("{}.{}.penstock", self.name, self.kind)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{DOMAIN}{}/{}", self.kind, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_an_identity() {
        let longest = "a".repeat(63);
        for (kind, name) in [
            (Kind::Node, "host-a"),
            (Kind::Controller, "1"),
            (Kind::Operator, longest.as_str()),
        ] {
            let identity = Identity::new(kind, name).expect(name);
            assert_eq!(Identity::parse(&identity.to_string()), Ok(identity));
        }
        for uri in [
            "spiffe://penstock/node/",
            "spiffe://penstock/node/a/b",
            "spiffe://penstock/node/A",
            "spiffe://penstock/node/-a",
            "spiffe://penstock/node/a.b",
            "spiffe://penstock/nodes/a",
            "spiffe://penstock/node",
            "spiffe://other/node/a",
            "https://penstock/node/a",
            "",
        ] {
            assert_eq!(Identity::parse(uri), Err(NameError::Uri(uri.to_owned())));
        }
    }
}
