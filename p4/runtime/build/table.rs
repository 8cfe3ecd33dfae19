//! The module of one table: `Key`, `Action`, `Entry`.

use std::fmt::{self, Write};

use super::{DERIVE, camel, has_priority, ident, kind_name, rust_type};
use crate::p4info::{Action, Kind, Table};

/// One module per table: `Key`, `Action`, `Entry`.
pub(crate) fn module(out: &mut String, table: &Table) -> fmt::Result {
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
