//! Declaring resources: all of a request, or nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use penstock_api::v1;
use prost::Message;

use super::remember::Known;
use super::stamp::Stamper;
use super::{
    Error, MESSAGE_LIMIT, MOST_RESOURCES, Registry, Violation, kind_of, locate, violation, vnis,
};
use crate::validated;
use crate::world::{Kind, Row, World, anonymous};

/// Room in an answer for what the server adds to each resource.
const ADDED_PER_RESOURCE: usize = 400;

/// A request that went through.
#[derive(Clone, Debug)]
pub struct Applied {
    /// The revision that holds it.
    pub revision: u64,
    /// As stored, in the request's order.
    pub rows: Vec<Arc<Row>>,
    /// How many are new or different.
    pub changed: u32,
}

impl Registry {
    /// Checks the request against everything and stores it.
    ///
    /// # Errors
    /// Nothing has changed then; see [`Error`].
    pub fn apply(&self, mut request: v1::ApplyRequest) -> Result<Applied, Error> {
        check_form(&request)?;
        let mut writer = self.lock();
        let fingerprint = writer.remembered.fingerprint(&request);
        if !request.request_id.is_empty() {
            match writer.remembered.find(&request.request_id, fingerprint) {
                Known::Answer(applied) => return Ok(applied),
                Known::Different => {
                    return Err(Error::Invalid(vec![violation(
                        "request_id",
                        format!(
                            "{:?} was used for a request with another content; take a fresh one",
                            request.request_id
                        ),
                    )]));
                }
                Known::No => {}
            }
        }

        let world = self.hub.world();
        let expected = self.store.revision();
        let revision = expected + 1;
        let mut ids = writer.ids.clone();
        let mut stamper = Stamper::new().map_err(Error::Random)?;
        let mut rows = world.rows.clone();
        let mut answer = Vec::with_capacity(request.resources.len());
        let mut changed = Vec::new();
        for resource in std::mem::take(&mut request.resources) {
            let before = world.rows.get(&resource.name);
            check_etag(&resource, before.map(Arc::as_ref))?;
            if let Some(before) = before.filter(|row| row.resource.spec == resource.spec) {
                answer.push(Arc::clone(before));
                continue;
            }
            let kind = kind_of(&resource).ok_or(Error::NoIds("unknown"))?;
            let id = match before.filter(|row| row.kind() == Some(kind)) {
                Some(row) => row.id,
                None => ids.allocate(kind).ok_or(Error::NoIds(kind.name()))?,
            };
            let metadata = stamper
                .stamp(
                    before.and_then(|row| row.resource.metadata.as_ref()),
                    revision,
                )
                .map_err(Error::Random)?;
            let row = Arc::new(Row {
                resource: v1::Resource {
                    name: resource.name,
                    metadata: Some(metadata),
                    status: None,
                    spec: resource.spec,
                },
                id,
                revision,
            });
            rows.insert(row.name().to_owned(), Arc::clone(&row));
            answer.push(Arc::clone(&row));
            changed.push(row);
        }

        if changed.is_empty() {
            let applied = Applied {
                revision: world.revision,
                rows: answer,
                changed: 0,
            };
            if !request.request_id.is_empty() {
                let id = &request.request_id;
                writer.remembered.keep(id, fingerprint, applied.clone());
            }
            return Ok(applied);
        }

        let validated = validated::validate(&rows, &changed)
            .and_then(|validated| {
                let taken = vnis::taken_over(world.validated.model(), &changed);
                taken.is_empty().then_some(validated).ok_or(taken)
            })
            .map_err(|problems| {
                let places: BTreeMap<&str, usize> = answer
                    .iter()
                    .enumerate()
                    .map(|(index, row)| (row.name(), index))
                    .collect();
                Error::Invalid(problems.iter().map(|it| locate(it, &places)).collect())
            })?;
        let mut applied = Applied {
            revision: world.revision,
            rows: answer,
            changed: u32::try_from(changed.len()).unwrap_or(u32::MAX),
        };
        if request.validate_only {
            return Ok(applied);
        }
        let anonymous = anonymous::renew(&world.anonymous, validated.model(), &mut ids)
            .ok_or(Error::NoIds(Kind::SecurityGroup.name()))?;
        let next = World {
            revision,
            rows,
            validated: Arc::new(validated),
            anonymous,
        };
        applied.revision = self.commit(ids, &mut writer, next, changed, vec![], expected)?;
        if !request.request_id.is_empty() {
            let id = &request.request_id;
            writer.remembered.keep(id, fingerprint, applied.clone());
        }
        Ok(applied)
    }
}

/// What can be said without looking at what is stored.
fn check_form(request: &v1::ApplyRequest) -> Result<(), Error> {
    let mut violations: Vec<Violation> = Vec::new();
    if request.resources.len() > MOST_RESOURCES {
        violations.push(violation(
            "resources",
            format!(
                "{} resources; at most {MOST_RESOURCES} in one request, split it",
                request.resources.len()
            ),
        ));
    }
    if request.request_id.len() > 64 {
        violations.push(violation(
            "request_id",
            format!("{} bytes; at most 64", request.request_id.len()),
        ));
    }
    let answer_size: usize = request
        .resources
        .iter()
        .map(|resource| resource.encoded_len() + ADDED_PER_RESOURCE)
        .sum();
    if answer_size > MESSAGE_LIMIT {
        violations.push(violation(
            "resources",
            format!(
                "the answer would have about {answer_size} bytes; at most {MESSAGE_LIMIT}, \
                 split the request"
            ),
        ));
    }
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, resource) in request.resources.iter().enumerate() {
        if resource.spec.is_none() {
            violations.push(violation(
                format!("resources[{index}].spec"),
                "is absent; give one of tenant, vpc, subnet, port, security_group, policy, \
                 prefix_set, peering, node",
            ));
        }
        if let Some(first) = seen.insert(&resource.name, index) {
            violations.push(violation(
                format!("resources[{index}].name"),
                format!(
                    "{:?} is also the name of resources[{first}]; declare it once",
                    resource.name
                ),
            ));
        }
        if violations.len() >= 1000 {
            break;
        }
    }
    if violations.is_empty() {
        Ok(())
    } else {
        Err(Error::Invalid(violations))
    }
}

fn check_etag(resource: &v1::Resource, before: Option<&Row>) -> Result<(), Error> {
    let sent = resource
        .metadata
        .as_ref()
        .map_or("", |metadata| metadata.etag.as_str());
    if sent.is_empty() || before.is_some_and(|row| row.etag() == sent) {
        return Ok(());
    }
    Err(Error::Etag {
        name: resource.name.clone(),
        sent: sent.to_owned(),
    })
}
