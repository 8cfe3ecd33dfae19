//! Writes the Rust source of the typed entries.
//!
//! What is the same for all tables is in the crate (`typed`); only names, ids
//! and field lists are generated.

mod header;
mod table;

use std::error::Error;
use std::fmt::{self, Write};

use crate::p4info::{Kind, Program, Table};

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
        table::module(&mut out, table)?;
    }
    for header in &program.headers {
        header::controller_header(&mut out, header)?;
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
