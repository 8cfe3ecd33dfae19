//! The one writer of the store.
//!
//! A request is checked against everything that is stored, made durable and
//! then published, in that order and one request at a time. Calls block.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use penstock_api::{convert, v1};

use crate::hub::Hub;
use crate::ids::Ids;
use crate::store::{self, Batch, Store};
use crate::validated::Problem;
use crate::world::{Kind, LoadError, Row, World, anonymous};

mod apply;
mod delete;
mod remember;
mod stamp;
mod vnis;

pub use apply::Applied;
pub use delete::Deleted;

/// Resources or names in one request: what a commit makes durable in a few
/// seconds. A set may be larger: it is applied in several requests.
pub const MOST_RESOURCES: usize = 50_000;
/// Bytes of a message, either way.
pub use penstock_api::MESSAGE_LIMIT;

/// See the module.
#[derive(Debug)]
pub struct Registry {
    store: Arc<dyn Store>,
    hub: Arc<Hub>,
    writer: Mutex<Writer>,
}

#[derive(Debug)]
struct Writer {
    ids: Ids,
    remembered: remember::Requests,
}

/// Why a request changes nothing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request itself cannot be used.
    #[error("{} problems; {}", .0.len(), first(.0))]
    Invalid(Vec<Violation>),
    /// Somebody else changed it first.
    #[error("{name} has changed since etag {sent:?} was read; read it again and decide anew")]
    Etag {
        /// The resource.
        name: String,
        /// The request's etag.
        sent: String,
    },
    /// Names that are not there.
    #[error("{} resources do not exist, {} among them", .0.len(), .0.first().map_or("", String::as_str))]
    NotFound(Vec<String>),
    /// Names that something else needs.
    #[error("{} references stand in the way; {}", .0.len(), first_reference(.0))]
    Referred(Vec<Reference>),
    /// No more numbers.
    #[error("all ids of kind {0} are in use; delete some resources")]
    NoIds(&'static str),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// No random bytes.
    #[error("cannot read random bytes for a uid: {0}")]
    Random(std::io::Error),
}

/// A problem of one field of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Path in the request.
    pub field: String,
    /// What is wrong and what to do.
    pub description: String,
}

/// Something that needs a name that was to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Who needs it.
    pub from: String,
    /// What for.
    pub description: String,
}

fn first(violations: &[Violation]) -> String {
    violations.first().map_or_else(String::new, |violation| {
        format!("{}: {}", violation.field, violation.description)
    })
}

fn first_reference(references: &[Reference]) -> String {
    references.first().map_or_else(String::new, |reference| {
        format!("{}: {}", reference.from, reference.description)
    })
}

fn violation(field: impl Into<String>, description: impl Into<String>) -> Violation {
    Violation {
        field: field.into(),
        description: description.into(),
    }
}

impl Registry {
    /// Loads what is stored.
    ///
    /// # Errors
    /// When something in the store cannot be read or no longer passes.
    pub fn open(store: Arc<dyn Store>) -> Result<Self, LoadError> {
        let world = World::load(store.as_ref())?;
        let ids = Ids::load(store.as_ref(), &world)?;
        Ok(Self {
            store,
            hub: Arc::new(Hub::new(world)),
            writer: Mutex::new(Writer {
                ids,
                remembered: remember::Requests::default(),
            }),
        })
    }

    /// What is true now.
    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// The store below, for what is not a resource.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// A durable number, higher than every one given before.
    ///
    /// # Errors
    /// When the store fails.
    pub fn next_epoch(&self) -> Result<u64, store::Error> {
        self.raise_epoch(0)
    }

    /// Like [`Self::next_epoch`], and higher than `floor` as well.
    ///
    /// # Errors
    /// When the store fails, or no epoch is left.
    pub fn raise_epoch(&self, floor: u64) -> Result<u64, store::Error> {
        const KEY: &[u8] = b"election-epoch";
        let _writer = self.lock();
        let last = store::get_exact(self.store.as_ref(), KEY)?.map_or(0, u64::from_be_bytes);
        let epoch = last
            .max(floor)
            .checked_add(1)
            .ok_or(store::Error::LastEpoch)?;
        let mut batch = Batch::default();
        batch.put(KEY, epoch.to_be_bytes());
        self.store.commit(&batch, self.store.revision())?;
        Ok(epoch)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Writer> {
        // A panic in an earlier request has published nothing; ids that it took
        // are lost, which is harmless.
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a change durable, then visible.
    fn commit(
        &self,
        ids: Ids,
        writer: &mut Writer,
        next: World,
        changed: Vec<Arc<Row>>,
        deleted: Vec<Arc<Row>>,
        expected: u64,
    ) -> Result<u64, store::Error> {
        use prost::Message;

        let mut batch = Batch::default();
        for row in &changed {
            batch.put(Row::key(row.name()), row.encode_to_vec());
        }
        for row in &deleted {
            batch.delete(Row::key(row.name()));
        }
        anonymous::save(&self.hub.world().anonymous, &next.anonymous, &mut batch);
        ids.save(&mut batch);
        let revision = self.store.commit(&batch, expected)?;
        writer.ids = ids;
        self.hub.publish(next, changed, deleted);
        Ok(revision)
    }
}

/// Where a problem of the whole set lies in a request.
fn locate(problem: &Problem, request: &BTreeMap<&str, usize>) -> Violation {
    match request.get(problem.name.as_str()) {
        Some(index) => violation(
            convert::violation_field(*index, &problem.field),
            &problem.message,
        ),
        // Stored, and no longer valid next to what the request declares.
        None => violation(
            "resources",
            format!(
                "{}, which is stored: {}: {}",
                problem.name, problem.field, problem.message
            ),
        ),
    }
}

/// The kind of a resource in a request.
fn kind_of(resource: &v1::Resource) -> Option<Kind> {
    resource.spec.as_ref().map(crate::world::kind::of)
}
