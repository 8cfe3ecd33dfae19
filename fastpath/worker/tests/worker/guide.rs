//! docs/worker.md names all there is to set and to see, and nothing else.

use std::collections::BTreeSet;

use clap::CommandFactory as _;
use penstock_worker::config::Args;

const GUIDE: &str = include_str!("../../../../docs/worker.md");

/// First cells of the guide's tables whose header begins with `head`.
fn rows(head: &str) -> BTreeSet<&'static str> {
    let mut within = false;
    let mut names = BTreeSet::new();
    for line in GUIDE.lines() {
        let Some(row) = line.strip_prefix("| ") else {
            within &= line.starts_with('|');
            continue;
        };
        let cell = row.split(" |").next().unwrap_or_default();
        if cell == head {
            within = true;
        } else if within {
            names.extend(cell.split(", ").map(|name| name.trim_matches('`')));
        }
    }
    names
}

#[test]
fn every_field() {
    let source = include_str!("../../src/config/file.rs");
    let mut section = "";
    let mut fields = BTreeSet::new();
    for line in source.lines() {
        if let Some(name) = line.strip_prefix("pub struct ") {
            section = match name.trim_end_matches(" {") {
                "File" => "",
                "Tls" => "tls.",
                "Eal" => "eal.",
                "Attachments" => "attachments.",
                "Nic" => "nic.",
                "Uplink" => "nic.uplink.",
                "Capacity" => "nic.capacity.",
                other => panic!("{other}: a section that this test does not know"),
            };
        } else if let Some((name, _)) = line
            .strip_prefix("    pub ")
            .and_then(|it| it.split_once(':'))
        {
            fields.insert(format!("{section}{name}"));
        }
    }
    // Sections have tables of their own.
    for name in ["tls", "eal", "attachments", "nic"] {
        assert!(fields.remove(name), "{name}");
    }
    let fields: BTreeSet<&str> = fields.iter().map(String::as_str).collect();
    assert_eq!(rows("field"), fields);
}

#[test]
fn every_flag() {
    let command = Args::command();
    let flags: Vec<_> = command
        .get_arguments()
        .filter_map(clap::Arg::get_long)
        .collect();
    assert!(flags.contains(&"config"), "{flags:?}");
    for flag in flags {
        assert!(GUIDE.contains(&format!("`--{flag}")), "--{flag}");
    }
}

#[test]
fn every_metric() {
    let source = include_str!("../../src/metrics.rs");
    let words = source.split('"').skip(1).step_by(2);
    let families: BTreeSet<&str> = words.filter(|word| word.starts_with("penstock_")).collect();
    assert_eq!(rows("name"), families);
}
