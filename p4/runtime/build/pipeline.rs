//! Writes the Rust source of the typed entries.
//!
//! What is the same for all tables is in the crate (`typed`); only names, ids
//! and field lists are generated.

use std::error::Error;
use std::fmt::{self, Write};

use crate::p4info::{Action, Header, Kind, Param, Program, Table};

const DERIVE: &str = "#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]";
const DERIVE_COPY: &str = "#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]";

pub(crate) fn generate(program: &Program, cookie: u64) -> Result<String, Box<dyn Error>> {
    let mut out = String::new();
    writeln!(
        out,
        "/// Changes with the P4 program: p4info or device config.\npub const COOKIE: u64 = {cookie:#018x};\n"
    )?;
    tables(&mut out, &program.tables)?;
    unions(&mut out, &program.tables)?;
    for table in &program.tables {
        module(&mut out, table)?;
    }
    for header in &program.headers {
        controller_header(&mut out, header)?;
    }
    Ok(out)
}

/// `enum Table`: what there is to say of a table without an entry of it.
fn tables(out: &mut String, tables: &[Table]) -> fmt::Result {
    writeln!(
        out,
        "/// The tables, in the order of the pipeline.\n{DERIVE_COPY}"
    )?;
    writeln!(out, "pub enum Table {{")?;
    for table in tables {
        writeln!(out, "/// `{}`\n{},", table.name, camel(&table.name))?;
    }
    writeln!(out, "}}\n\nimpl Table {{")?;
    writeln!(
        out,
        "/// Every table.\npub const ALL: [Self; {}] = [",
        tables.len()
    )?;
    for table in tables {
        writeln!(out, "Self::{},", camel(&table.name))?;
    }
    writeln!(out, "];\n")?;
    method(out, "The id in p4info.", "id", "u32", tables, |t| {
        format!("{:#010x}", t.id)
    })?;
    method(
        out,
        "The name in p4info.",
        "name",
        "&'static str",
        tables,
        |t| format!("{:?}", t.name),
    )?;
    method(
        out,
        "How many entries p4info promises.",
        "size",
        "u64",
        tables,
        |t| t.size.to_string(),
    )?;
    method(
        out,
        "Whether entries have a priority.",
        "has_priority",
        "bool",
        tables,
        |t| has_priority(t).to_string(),
    )?;
    method(
        out,
        "Whether entries may have an idle timeout.",
        "has_idle_timeout",
        "bool",
        tables,
        |t| t.idle_timeout.to_string(),
    )?;
    method(
        out,
        "Whether entries count their packets and bytes.",
        "is_counted",
        "bool",
        tables,
        |t| t.counted.to_string(),
    )?;
    method(
        out,
        "Whether entries may have a meter.",
        "is_metered",
        "bool",
        tables,
        |t| t.metered.to_string(),
    )?;
    writeln!(out, "}}\n")
}

fn method(
    out: &mut String,
    doc: &str,
    name: &str,
    result: &str,
    tables: &[Table],
    value: impl Fn(&Table) -> String,
) -> fmt::Result {
    writeln!(
        out,
        "/// {doc}\n#[must_use]\npub const fn {name}(self) -> {result} {{\nmatch self {{"
    )?;
    for table in tables {
        writeln!(out, "Self::{} => {},", camel(&table.name), value(table))?;
    }
    writeln!(out, "}}\n}}\n")
}

/// `Key` and `Entry`: one of any table.
fn unions(out: &mut String, tables: &[Table]) -> fmt::Result {
    for (union, doc) in [
        ("Key", "What tells one entry of the pipeline from another."),
        ("Entry", "An entry of any table."),
    ] {
        writeln!(out, "/// {doc}\n{DERIVE}\npub enum {union} {{")?;
        for table in tables {
            let variant = camel(&table.name);
            writeln!(out, "/// of `{0}`\n{variant}({0}::{union}),", table.name)?;
        }
        writeln!(out, "}}\n\nimpl {union} {{")?;
        writeln!(
            out,
            "/// The table.\n#[must_use]\npub const fn table(&self) -> Table {{\nmatch self {{"
        )?;
        for table in tables {
            let variant = camel(&table.name);
            writeln!(out, "Self::{variant}(_) => Table::{variant},")?;
        }
        writeln!(out, "}}\n}}\n")?;
        let what = if union == "Key" {
            "To the wire, as deletions and reads need it: no action."
        } else {
            "To the wire."
        };
        writeln!(
            out,
            "/// {what}\n#[must_use]\npub fn encode(&self) -> v1::TableEntry {{\nmatch self {{"
        )?;
        for table in tables {
            writeln!(out, "Self::{}(it) => it.encode(),", camel(&table.name))?;
        }
        writeln!(out, "}}\n}}\n")?;
        writeln!(
            out,
            "/// From the wire.\n///\n/// # Errors\n///\n/// What is wrong with the entry, by table and field.\npub fn decode(entry: &v1::TableEntry) -> Result<Self, DecodeError> {{\nmatch Table::from_id(entry.table_id)? {{"
        )?;
        for table in tables {
            let variant = camel(&table.name);
            writeln!(
                out,
                "Table::{variant} => {}::{union}::decode(entry).map(Self::{variant}),",
                table.name
            )?;
        }
        writeln!(out, "}}\n}}\n")?;
        if union == "Entry" {
            writeln!(
                out,
                "/// What tells it from other entries.\n#[must_use]\npub fn key(&self) -> Key {{\nmatch self {{"
            )?;
            for table in tables {
                let variant = camel(&table.name);
                writeln!(
                    out,
                    "Self::{variant}(it) => Key::{variant}(it.key.clone()),"
                )?;
            }
            writeln!(out, "}}\n}}")?;
        }
        writeln!(out, "}}\n")?;
        for table in tables {
            let variant = camel(&table.name);
            writeln!(
                out,
                "impl From<{0}::{union}> for {union} {{\nfn from(it: {0}::{union}) -> Self {{\nSelf::{variant}(it)\n}}\n}}\n",
                table.name
            )?;
        }
    }
    Ok(())
}

/// One module per table: `Key`, `Action`, `Entry`.
fn module(out: &mut String, table: &Table) -> fmt::Result {
    writeln!(
        out,
        "/// Table `{}`.\npub mod {} {{",
        table.name, table.name
    )?;
    writeln!(out, "use super::*;\n")?;
    writeln!(
        out,
        "/// The table.\npub const TABLE: Table = Table::{};\n",
        camel(&table.name)
    )?;
    key(out, table)?;
    actions(out, &table.actions)?;
    entry(out, table)?;
    writeln!(out, "}}\n")
}

fn key(out: &mut String, table: &Table) -> fmt::Result {
    writeln!(
        out,
        "/// Key of `{}`.\n{DERIVE}\npub struct Key {{",
        table.name
    )?;
    if has_priority(table) {
        writeln!(
            out,
            "/// Part of what tells entries apart; the higher number wins.\npub priority: Priority,"
        )?;
    }
    for field in &table.fields {
        let inner = rust_type(field.width);
        let (doc, ty) = match field.kind {
            Kind::Exact => ("exact", inner),
            Kind::Lpm => ("longest prefix", format!("Lpm<{inner}>")),
            Kind::Ternary => ("ternary", format!("Ternary<{inner}>")),
            Kind::Range => ("range", format!("Range<{inner}>")),
        };
        writeln!(
            out,
            "/// {} bits, {doc}\npub {}: {ty},",
            field.width,
            ident(&field.name)
        )?;
    }
    writeln!(out, "}}\n\nimpl Key {{")?;
    writeln!(
        out,
        "/// To the wire, as deletions and reads need it: no action.\n#[must_use]\npub fn encode(&self) -> v1::TableEntry {{"
    )?;
    writeln!(
        out,
        "let mut fields = encode::Fields::new({});",
        table.fields.len()
    )?;
    for field in &table.fields {
        writeln!(
            out,
            "fields.{}({}, self.{});",
            kind_name(field.kind),
            field.id,
            ident(&field.name)
        )?;
    }
    let priority = if has_priority(table) {
        "self.priority.get()"
    } else {
        "0"
    };
    writeln!(out, "fields.entry(TABLE, {priority})\n}}\n")?;
    writeln!(
        out,
        "/// From the wire; the action, if any, is not looked at.\n///\n/// # Errors\n///\n/// What is wrong with the key, by field.\npub fn decode(entry: &v1::TableEntry) -> Result<Self, DecodeError> {{"
    )?;
    writeln!(out, "let mut fields = decode::Fields::new(TABLE, entry)?;")?;
    writeln!(out, "let key = Self {{")?;
    if has_priority(table) {
        writeln!(out, "priority: fields.priority()?,")?;
    }
    for field in &table.fields {
        writeln!(
            out,
            "{}: fields.{}({}, {:?})?,",
            ident(&field.name),
            kind_name(field.kind),
            field.id,
            field.name
        )?;
    }
    writeln!(out, "}};\nfields.finish()?;\nOk(key)\n}}\n}}\n")
}

fn actions(out: &mut String, actions: &[Action]) -> fmt::Result {
    writeln!(out, "/// What an entry does.\n{DERIVE}\npub enum Action {{")?;
    for action in actions {
        write!(out, "/// `{}`\n{}", action.name, camel(&action.name))?;
        if !action.params.is_empty() {
            writeln!(out, " {{")?;
            for param in &action.params {
                writeln!(
                    out,
                    "/// {} bits\n{}: {},",
                    param.width,
                    ident(&param.name),
                    rust_type(param.width)
                )?;
            }
            write!(out, "}}")?;
        }
        writeln!(out, ",")?;
    }
    writeln!(
        out,
        "}}\n\nimpl Action {{\nfn encode(&self) -> v1::TableAction {{\nmatch *self {{"
    )?;
    for action in actions {
        let names: Vec<_> = action
            .params
            .iter()
            .map(|param| ident(&param.name))
            .collect();
        let pattern = if names.is_empty() {
            String::new()
        } else {
            format!("{{ {} }}", names.join(", "))
        };
        write!(
            out,
            "Self::{} {pattern} => encode::action({:#010x}, vec![",
            camel(&action.name),
            action.id
        )?;
        for param in &action.params {
            write!(out, "encode::param({}, {}),", param.id, ident(&param.name))?;
        }
        writeln!(out, "]),")?;
    }
    writeln!(
        out,
        "}}\n}}\n\nfn decode(entry: &v1::TableEntry) -> Result<Self, DecodeError> {{"
    )?;
    writeln!(
        out,
        "let mut params = decode::Params::new(TABLE, entry)?;\nlet action = match params.action() {{"
    )?;
    for action in actions {
        writeln!(out, "{:#010x} => {{", action.id)?;
        writeln!(
            out,
            "params.named({:?});\nSelf::{}",
            action.name,
            camel(&action.name)
        )?;
        if !action.params.is_empty() {
            writeln!(out, "{{")?;
            for param in &action.params {
                writeln!(
                    out,
                    "{}: params.value({}, {:?})?,",
                    ident(&param.name),
                    param.id,
                    param.name
                )?;
            }
            writeln!(out, "}}")?;
        }
        writeln!(out, "}}")?;
    }
    writeln!(
        out,
        "_ => return Err(params.unknown_action()),\n}};\nparams.finish()?;\nOk(action)\n}}\n}}\n"
    )
}

fn entry(out: &mut String, table: &Table) -> fmt::Result {
    writeln!(
        out,
        "/// An entry of `{}`.\n{DERIVE}\npub struct Entry {{",
        table.name
    )?;
    writeln!(
        out,
        "/// What it matches.\npub key: Key,\n/// What it does.\npub action: Action,"
    )?;
    if table.idle_timeout {
        writeln!(
            out,
            "/// Nanoseconds without a hit until a notification; 0 is never.\npub idle_timeout_ns: u64,"
        )?;
    }
    if table.metered {
        writeln!(
            out,
            "/// Rates of its meter; without, every packet is green.\npub meter: Option<Meter>,"
        )?;
    }
    writeln!(out, "}}\n\nimpl Entry {{")?;
    writeln!(
        out,
        "/// To the wire.\n#[must_use]\npub fn encode(&self) -> v1::TableEntry {{\nv1::TableEntry {{\naction: Some(self.action.encode()),"
    )?;
    if table.idle_timeout {
        writeln!(
            out,
            "idle_timeout_ns: encode::idle_timeout(self.idle_timeout_ns),"
        )?;
    }
    if table.metered {
        writeln!(out, "meter_config: self.meter.map(v1::MeterConfig::from),")?;
    }
    writeln!(out, "..self.key.encode()\n}}\n}}\n")?;
    writeln!(
        out,
        "/// From the wire. Counters, hit times and `metadata` are not part of an entry.\n///\n/// # Errors\n///\n/// What is wrong with the entry, by field.\npub fn decode(entry: &v1::TableEntry) -> Result<Self, DecodeError> {{\nOk(Self {{"
    )?;
    writeln!(
        out,
        "key: Key::decode(entry)?,\naction: Action::decode(entry)?,"
    )?;
    if table.idle_timeout {
        writeln!(out, "idle_timeout_ns: decode::idle_timeout(TABLE, entry)?,")?;
    }
    if table.metered {
        writeln!(out, "meter: decode::meter(TABLE, entry)?,")?;
    }
    writeln!(out, "}})\n}}\n}}\n")
}

/// A struct for the fields of `packet_in` or `packet_out`.
fn controller_header(out: &mut String, header: &Header) -> fmt::Result {
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

fn has_priority(table: &Table) -> bool {
    table
        .fields
        .iter()
        .any(|field| matches!(field.kind, Kind::Ternary | Kind::Range))
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Exact => "exact",
        Kind::Lpm => "lpm",
        Kind::Ternary => "ternary",
        Kind::Range => "range",
    }
}

fn rust_type(width: u32) -> String {
    match width {
        8 | 16 | 32 | 64 | 128 => format!("u{width}"),
        ..64 => format!("Bits<{width}>"),
        _ => format!("Wide<{width}>"),
    }
}

fn camel(name: &str) -> String {
    name.split('_')
        .map(|word| {
            let (first, rest) = word.split_at(word.len().min(1));
            first.to_uppercase() + rest
        })
        .collect()
}

fn ident(name: &str) -> String {
    match name {
        "type" | "match" | "move" | "ref" | "in" | "use" => format!("r#{name}"),
        _ => name.to_owned(),
    }
}
