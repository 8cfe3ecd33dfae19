//! Reading one tree's fields, with every problem noted on the way.

use std::collections::{BTreeMap, BTreeSet};

use super::yaml::{Key, Node, Value};
use crate::Position;
use crate::suggest::{did_you_mean, quote};

/// What is wrong with one field.
#[derive(Debug)]
pub(crate) struct Wrong {
    pub(crate) at: Position,
    pub(crate) field: String,
    pub(crate) message: String,
    pub(crate) suggestion: String,
}

/// Takes note while trees are read.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) wrong: Vec<Wrong>,
    /// When listing the schema: every path asked for.
    pub(crate) asked: Option<BTreeSet<String>>,
}

impl Notes {
    pub(crate) fn wrong(
        &mut self,
        at: Position,
        field: &str,
        message: impl Into<String>,
        suggestion: impl Into<String>,
    ) {
        self.wrong.push(Wrong {
            at,
            field: field.to_owned(),
            message: message.into(),
            suggestion: suggestion.into(),
        });
    }
}

/// Stands for what is not there, when listing the schema.
static NOTHING: Node = Node::null(Position { line: 0, column: 0 });

/// A map whose fields are taken one by one; `finish` refuses what is left.
#[derive(Debug)]
pub(crate) struct Object<'a, 'n> {
    notes: &'n mut Notes,
    path: String,
    at: Position,
    entries: &'a [(Key, Node)],
    known: Vec<&'static str>,
}

impl<'a, 'n> Object<'a, 'n> {
    /// `path`: of the map itself; empty at the top.
    pub(crate) fn new(node: &'a Node, path: &str, notes: &'n mut Notes) -> Self {
        let entries: &[_] = match &node.value {
            Value::Map(entries) => entries,
            Value::Null => &[],
            Value::Text(_) | Value::List(_) => {
                let found = described(node);
                notes.wrong(
                    node.at,
                    path,
                    format!("expected fields, found {found}"),
                    "write `field: value` lines",
                );
                &[]
            }
        };
        Self {
            notes,
            path: path.to_owned(),
            at: node.at,
            entries,
            known: Vec::new(),
        }
    }

    /// Where the map begins.
    pub(crate) const fn at(&self) -> Position {
        self.at
    }

    pub(crate) const fn notes(&mut self) -> &mut Notes {
        self.notes
    }

    /// The field's path.
    pub(crate) fn path(&self, field: &str) -> String {
        if self.path.is_empty() {
            field.to_owned()
        } else {
            format!("{}.{field}", self.path)
        }
    }

    /// The field's value; nothing if it is absent or null.
    pub(crate) fn take(&mut self, field: &'static str) -> Option<&'a Node> {
        self.known.push(field);
        let path = self.path(field);
        if let Some(asked) = &mut self.notes.asked {
            asked.insert(path);
        }
        let (_, node) = self.entries.iter().find(|(key, _)| key.text == field)?;
        (node.value != Value::Null).then_some(node)
    }

    pub(crate) fn text(&mut self, field: &'static str) -> String {
        let path = self.path(field);
        self.take(field)
            .and_then(|node| text(node, &path, self.notes))
            .unwrap_or_default()
    }

    pub(crate) fn optional_number(&mut self, field: &'static str) -> Option<u32> {
        let node = self.take(field)?;
        let path = self.path(field);
        let written = text(node, &path, self.notes)?;
        let digits = written.bytes().all(|b| b.is_ascii_digit());
        let number = written.parse().ok().filter(|_| digits);
        if number.is_none() {
            self.notes.wrong(
                node.at,
                &path,
                format!("{} is not a whole number", quote(&written)),
                "write digits only, 0 to 4294967295",
            );
        }
        number
    }

    pub(crate) fn number(&mut self, field: &'static str) -> u32 {
        self.optional_number(field).unwrap_or_default()
    }

    pub(crate) fn optional_text(&mut self, field: &'static str) -> Option<String> {
        let path = self.path(field);
        self.take(field)
            .and_then(|node| text(node, &path, self.notes))
    }

    pub(crate) fn flag(&mut self, field: &'static str) -> Option<bool> {
        let node = self.take(field)?;
        let path = self.path(field);
        let written = text(node, &path, self.notes)?;
        let flag = match written.as_str() {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        };
        if flag.is_none() {
            let suggestion = match written.to_ascii_lowercase().as_str() {
                "yes" | "on" | "true" | "1" => "did you mean true?",
                "no" | "off" | "false" | "0" => "did you mean false?",
                _ => "write true or false",
            };
            let message = format!("{} is neither true nor false", quote(&written));
            self.notes.wrong(node.at, &path, message, suggestion);
        }
        flag
    }

    /// What is read from the fields of a field; nothing if it is absent or null.
    pub(crate) fn nested<T>(
        &mut self,
        field: &'static str,
        read: impl FnOnce(&Node, &str, &mut Notes) -> T,
    ) -> Option<T> {
        let path = self.path(field);
        if let Some(node) = self.take(field) {
            return Some(read(node, &path, self.notes));
        }
        if self.notes.asked.is_some() {
            read(&NOTHING, &path, self.notes);
        }
        None
    }

    /// Takes note of a list that is given without anything in it.
    pub(crate) fn refuse_empty(&mut self, field: &str, suggestion: &str) {
        let found = self.entries.iter().find(|(key, _)| key.text == field);
        if let Some((_, node)) = found
            && matches!(&node.value, Value::List(items) if items.is_empty())
        {
            let path = self.path(field);
            let message = "is a list of none";
            self.notes.wrong(node.at, &path, message, suggestion);
        }
    }

    /// One of some words.
    pub(crate) fn word<T: Copy>(
        &mut self,
        field: &'static str,
        all: &[T],
        name: fn(T) -> &'static str,
    ) -> Option<T> {
        let node = self.take(field)?;
        let path = self.path(field);
        word(node, &path, all, name, self.notes)
    }

    /// A list; an element that cannot be read is noted and left out.
    pub(crate) fn list<T>(
        &mut self,
        field: &'static str,
        mut element: impl FnMut(&'a Node, &str, &mut Notes) -> Option<T>,
    ) -> Vec<T> {
        let path = self.path(field);
        let Some(node) = self.take(field) else {
            if self.notes.asked.is_some() {
                element(&NOTHING, &format!("{path}[]"), self.notes);
            }
            return Vec::new();
        };
        let Value::List(items) = &node.value else {
            let found = described(node);
            self.notes.wrong(
                node.at,
                &path,
                format!("expected a list, found {found}"),
                "write one `- ` line per element, or [a, b]",
            );
            return Vec::new();
        };
        items
            .iter()
            .enumerate()
            .filter_map(|(i, item)| element(item, &format!("{path}[{i}]"), self.notes))
            .collect()
    }

    pub(crate) fn texts(&mut self, field: &'static str) -> Vec<String> {
        self.list(field, text)
    }

    pub(crate) fn map(&mut self, field: &'static str) -> BTreeMap<String, String> {
        let path = self.path(field);
        let Some(node) = self.take(field) else {
            return BTreeMap::new();
        };
        let Value::Map(entries) = &node.value else {
            let found = described(node);
            self.notes.wrong(
                node.at,
                &path,
                format!("expected fields, found {found}"),
                "write `key: value` lines",
            );
            return BTreeMap::new();
        };
        entries
            .iter()
            .filter_map(|(key, node)| {
                let path = format!("{path}.{}", key.text);
                Some((key.text.clone(), text(node, &path, self.notes)?))
            })
            .collect()
    }

    /// Refuses every field that was not asked for.
    pub(crate) fn finish(self) {
        for (key, _) in self.entries {
            if self.known.contains(&key.text.as_str()) {
                continue;
            }
            let suggestion = did_you_mean(&key.text, self.known.iter().copied())
                .unwrap_or_else(|| format!("the fields here are {}", self.known.join(", ")));
            let path = self.path(&short(&key.text));
            self.notes.wrong(
                key.at,
                &path,
                format!("unknown field {}", quote(&key.text)),
                suggestion,
            );
        }
    }
}

pub(crate) fn text(node: &Node, path: &str, notes: &mut Notes) -> Option<String> {
    match &node.value {
        Value::Text(text) => Some(text.clone()),
        Value::Null if notes.asked.is_some() => None,
        Value::Null | Value::List(_) | Value::Map(_) => {
            notes.wrong(
                node.at,
                path,
                format!("expected a value, found {}", described(node)),
                "write a single value",
            );
            None
        }
    }
}

pub(crate) fn word<T: Copy>(
    node: &Node,
    path: &str,
    all: &[T],
    name: fn(T) -> &'static str,
    notes: &mut Notes,
) -> Option<T> {
    let written = text(node, path, notes)?;
    let found = all.iter().copied().find(|v| name(*v) == written);
    if found.is_none() {
        let names: Vec<_> = all.iter().map(|v| name(*v)).collect();
        let suggestion = did_you_mean(&written, names.iter().copied())
            .unwrap_or_else(|| format!("write one of {}", names.join(", ")));
        notes.wrong(
            node.at,
            path,
            format!("unknown value {}", quote(&written)),
            suggestion,
        );
    }
    found
}

fn described(node: &Node) -> &'static str {
    match node.value {
        Value::Null => "nothing",
        Value::Text(_) => "a single value",
        Value::List(_) => "a list",
        Value::Map(_) => "fields",
    }
}

/// A key as part of a path.
fn short(key: &str) -> String {
    key.chars().take(64).filter(|c| !c.is_control()).collect()
}
