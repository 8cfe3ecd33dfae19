//! Which resources a list or a watch is about.

use tonic::Status;

use super::{invalid_field, kind};
use crate::world::{Kind, Row};

/// A parent and a kind, either of which may be open.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    parent: String,
    below: String,
    kind: Option<Kind>,
}

impl Scope {
    pub(super) fn new(parent: &str, kind_name: &str) -> Result<Self, Status> {
        if parent.ends_with('/') {
            return Err(invalid_field(
                "parent",
                format!("{parent:?} ends with a slash; give a resource's full name, or nothing"),
            ));
        }
        Ok(Self {
            parent: parent.to_owned(),
            below: format!("{parent}/"),
            kind: kind(kind_name)?,
        })
    }

    /// Where names in scope begin; every name in scope starts with it.
    pub(super) fn first(&self) -> &str {
        &self.parent
    }

    pub(super) fn contains(&self, row: &Row) -> bool {
        let name = row.name();
        let inside = self.parent.is_empty() || name == self.parent || name.starts_with(&self.below);
        inside && self.kind.is_none_or(|kind| row.kind() == Some(kind))
    }

    /// Says where the next page begins, and of which list.
    pub(super) fn token(&self, last: &str) -> String {
        let mut token = format!("{:08x}", self.sum());
        for byte in last.bytes() {
            token.push_str(&format!("{byte:02x}"));
        }
        token
    }

    /// The last name of the page before; `None` for the first page.
    pub(super) fn open_token(&self, token: &str) -> Result<Option<String>, Status> {
        if token.is_empty() {
            return Ok(None);
        }
        let bytes = || -> Option<Vec<u8>> {
            if !token.len().is_multiple_of(2) {
                return None;
            }
            (0..token.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(token.get(at..at + 2)?, 16).ok())
                .collect()
        };
        let open = || -> Option<String> {
            let bytes = bytes()?;
            let (sum, name) = bytes.split_at_checked(4)?;
            if sum != self.sum().to_be_bytes() {
                return None;
            }
            String::from_utf8(name.to_vec()).ok()
        };
        open().map(Some).ok_or_else(|| {
            invalid_field(
                "page_token",
                "is not one of this list; repeat parent and kind, or start without a token",
            )
        })
    }

    fn sum(&self) -> u32 {
        let kind = self.kind.map_or("", Kind::name);
        crc32fast::hash(format!("{}\n{kind}", self.parent).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_belongs_to_its_list() {
        let scope = Scope::new("tenants/blue", "Port").unwrap();
        let token = scope.token("tenants/blue/vpcs/main/ports/é");
        let last = scope.open_token(&token).unwrap();
        assert_eq!(last.as_deref(), Some("tenants/blue/vpcs/main/ports/é"));
        assert_eq!(scope.open_token("").unwrap(), None);
        let other = Scope::new("tenants/blue", "").unwrap();
        for (scope, token) in [
            (&other, token.as_str()),
            (&scope, "zz"),
            (&scope, "abc"),
            (&scope, "é"),
            (&scope, &token[..6]),
        ] {
            assert!(scope.open_token(token).is_err(), "{token}");
        }
    }
}
