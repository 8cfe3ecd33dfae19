//! The server's messages as JSON values, by the schema itself: every field is
//! there, under its protobuf JSON name.

use penstock_api::v1;
use penstock_api::{DESCRIPTORS, convert};
use penstock_policies::document;
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, SerializeOptions};
use serde_json::Value;

use crate::failure::Failure;

/// Turns messages into values.
pub(crate) struct Messages(DescriptorPool);

impl Messages {
    pub(crate) fn new() -> Result<Self, Failure> {
        DescriptorPool::decode(DESCRIPTORS).map(Self).map_err(wrong)
    }

    /// A message, by its name in `penstock.v1`.
    pub(crate) fn value(&self, name: &str, message: &impl Message) -> Result<Value, Failure> {
        self.write(name, message, false)
    }

    /// The same, its fields named as in the schema.
    pub(crate) fn snake_case(&self, name: &str, message: &impl Message) -> Result<Value, Failure> {
        self.write(name, message, true)
    }

    fn write(&self, name: &str, message: &impl Message, snake: bool) -> Result<Value, Failure> {
        let descriptor = self
            .0
            .get_message_by_name(&format!("penstock.v1.{name}"))
            .ok_or_else(|| wrong(format!("no message {name}")))?;
        let dynamic = DynamicMessage::decode(descriptor, message.encode_to_vec().as_slice())
            .map_err(wrong)?;
        // Numbers as numbers, and what is zero shows too.
        let options = SerializeOptions::new()
            .stringify_64_bit_integers(false)
            .skip_default_fields(false)
            .use_proto_field_name(snake);
        dynamic
            .serialize_with_options(serde_json::value::Serializer, &options)
            .map_err(wrong)
    }

    /// A resource in the form of its document, with what the server adds.
    pub(crate) fn resource(&self, resource: &v1::Resource) -> Result<Value, Failure> {
        let mut document = document_of(resource)?;
        document.etag.clear();
        let mut value = serde_json::to_value(&document).map_err(wrong)?;
        if let Value::Object(fields) = &mut value {
            if let Some(metadata) = &resource.metadata {
                fields.insert("metadata".to_owned(), self.value("Metadata", metadata)?);
            }
            if let Some(status) = &resource.status {
                fields.insert("status".to_owned(), self.value("Status", status)?);
            }
        }
        Ok(value)
    }
}

/// A resource as the document that would declare it.
pub(crate) fn document_of(resource: &v1::Resource) -> Result<document::Resource, Failure> {
    convert::to_document(resource).map_err(|wrong| {
        let all: Vec<_> = wrong.iter().map(ToString::to_string).collect();
        Failure::Answer(format!("{}: {}", resource.name, all.join("; ")))
    })
}

fn wrong(error: impl std::fmt::Display) -> Failure {
    Failure::Answer(error.to_string())
}
