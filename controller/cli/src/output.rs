//! Printing: tables for people, JSON and YAML for programs.

use std::io::Write as _;

use comfy_table::{Cell, ContentArrangement, Table};
use penstock_policies::Diagnostic;
use serde_json::{Value, json};

use crate::args::Format;
use crate::failure::Failure;

/// Prints to standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let line = if text.is_empty() || text.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    write!(out, "{text}{line}")
        .and_then(|()| out.flush())
        .map_err(Failure::Print)
}

/// Prints one value, or its table.
pub(crate) fn one(
    format: Format,
    value: impl FnOnce() -> Result<Value, Failure>,
    table: impl FnOnce() -> Result<String, Failure>,
) -> Result<(), Failure> {
    match format {
        Format::Table => print(&table()?),
        Format::Json => print(&to_json(&value()?)?),
        Format::Yaml => print(&to_yaml(&value()?)?),
    }
}

/// Prints many values: a JSON list, a stream of YAML documents, or a table.
pub(crate) fn many(
    format: Format,
    values: impl FnOnce() -> Result<Vec<Value>, Failure>,
    table: impl FnOnce() -> Result<String, Failure>,
) -> Result<(), Failure> {
    match format {
        Format::Table => print(&table()?),
        Format::Json => print(&to_json(&Value::Array(values()?))?),
        Format::Yaml => {
            let all = values()?
                .iter()
                .map(to_yaml)
                .collect::<Result<Vec<_>, _>>()?;
            print(&all.join("---\n"))
        }
    }
}

fn to_json(value: &Value) -> Result<String, Failure> {
    serde_json::to_string_pretty(value).map_err(|e| Failure::Answer(e.to_string()))
}

fn to_yaml(value: &Value) -> Result<String, Failure> {
    serde_saphyr::to_string(value).map_err(|e| Failure::Answer(e.to_string()))
}

/// Prints problems where results go: they are the result.
pub(crate) fn problems(format: Format, all: &[Diagnostic]) -> Result<(), Failure> {
    let value = |d: &Diagnostic| {
        let Diagnostic {
            file,
            at,
            name,
            field,
            message,
            suggestion,
        } = d;
        json!({
            "file": &**file, "line": at.line, "column": at.column, "name": name,
            "field": field, "message": message, "suggestion": suggestion,
        })
    };
    let lines = || all.iter().map(|d| format!("{d}\n")).collect::<String>();
    many(
        format,
        || Ok(all.iter().map(value).collect()),
        || Ok(lines()),
    )
}

/// A table without lines, which greps and pastes well.
pub(crate) fn table<const N: usize>(
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut table = Table::new();
    table
        .load_style(comfy_table::presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header.map(Cell::new));
    for row in rows {
        table.add_row(row.map(|text| {
            let text = if text.is_empty() {
                "-".to_owned()
            } else {
                text
            };
            Cell::new(text)
        }));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let mut out = String::new();
    for line in table.lines() {
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}
