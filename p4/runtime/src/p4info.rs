//! Reads P4Info in the text form that p4c writes.

use std::sync::LazyLock;

use prost::Message;
use prost_reflect::{DescriptorError, DescriptorPool, DynamicMessage};
use thiserror::Error;

use crate::config::P4Info;

/// The schema's descriptors, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// Why a text is no P4Info.
#[derive(Debug, Error)]
pub enum ParseError {
    /// With line and column.
    #[error("p4info text: {0}")]
    Text(#[from] prost_reflect::text_format::ParseError),
    /// The text was read, but does not have P4Info's structure.
    #[error("p4info text: {0}")]
    Structure(#[from] prost::DecodeError),
    /// This crate was built with a broken schema.
    #[error("schema descriptors: {0}")]
    Schema(&'static DescriptorError),
    /// This crate was built with another schema.
    #[error("schema descriptors: no message p4.config.v1.P4Info")]
    NoP4Info,
}

/// Reads P4Info in protobuf text form.
///
/// # Errors
///
/// A syntax error, an unknown field, a value of the wrong type.
pub fn parse_text(text: &str) -> Result<P4Info, ParseError> {
    static POOL: LazyLock<Result<DescriptorPool, DescriptorError>> =
        LazyLock::new(|| DescriptorPool::decode(DESCRIPTORS));

    let pool = POOL.as_ref().map_err(ParseError::Schema)?;
    let descriptor = pool
        .get_message_by_name("p4.config.v1.P4Info")
        .ok_or(ParseError::NoP4Info)?;
    let message = DynamicMessage::parse_text_format(descriptor, text)?;
    Ok(P4Info::decode(message.encode_to_vec().as_slice())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_p4info_reads_as_it_was_built_in() {
        let read = parse_text(crate::pipeline::P4INFO_TEXT).unwrap();
        assert_eq!(read, crate::pipeline::p4info().unwrap());
        assert_eq!(read.tables.len(), crate::pipeline::Table::ALL.len());
    }

    #[test]
    fn errors_say_where() {
        let error = parse_text("tables {\n  preamble { id: \"x\" }\n}").unwrap_err();
        assert!(matches!(error, ParseError::Text(_)), "{error}");
        let error = parse_text("no_such_field: 1").unwrap_err();
        assert!(error.to_string().contains("no_such_field"), "{error}");
    }
}
