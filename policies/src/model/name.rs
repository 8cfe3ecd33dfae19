//! Resource names as types: one that exists has the right form.

use std::fmt;
use std::sync::Arc;

use crate::document::Kind;
use crate::suggest::quote;

/// No name of the right form is longer.
const LONGEST: usize = 255;

/// A name without the right form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}; {suggestion}")]
pub struct NameError {
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub suggestion: String,
}

/// One part of a name that an operator chooses.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Segment(Arc<str>);

impl Segment {
    /// `[a-z]([-a-z0-9]*[a-z0-9])?`, 63 bytes at most.
    ///
    /// # Errors
    /// What is wrong with it, and what would do.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let wrong = |message, suggestion: Option<String>| NameError {
            message,
            suggestion: suggestion.unwrap_or_else(|| {
                "use 1 to 63 of a-z, 0-9 and -, a letter first, no - last".to_owned()
            }),
        };
        if text.len() > 63 {
            return Err(wrong(
                format!("{} has {} bytes", quote(text), text.len()),
                None,
            ));
        }
        if !well_formed(text) {
            let better: String = text
                .to_lowercase()
                .replace(['_', ' ', '.'], "-")
                .trim_matches('-')
                .to_owned();
            let better = well_formed(&better).then(|| format!("did you mean {better}?"));
            return Err(wrong(format!("{} is not a name", quote(text)), better));
        }
        Ok(Self(Arc::from(text)))
    }

    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn well_formed(text: &str) -> bool {
    let word = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_lowercase)
        && bytes.last().is_some_and(word)
        && bytes.iter().all(|b| word(b) || *b == b'-')
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Splits a full name of this kind into the parts that an operator chose.
fn split(kind: Kind, text: &str) -> Result<Vec<Segment>, NameError> {
    let form = || format!("a {}'s name has the form {}", kind.name(), kind.pattern());
    if text.len() > LONGEST {
        return Err(NameError {
            message: format!("{} has {} bytes", quote(text), text.len()),
            suggestion: form(),
        });
    }
    let pattern: Vec<_> = kind.pattern().split('/').collect();
    let parts: Vec<_> = text.split('/').collect();
    let collections = |parts: &[&str]| -> Vec<String> {
        parts.iter().step_by(2).map(|s| (*s).to_owned()).collect()
    };
    if parts.len() != pattern.len() || collections(&parts) != collections(&pattern) {
        return Err(NameError {
            message: format!("{} is not the name of a {}", quote(text), kind.name()),
            suggestion: form(),
        });
    }
    parts
        .iter()
        .skip(1)
        .step_by(2)
        .map(|s| Segment::parse(s))
        .collect()
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $kind:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// From a full name.
            ///
            /// # Errors
            /// What is wrong with it.
            pub fn parse(text: &str) -> Result<Self, NameError> {
                split(Kind::$kind, text)?;
                Ok(Self(Arc::from(text)))
            }

            /// The full name.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Its last segment.
            #[must_use]
            pub fn last(&self) -> &str {
                self.0.rsplit('/').next().unwrap_or(&self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

/// A name below a VPC's.
macro_rules! below_vpc {
    ($name:ident, $kind:ident) => {
        impl $name {
            /// By its VPC and last segment.
            #[must_use]
            pub fn new(vpc: &VpcName, last: &Segment) -> Self {
                Self(Arc::from(format!(
                    "{vpc}/{}/{last}",
                    Kind::$kind.collection()
                )))
            }

            /// The VPC it belongs to.
            #[must_use]
            pub fn vpc(&self) -> VpcName {
                VpcName(Arc::from(parent(&self.0)))
            }
        }
    };
}

/// The name without its last two segments.
fn parent(name: &str) -> &str {
    name.rsplitn(3, '/').nth(2).unwrap_or_default()
}

name!(
    /// `tenants/TENANT`
    TenantName,
    Tenant
);
name!(
    /// `tenants/TENANT/vpcs/VPC`
    VpcName,
    Vpc
);
name!(
    /// `tenants/TENANT/vpcs/VPC/subnets/SUBNET`
    SubnetName,
    Subnet
);
name!(
    /// `tenants/TENANT/vpcs/VPC/ports/PORT`
    PortName,
    Port
);
name!(
    /// `tenants/TENANT/vpcs/VPC/securityGroups/GROUP`
    GroupName,
    SecurityGroup
);
name!(
    /// `tenants/TENANT/vpcs/VPC/policies/POLICY`
    PolicyName,
    Policy
);
name!(
    /// `tenants/TENANT/vpcs/VPC/prefixSets/SET`
    PrefixSetName,
    PrefixSet
);
name!(
    /// `tenants/TENANT/vpcs/VPC/peerings/PEERING`
    PeeringName,
    Peering
);
name!(
    /// `nodes/NODE`
    NodeName,
    Node
);
below_vpc!(SubnetName, Subnet);
below_vpc!(PortName, Port);
below_vpc!(GroupName, SecurityGroup);
below_vpc!(PolicyName, Policy);
below_vpc!(PrefixSetName, PrefixSet);
below_vpc!(PeeringName, Peering);

impl VpcName {
    /// The tenant it belongs to.
    #[must_use]
    pub fn tenant(&self) -> TenantName {
        TenantName(Arc::from(parent(&self.0)))
    }
}

impl NodeName {
    /// By its last segment.
    #[must_use]
    pub fn new(last: &Segment) -> Self {
        Self(Arc::from(format!("nodes/{last}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_know_their_parents() {
        let port = PortName::parse("tenants/blue/vpcs/main/ports/web-1").expect("a name");
        assert_eq!(port.last(), "web-1");
        assert_eq!(port.vpc().as_str(), "tenants/blue/vpcs/main");
        assert_eq!(port.vpc().tenant().as_str(), "tenants/blue");
        assert_eq!(
            PortName::new(&port.vpc(), &Segment::parse("web-1").expect("a segment")),
            port
        );
    }

    #[test]
    fn refusals_say_what_would_do() {
        for (text, message, suggestion) in [
            (
                "tenants/blue/ports/x",
                "\"tenants/blue/ports/x\" is not the name of a Port",
                "form",
            ),
            (
                "tenants/Blue/vpcs/main/ports/x",
                "\"Blue\" is not a name",
                "did you mean blue?",
            ),
            (
                "tenants/blue/vpcs/main/ports/web_1",
                "\"web_1\" is not a name",
                "web-1?",
            ),
            (
                "tenants/blue/vpcs/main/ports/",
                "\"\" is not a name",
                "1 to 63",
            ),
            (
                "tenants/blue/vpcs/main/ports/1x",
                "\"1x\" is not a name",
                "letter first",
            ),
            (
                "tenants/bl\u{fc}e/vpcs/main/ports/x",
                r#""bl\u{fc}e" is not"#,
                "a-z",
            ),
        ] {
            let e = PortName::parse(text).expect_err(text);
            assert!(
                e.message.starts_with(message) && e.suggestion.contains(suggestion),
                "{e}"
            );
        }
        let huge = "x".repeat(1 << 20);
        let e = PortName::parse(&huge).expect_err("too long");
        assert!(e.to_string().len() < 300, "{e}");
    }
}
