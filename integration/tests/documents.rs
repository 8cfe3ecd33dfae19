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
