//! The whole set, checked together.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use penstock_api::convert;
use penstock_policies::model::{self, Model};

use crate::world::{Row, Rows};

/// Something wrong with one field of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The resource.
    pub name: String,
    /// Path below the resource.
    pub field: String,
    /// What is wrong and what to do.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            field,
            message,
        } = self;
        write!(f, "{name}: {field}: {message}")
    }
}

/// Proof that a set has passed, and what it means.
#[derive(Clone, Debug)]
pub struct Validated {
    model: Arc<Model>,
}

impl Validated {
    /// What the set means.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }
}

/// Checks a set. Where two resources claim the same thing, the problem is told
/// of one in `fresh` rather than of one that was there before.
///
/// # Errors
/// Every problem found, up to a limit of the validation.
pub fn validate(rows: &Rows, fresh: &[Arc<Row>]) -> Result<Validated, Vec<Problem>> {
    let last: HashSet<&str> = fresh.iter().map(|row| row.name()).collect();
    let ordered = rows
        .values()
        .filter(|row| !last.contains(row.name()))
        .chain(fresh);
    let mut documents = Vec::with_capacity(rows.len());
    let mut problems = Vec::new();
    for row in ordered {
        match convert::to_document(&row.resource) {
            Ok(document) => documents.push(document),
            Err(invalid) => problems.extend(invalid.into_iter().map(|it| Problem {
                name: row.name().to_owned(),
                field: it.field,
                message: format!("{}; {}", it.message, it.suggestion),
            })),
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    match model::validate(&documents) {
        Ok(model) => Ok(Validated {
            model: Arc::new(model),
        }),
        Err(found) => Err(found
            .into_iter()
            .map(|it| Problem {
                name: documents
                    .get(it.resource)
                    .map_or(it.name, |document| document.name.clone()),
                field: it.field,
                message: format!("{}; {}", it.message, it.suggestion),
            })
            .collect()),
    }
}
