//! Messages from and to documents.
//!
//! Every message is taken apart whole, so that a new field does not compile
//! until someone has decided what becomes of it.

mod explained;
mod read;
mod write;

pub use explained::from_answer;
pub use read::to_document;
pub use write::{from_document, write_protocol};

/// A message that no document corresponds to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}; {suggestion}")]
pub struct Invalid {
    /// As in documents: `spec.rules[0].direction`.
    pub field: String,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub suggestion: String,
}

/// A violation's field for a field of the request's `index`th resource.
#[must_use]
pub fn violation_field(index: usize, field: &str) -> String {
    format!("resources[{index}].{field}")
}

/// The way back: which resource, and its field.
#[must_use]
pub fn parse_violation_field(field: &str) -> Option<(usize, &str)> {
    let (index, rest) = field.strip_prefix("resources[")?.split_once(']')?;
    Some((index.parse().ok()?, rest.strip_prefix('.').unwrap_or(rest)))
}
