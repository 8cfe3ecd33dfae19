//! The struct of one controller header.

use std::fmt::{self, Write};

use super::{DERIVE_COPY, camel, ident, rust_type};
use crate::p4info::{Header, Param};

/// A struct for the fields of `packet_in` or `packet_out`.
pub(crate) fn controller_header(out: &mut String, header: &Header) -> fmt::Result {
    let name = camel(&header.name);
    let bits: u32 = header.fields.iter().map(|field| field.width).sum();
    writeln!(
        out,
        "/// Controller header `{}`.\n{DERIVE_COPY}\npub struct {name} {{",
        header.name
    )?;
    for field in &header.fields {
        writeln!(
            out,
            "/// {} bits\npub {}: {},",
            field.width,
            ident(&field.name),
            rust_type(field.width)
        )?;
    }
    writeln!(out, "}}\n\nimpl {name} {{")?;
    writeln!(
        out,
        "/// Length in front of a frame.\npub const LEN: usize = {};\n",
        bits / 8
    )?;
    writeln!(
        out,
        "/// As metadata of a message.\n#[must_use]\npub fn encode(&self) -> Vec<v1::PacketMetadata> {{\nvec!["
    )?;
    for field in &header.fields {
        writeln!(
            out,
            "encode::metadata({}, self.{}),",
            field.id,
            ident(&field.name)
        )?;
    }
    writeln!(out, "]\n}}\n")?;
    writeln!(
        out,
        "/// From the metadata of a message.\n///\n/// # Errors\n///\n/// What is wrong, by field.\npub fn decode(metadata: &[v1::PacketMetadata]) -> Result<Self, DecodeError> {{"
    )?;
    writeln!(
        out,
        "let mut fields = decode::Metadata::new({:?}, metadata)?;\nlet header = Self {{",
        header.name
    )?;
    for field in &header.fields {
        writeln!(
            out,
            "{}: fields.value({}, {:?})?,",
            ident(&field.name),
            field.id,
            field.name
        )?;
    }
    writeln!(out, "}};\nfields.finish()?;\nOk(header)\n}}\n")?;
    writeln!(
        out,
        "/// As bytes in front of a frame.\n#[must_use]\npub fn to_bytes(&self) -> [u8; Self::LEN] {{\nlet mut bytes = [0; Self::LEN];"
    )?;
    offsets(&header.fields, |field, at| {
        writeln!(
            out,
            "encode::fixed(&mut bytes[{at}..{}], self.{});",
            at + field.width / 8,
            ident(&field.name)
        )
    })?;
    writeln!(out, "bytes\n}}\n")?;
    writeln!(
        out,
        "/// From the bytes in front of a frame.\n#[must_use]\npub fn from_bytes(bytes: &[u8; Self::LEN]) -> Self {{\nSelf {{"
    )?;
    offsets(&header.fields, |field, at| {
        writeln!(
            out,
            "{}: decode::fixed(&bytes[{at}..{}]),",
            ident(&field.name),
            at + field.width / 8
        )
    })?;
    writeln!(out, "}}\n}}\n}}\n")
}

fn offsets(fields: &[Param], mut each: impl FnMut(&Param, u32) -> fmt::Result) -> fmt::Result {
    let mut at = 0;
    for field in fields {
        assert!(
            field.width.is_multiple_of(8),
            "controller headers have whole bytes"
        );
        each(field, at)?;
        at += field.width / 8;
    }
    Ok(())
}
