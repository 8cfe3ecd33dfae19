//! Deleting resources: all of a request, or nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use penstock_api::v1;

use super::{Error, MOST_RESOURCES, Reference, Registry, violation};
use crate::validated;
use crate::world::{Kind, Row, Rows, World, anonymous};

/// References that an error lists.
const MOST_REFERENCES: usize = 100;

/// A request that went through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deleted {
    /// The revision from which they are gone.
    pub revision: u64,
    /// How many were there.
    pub deleted: u32,
}

impl Registry {
    /// Deletes every name, unless something else needs one of them.
    ///
    /// # Errors
    /// Nothing has changed then; see [`Error`].
    pub fn delete(&self, request: &v1::DeleteRequest) -> Result<Deleted, Error> {
        if request.names.len() > MOST_RESOURCES {
            return Err(Error::Invalid(vec![violation(
                "names",
                format!(
                    "{} names; at most {MOST_RESOURCES} in one request, split it",
                    request.names.len()
                ),
            )]));
        }
        if !request.etag.is_empty() && request.names.len() != 1 {
            return Err(Error::Invalid(vec![violation(
                "etag",
                format!(
                    "goes with a single name, not with {}; delete one by one or leave it out",
                    request.names.len()
                ),
            )]));
        }
        let mut writer = self.lock();
        let world = self.hub.world();
        let mut rows = world.rows.clone();
        let mut deleted = Vec::new();
        let mut missing = Vec::new();
        for name in request.names.iter().collect::<BTreeSet<_>>() {
            match rows.remove(name) {
                Some(row) => deleted.push(row),
                None => missing.push(name.clone()),
            }
        }
        if !missing.is_empty() && !request.allow_missing {
            return Err(Error::NotFound(missing));
        }
        if let [row] = deleted.as_slice()
            && !request.etag.is_empty()
            && row.etag() != request.etag
        {
            return Err(Error::Etag {
                name: row.name().to_owned(),
                sent: request.etag.clone(),
            });
        }
        if deleted.is_empty() {
            return Ok(Deleted {
                revision: world.revision,
                deleted: 0,
            });
        }
        let children = children(&deleted, &rows);
        if !children.is_empty() {
            return Err(Error::Referred(children));
        }
        // What was valid and is not any more has lost something it refers to.
        let validated = validated::validate(&rows, &[]).map_err(|problems| {
            Error::Referred(
                problems
                    .into_iter()
                    .take(MOST_REFERENCES)
                    .map(|problem| Reference {
                        from: problem.name,
                        description: format!("{}: {}", problem.field, problem.message),
                    })
                    .collect(),
            )
        })?;
        let expected = self.store.revision();
        let mut ids = writer.ids.clone();
        let anonymous = anonymous::renew(&world.anonymous, validated.model(), &mut ids)
            .ok_or(Error::NoIds(Kind::SecurityGroup.name()))?;
        let next = World {
            revision: expected + 1,
            rows,
            validated: Arc::new(validated),
            anonymous,
        };
        for row in &deleted {
            if let Some(kind) = row.kind() {
                ids.release(kind, row.id);
            }
        }
        let count = u32::try_from(deleted.len()).unwrap_or(u32::MAX);
        let revision = self.commit(ids, &mut writer, next, vec![], deleted, expected)?;
        Ok(Deleted {
            revision,
            deleted: count,
        })
    }
}

/// What remains below a name that goes.
fn children(deleted: &[Arc<Row>], remaining: &Rows) -> Vec<Reference> {
    deleted
        .iter()
        .flat_map(|parent| {
            let below = format!("{}/", parent.name());
            remaining
                .range(below.clone()..)
                .map(|(name, _)| name)
                .take_while(move |name| name.starts_with(&below))
                .map(|name| Reference {
                    from: name.clone(),
                    description: format!(
                        "is a part of {}; delete it first or in the same request",
                        parent.name()
                    ),
                })
        })
        .take(MOST_REFERENCES)
        .collect()
}
