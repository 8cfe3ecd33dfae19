//! What is wrong, where, and what to do about it.

use std::fmt;
use std::sync::Arc;

/// How many problems are worth telling at once.
const MOST: usize = 1000;

/// Something wrong with one field of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The resource's place in what was validated.
    pub resource: usize,
    /// Its name, shortened if it is absurd; what cannot be seen in it is escaped, here
    /// and in the other texts.
    pub name: String,
    /// `name`, or a path like `spec.rules[2].peers[0].cidr.prefix`.
    pub field: String,
    /// What is wrong, with the value.
    pub message: String,
    /// What to do.
    pub suggestion: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            field,
            message,
            suggestion,
            ..
        } = self;
        write!(f, "{name}: {field}: {message}; {suggestion}")
    }
}

/// Problems found so far: the first thousand, and how many more there are.
#[derive(Clone, Debug, Default)]
pub struct Problems {
    list: Vec<Problem>,
    more: usize,
}

impl Problems {
    pub(crate) fn push(&mut self, problem: Problem) {
        if self.list.len() < MOST {
            self.list.push(problem);
        } else {
            self.more += 1;
        }
    }

    /// How many there are.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.list.len() + self.more
    }

    /// In the order of the resources; the last says so if some are left out.
    #[must_use]
    pub fn into_vec(mut self) -> Vec<Problem> {
        if self.more > 0
            && let Some(last) = self.list.last_mut()
        {
            last.suggestion
                .push_str(&format!(" (and {} more problems not shown)", self.more));
        }
        self.list.sort_by_key(|p| p.resource);
        self.list
    }
}

/// A place in a text, both from 1; columns count characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line.
    pub line: u32,
    /// Column.
    pub column: u32,
}

/// Something wrong at a place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// As it was named by whoever had it read.
    pub file: Arc<str>,
    /// Where in it; line 0: nowhere in particular.
    pub at: Position,
    /// The resource's name, where it is known.
    pub name: String,
    /// The field's path; empty where the text itself is wrong.
    pub field: String,
    /// What is wrong, with the value.
    pub message: String,
    /// What to do.
    pub suggestion: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file,
            at,
            name,
            field,
            message,
            suggestion,
        } = self;
        if at.line == 0 {
            write!(f, "{file}: ")?;
        } else {
            write!(f, "{file}:{}:{}: ", at.line, at.column)?;
        }
        for part in [name, field] {
            if !part.is_empty() {
                write!(f, "{part}: ")?;
            }
        }
        write!(f, "{message}; {suggestion}")
    }
}
