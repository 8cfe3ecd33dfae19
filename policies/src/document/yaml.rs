//! YAML as a tree in which everything knows its place.
//!
//! Scalars stay text: what a `no` or a `1e3` is, is for the field to say that
//! it stands in. Anchors, aliases and tags are refused, so that a document is
//! never larger than its text.

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, Span};

use crate::Position;

/// How deep a document may nest; the deepest field has 10 levels.
const DEEPEST: usize = 16;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) at: Position,
    pub(crate) value: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// Left out, or `null`.
    Null,
    Text(String),
    List(Vec<Node>),
    /// In the order written.
    Map(Vec<(Key, Node)>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Key {
    pub(crate) at: Position,
    pub(crate) text: String,
}

/// The text cannot be read from here on.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) at: Position,
    pub(crate) message: String,
    pub(crate) suggestion: &'static str,
}

impl Node {
    pub(crate) const fn null(at: Position) -> Self {
        Self {
            at,
            value: Value::Null,
        }
    }
}

/// The documents of a stream, and why it ends early if it does.
pub(crate) fn documents(text: &str) -> (Vec<Node>, Option<Broken>) {
    let mut options = granit_parser::Options::default();
    options.emit_comments = false;
    let mut builder = Builder::default();
    for event in Parser::new_from_str_with_options(text, options) {
        let step = match event {
            Ok((event, span)) => builder.take(event, span),
            Err(e) if matches!(e.kind(), ErrorKind::RecursionLimitExceeded) => {
                Err(too_deep(position(*e.marker())))
            }
            Err(e) => Err(Broken {
                at: position(*e.marker()),
                message: format!("not YAML: {}", e.info()),
                suggestion: "correct the text here or just before it",
            }),
        };
        if let Err(broken) = step {
            return (builder.documents, Some(broken));
        }
    }
    (builder.documents, None)
}

#[derive(Debug, Default)]
struct Builder {
    documents: Vec<Node>,
    open: Vec<Open>,
}

/// A collection whose end has not come yet.
#[derive(Debug)]
enum Open {
    List(Position, Vec<Node>),
    Map(Position, Vec<(Key, Node)>, Option<Key>),
}

impl Builder {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Broken> {
        let at = position(span.start);
        let broken = |message: &str, suggestion| Broken {
            at,
            message: message.to_owned(),
            suggestion,
        };
        match event {
            Event::Scalar(_, _, anchor, ref tag) if anchor != 0 || tag.is_some() => {
                return Err(broken(ANCHOR, NO_ANCHOR));
            }
            Event::SequenceStart(_, anchor, ref tag) | Event::MappingStart(_, anchor, ref tag)
                if anchor != 0 || tag.is_some() =>
            {
                return Err(broken(ANCHOR, NO_ANCHOR));
            }
            Event::Alias(..) | Event::UnresolvedAlias(..) | Event::Anchor(..) => {
                return Err(broken(ANCHOR, NO_ANCHOR));
            }
            Event::Scalar(text, style, ..) => {
                if let Some(Open::Map(_, entries, key @ None)) = self.open.last_mut() {
                    if entries.iter().any(|(k, _)| k.text == text) {
                        let message = format!("{} is given twice", crate::suggest::quote(&text));
                        return Err(broken(&message, "keep one of the two"));
                    }
                    *key = Some(Key {
                        at,
                        text: text.into_owned(),
                    });
                } else {
                    let null = style == ScalarStyle::Plain
                        && matches!(&*text, "" | "~" | "null" | "Null" | "NULL");
                    let value = if null {
                        Value::Null
                    } else {
                        Value::Text(text.into_owned())
                    };
                    self.put(Node { at, value });
                }
            }
            Event::SequenceStart(..) | Event::MappingStart(..) => {
                if self.open.len() == DEEPEST {
                    return Err(too_deep(at));
                }
                if let Some(Open::Map(_, _, None)) = self.open.last() {
                    return Err(broken("a list or map as a key", "keys are plain words"));
                }
                self.open
                    .push(if matches!(event, Event::SequenceStart(..)) {
                        Open::List(at, Vec::new())
                    } else {
                        Open::Map(at, Vec::new(), None)
                    });
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(open) = self.open.pop() {
                    self.put(match open {
                        Open::List(at, items) => Node {
                            at,
                            value: Value::List(items),
                        },
                        Open::Map(at, entries, _) => Node {
                            at,
                            value: Value::Map(entries),
                        },
                    });
                }
            }
            // Presentation, or of a kind that carries no data.
            _ => {}
        }
        Ok(())
    }

    fn put(&mut self, node: Node) {
        match self.open.last_mut() {
            None => self.documents.push(node),
            Some(Open::List(_, items)) => items.push(node),
            Some(Open::Map(_, entries, key)) => {
                if let Some(key) = key.take() {
                    entries.push((key, node));
                }
            }
        }
    }
}

fn too_deep(at: Position) -> Broken {
    Broken {
        at,
        message: "nested more than 16 levels deep".to_owned(),
        suggestion: "no document needs that; check brackets and indentation",
    }
}

const ANCHOR: &str = "anchors, aliases and tags are not supported";
const NO_ANCHOR: &str = "write the value out";

fn position(mark: granit_parser::Marker) -> Position {
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Position {
        line: count(mark.line()),
        column: count(mark.col()).saturating_add(1),
    }
}
