//! Which fields there are, and whether bytes have others.

use std::collections::{BTreeMap, HashMap, HashSet};

use prost::{DecodeError, Message as _};
use prost_types::field_descriptor_proto::Label;
use prost_types::{DescriptorProto, FileDescriptorSet};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

/// What there is, by full names with the dot in front that descriptors have.
pub(super) struct Schema {
    inputs: HashSet<String>,
    messages: HashMap<String, HashMap<u32, Field>>,
}

struct Field {
    name: String,
    repeated: bool,
    /// The message that it is.
    message: Option<String>,
}

/// What is wrong with bytes.
pub(super) enum Wrong {
    /// A field that `message` does not have.
    Unknown {
        field: u32,
        message: String,
        path: Vec<String>,
    },
    /// They are no message.
    Malformed,
}

impl Schema {
    pub(super) fn ours() -> Result<Self, DecodeError> {
        let set = FileDescriptorSet::decode(crate::DESCRIPTORS)?;
        let mut this = Self {
            inputs: HashSet::new(),
            messages: HashMap::new(),
        };
        for file in &set.file {
            let methods = file.service.iter().flat_map(|service| &service.method);
            this.inputs
                .extend(methods.map(|it| it.input_type().to_owned()));
            this.add(&format!(".{}", file.package()), &file.message_type);
        }
        Ok(this)
    }

    fn add(&mut self, scope: &str, messages: &[DescriptorProto]) {
        for message in messages {
            let name = format!("{scope}.{}", message.name());
            self.add(&name, &message.nested_type);
            let fields = message.field.iter().map(|field| {
                let this = Field {
                    name: field.json_name().to_owned(),
                    repeated: field.label() == Label::Repeated,
                    message: field.type_name.clone(),
                };
                (field.number().unsigned_abs(), this)
            });
            self.messages.insert(name, fields.collect());
        }
    }

    /// Whether a method takes it.
    pub(super) fn is_input(&self, message: &str) -> bool {
        self.inputs.contains(message)
    }

    /// Finds the first field that nobody knows.
    pub(super) fn check(&self, message: &str, mut bytes: &[u8]) -> Result<(), Wrong> {
        // An enum has a name, too, and no fields.
        let Some(fields) = self.messages.get(message) else {
            return Ok(());
        };
        let mut seen = BTreeMap::new();
        while !bytes.is_empty() {
            let key = number(&mut bytes)?;
            let (tag, wire) = ((key >> 3) as u32, key & 7);
            let field = fields.get(&tag).ok_or_else(|| Wrong::Unknown {
                field: tag,
                message: message.trim_start_matches('.').to_owned(),
                path: Vec::new(),
            })?;
            let value = value(wire, &mut bytes)?;
            if let (Some(inner), 2) = (&field.message, wire) {
                let index = seen.entry(tag).or_insert(0_usize);
                self.check(inner, value)
                    .map_err(|wrong| wrong.within(field, *index))?;
                *index += 1;
            }
        }
        Ok(())
    }
}

impl Wrong {
    /// Found inside this field.
    fn within(mut self, field: &Field, index: usize) -> Self {
        if let Self::Unknown { path, .. } = &mut self {
            path.push(if field.repeated {
                format!("{}[{index}]", field.name)
            } else {
                field.name.clone()
            });
        }
        self
    }

    /// For whoever has sent them.
    pub(super) fn status(self) -> Status {
        let Self::Unknown {
            field,
            message,
            mut path,
        } = self
        else {
            return Status::internal("the request is no protobuf message");
        };
        path.reverse();
        let path = path.join(".");
        let why = format!(
            "{message} has no field {field} here; bring the server up to date, or leave the field out"
        );
        let text = if path.is_empty() {
            why.clone()
        } else {
            format!("{path}: {why}")
        };
        let details = ErrorDetails::with_bad_request_violation(path, why);
        Status::with_error_details(Code::InvalidArgument, text, details)
    }
}

/// A number of variable length.
fn number(bytes: &mut &[u8]) -> Result<usize, Wrong> {
    prost::decode_length_delimiter(bytes).map_err(|_| Wrong::Malformed)
}

/// Takes a field's value off, without its length.
fn value<'a>(wire: usize, bytes: &mut &'a [u8]) -> Result<&'a [u8], Wrong> {
    let len = match wire {
        0 => bytes.iter().take_while(|byte| **byte >= 0x80).count() + 1,
        1 => 8,
        2 => number(bytes)?,
        5 => 4,
        _ => return Err(Wrong::Malformed),
    };
    let (value, rest) = bytes.split_at_checked(len).ok_or(Wrong::Malformed)?;
    *bytes = rest;
    Ok(value)
}
