//! The project's pages: what they refer to is there.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Every Markdown file of the project.
fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() && !name.starts_with('.') && name != "target" {
            pages(&path, found);
        } else if path.extension().is_some_and(|it| it == "md") {
            found.push(path);
        }
    }
}

#[test]
fn links_lead_somewhere() {
    let mut found = Vec::new();
    pages(root(), &mut found);
    let (mut links, mut dead) = (0, Vec::new());
    for page in &found {
        let text = fs::read_to_string(page).expect("a readable page");
        for link in text.split("](").skip(1) {
            let target = link.split([')', '#']).next().unwrap_or_default();
            if target.is_empty() || target.starts_with("http") {
                continue;
            }
            links += 1;
            if !page.with_file_name(target).exists() {
                dead.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(links > 20, "only {links} links in {} pages", found.len());
    assert!(dead.is_empty(), "{dead:#?}");
}

#[test]
fn make_help_names_every_target_and_bench() {
    let read = |name: &str| fs::read_to_string(root().join(name)).expect("readable");
    let (makefile, bench) = (read("Makefile"), read("tools/bench"));
    let help: Vec<&str> = makefile
        .lines()
        .filter_map(|line| line.strip_prefix("#   "))
        .collect();
    let targets = makefile
        .lines()
        .find_map(|line| line.strip_prefix(".PHONY: help "));
    let targets = targets.expect("the targets").split_whitespace();
    let benches = bench.lines().filter(|line| line.contains(") package="));
    let benches = benches.filter_map(|line| line.split_once(')'));
    let benches = benches.map(|(name, _)| format!("bench-{}", name.trim()));
    let wanted: Vec<String> = targets.map(str::to_owned).chain(benches).collect();
    assert!(wanted.len() > 8, "{wanted:?}");
    for target in wanted {
        let line = format!("make {target}");
        let told = help
            .iter()
            .any(|it| *it == line || it.starts_with(&format!("{line} ")));
        assert!(told, "`make help` says nothing of {target}");
    }
    for variable in ["LCORES", "UNDERLAY", "KEEP", "JSON"] {
        let used = format!("$({variable})");
        assert!(makefile.contains(&used), "{variable} is of no use");
        let told = help.iter().any(|it| it.contains(&format!("{variable}=")));
        assert!(told, "`make help` says nothing of {variable}");
    }
}
