//! Documents from files, and the way back from a field to its line.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Resource;
use super::read::{LARGEST, parse};
use super::yaml::{Node, Value};
use crate::model::{self, Model};
use crate::{Diagnostic, Position, Problem};

/// What was read: `places[i]` is where `resources[i]` came from.
#[derive(Clone, Debug, Default)]
pub struct Documents {
    /// What could be made out.
    pub resources: Vec<Resource>,
    /// Where each came from.
    pub places: Vec<Place>,
    /// What is wrong with their form.
    pub problems: Vec<Diagnostic>,
}

/// Where a resource was written.
#[derive(Clone, Debug)]
pub struct Place {
    pub(super) file: Arc<str>,
    pub(super) tree: Node,
}

/// Why files cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The system says no.
    #[error("cannot read {path}: {error}", path = path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// A folder without documents.
    #[error("no .yaml or .yml file in {path}; name a file, or a folder that has some", path = .0.display())]
    Empty(PathBuf),
    /// Something in a folder that could have no end, or make us wait for ever.
    #[error("{path} is not a regular file; take it out of the folder, or name it itself", path = .0.display())]
    Special(PathBuf),
    /// Folders in folders in folders.
    #[error("{path} is more than 16 folders deep; name a folder nearer to the files", path = .0.display())]
    Deep(PathBuf),
}

/// Reads a file, or every .yaml and .yml file in a folder and below, in the
/// order of their names; `-` is standard input.
///
/// # Errors
/// If a file cannot be read. What is in them is not an error but a problem.
pub fn load(path: &Path) -> Result<Documents, LoadError> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |error| LoadError::Io { path, error }
    };
    if path == Path::new("-") {
        let mut bytes = Vec::new();
        // One byte more than may be, so that more shows.
        std::io::stdin()
            .take(LARGEST as u64 + 1)
            .read_to_end(&mut bytes)
            .map_err(io(path))?;
        return Ok(parse("stdin", &bytes));
    }
    let mut files = Vec::new();
    if path.is_dir() {
        collect(path, 0, &mut files)?;
        if files.is_empty() {
            return Err(LoadError::Empty(path.to_owned()));
        }
    } else {
        files.push(path.to_owned());
    }
    let mut all = Documents::default();
    for file in files {
        let mut bytes = Vec::new();
        std::fs::File::open(&file)
            .and_then(|f| f.take(LARGEST as u64 + 1).read_to_end(&mut bytes))
            .map_err(io(&file))?;
        let Documents {
            resources,
            places,
            problems,
        } = parse(&file.display().to_string(), &bytes);
        all.resources.extend(resources);
        all.places.extend(places);
        all.problems.extend(problems);
    }
    Ok(all)
}

fn collect(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), LoadError> {
    if depth > 16 {
        return Err(LoadError::Deep(folder.to_owned()));
    }
    let io = |error| LoadError::Io {
        path: folder.to_owned(),
        error,
    };
    let mut entries = std::fs::read_dir(folder)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(io)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, depth + 1, files)?;
        } else if path.extension().is_some_and(|e| e == "yaml" || e == "yml") {
            let metadata = std::fs::metadata(&path).map_err(|error| LoadError::Io {
                path: path.clone(),
                error,
            })?;
            if !metadata.is_file() {
                return Err(LoadError::Special(path));
            }
            files.push(path);
        }
    }
    Ok(())
}

impl Documents {
    /// Validates what was read, on its own.
    ///
    /// # Errors
    /// Everything wrong with form and meaning, in the order of the text.
    pub fn validate(&self) -> Result<Model, Vec<Diagnostic>> {
        let meaning = match model::validate(&self.resources) {
            Ok(model) if self.problems.is_empty() => return Ok(model),
            Ok(_) => Vec::new(),
            Err(problems) => problems,
        };
        // What follows from a field of the wrong form is not told again.
        let told: BTreeSet<_> = self
            .problems
            .iter()
            .map(|d| (d.file.as_ref(), d.name.as_str(), cause(&d.field)))
            .collect();
        let follows = |d: &Diagnostic| {
            ancestors(&d.field)
                .any(|field| told.contains(&(d.file.as_ref(), d.name.as_str(), field)))
        };
        let mut all = self.problems.clone();
        all.extend(
            meaning
                .iter()
                .filter_map(|p| self.locate(p))
                .filter(|d| !follows(d)),
        );
        all.sort_by(|a, b| (&a.file, a.at).cmp(&(&b.file, b.at)));
        Err(all)
    }

    /// Where a problem is; nothing if it is not about one of these resources.
    #[must_use]
    pub fn locate(&self, problem: &Problem) -> Option<Diagnostic> {
        let Problem {
            resource,
            name,
            field,
            message,
            suggestion,
        } = problem;
        let place = self.places.get(*resource)?;
        Some(Diagnostic {
            file: Arc::clone(&place.file),
            at: place.find(field),
            name: name.clone(),
            field: field.clone(),
            message: message.clone(),
            suggestion: suggestion.clone(),
        })
    }
}

/// The part of a document that a field of the wrong form makes unsound: all of
/// a list's element, else the field alone. Of some fields nothing else depends on
/// what they say.
fn cause(field: &str) -> &str {
    let last = field.rsplit('.').next().unwrap_or(field);
    if matches!(
        last,
        "direction" | "action" | "priority" | "stateful" | "log" | "operator"
    ) {
        return field;
    }
    field.rfind(']').map_or(field, |end| &field[..=end])
}

/// A field's path and those of everything around it.
fn ancestors(field: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(field), |f| Some(&f[..f.rfind(['.', '['])?]))
}

impl Place {
    /// The file it came from.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Where a field like `spec.ips[0]` is written; if it is not written,
    /// where the innermost part around it is.
    #[must_use]
    pub fn find(&self, field: &str) -> Position {
        let mut node = &self.tree;
        for step in field.split(['.', '[']).filter(|s| !s.is_empty()) {
            let index = step.strip_suffix(']').and_then(|i| i.parse::<usize>().ok());
            let next = match (&node.value, index) {
                (Value::List(items), Some(i)) => items.get(i),
                (Value::Map(entries), None) => {
                    entries.iter().find(|(k, _)| k.text == step).map(|(_, n)| n)
                }
                _ => None,
            };
            match next {
                Some(next) => node = next,
                None => break,
            }
        }
        node.at
    }
}
