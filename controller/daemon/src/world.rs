//! Everything that has been accepted, at one revision.
//!
//! A [`World`] never changes; an accepted request makes a new one that shares
//! all untouched rows with the old. What is in it has passed validation as a
//! whole, in this process.

use std::collections::BTreeMap;
use std::sync::Arc;

use penstock_api::v1;
use prost::Message;

use crate::store::{self, Store};
use crate::validated::{self, Validated};

pub mod anonymous;
pub mod kind;

pub use kind::Kind;

/// Where resources begin in the store.
const ROWS: &str = "resource/";

/// A stored resource. `resource.status` is always absent: it is computed.
#[derive(Clone, PartialEq, Message)]
pub struct Row {
    /// As declared, with metadata.
    #[prost(message, required, tag = "1")]
    pub resource: v1::Resource,
    /// What the data plane calls it; see [`crate::ids`].
    #[prost(uint32, tag = "2")]
    pub id: u32,
    /// The store's revision that last changed it.
    #[prost(uint64, tag = "3")]
    pub revision: u64,
}

impl Row {
    /// Full resource name.
    pub fn name(&self) -> &str {
        &self.resource.name
    }

    /// The kind; rows without a spec are never stored.
    pub fn kind(&self) -> Option<Kind> {
        self.resource.spec.as_ref().map(kind::of)
    }

    /// Its metadata's generation.
    pub fn generation(&self) -> u64 {
        self.resource
            .metadata
            .as_ref()
            .map_or(0, |metadata| metadata.generation)
    }

    /// Its metadata's etag.
    pub fn etag(&self) -> &str {
        self.resource
            .metadata
            .as_ref()
            .map_or("", |metadata| metadata.etag.as_str())
    }

    /// Its key in the store.
    pub fn key(name: &str) -> Vec<u8> {
        format!("{ROWS}{name}").into_bytes()
    }
}

/// Rows by name.
pub type Rows = BTreeMap<String, Arc<Row>>;

/// One revision.
#[derive(Debug)]
pub struct World {
    /// The store's.
    pub revision: u64,
    /// All resources.
    pub rows: Rows,
    /// The same, checked as a whole.
    pub validated: Arc<Validated>,
    /// Numbers of what selectors stand for.
    pub anonymous: Arc<anonymous::Numbers>,
}

/// Why a store's content cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// Somebody else's rows, or damage.
    #[error(
        "the store's row {key:?} cannot be read ({reason}); restore the store from a backup, \
         or run the version of penstockd that wrote it"
    )]
    Row {
        /// Printable key.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A row that goes with another is missing.
    #[error("the store has no number for {0}; restore the store from a backup")]
    NoNumber(String),
    /// What an earlier version accepted and this one does not.
    #[error("what is stored does not pass this version's validation: {0}")]
    Invalid(String),
}

impl World {
    /// Reads everything. A row that cannot be read is an error, never skipped.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub fn load(store: &dyn Store) -> Result<Self, LoadError> {
        let (revision, stored) = store.snapshot(ROWS.as_bytes())?;
        let mut rows = Rows::new();
        for (key, value) in stored {
            let unreadable = |reason: String| LoadError::Row {
                key: String::from_utf8_lossy(&key).into_owned(),
                reason,
            };
            let row =
                Row::decode(value.as_slice()).map_err(|error| unreadable(error.to_string()))?;
            if Row::key(row.name()) != key {
                return Err(unreadable(format!("it holds {:?}", row.name())));
            }
            if row.kind().is_none() || row.id == 0 || row.generation() == 0 {
                return Err(unreadable("spec, id or generation is missing".to_owned()));
            }
            rows.insert(row.name().to_owned(), Arc::new(row));
        }
        let validated = validated::validate(&rows, &[]).map_err(|problems| {
            LoadError::Invalid(
                problems
                    .iter()
                    .take(10)
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join("; "),
            )
        })?;
        let anonymous = anonymous::load(store, validated.model())?;
        Ok(Self {
            revision,
            rows,
            validated: Arc::new(validated),
            anonymous: Arc::new(anonymous),
        })
    }
}
