//! The corpus: valid documents validate and read back as they were written;
//! invalid ones get exactly the diagnosis that stands at their end.

use std::path::{Path, PathBuf};

use penstock_policies::model::Tier;
use penstock_policies::{document, unresolved};

fn files(folder: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .expect("the corpus")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    files
        .into_iter()
        .map(|path| {
            let bytes = std::fs::read(&path).expect("a file");
            (path, bytes)
        })
        .collect()
}

#[test]
fn invalid_documents_get_their_diagnosis() {
    let files = files("corpus/invalid");
    assert!(files.len() >= 160);
    let mut wrong = String::new();
    for (path, bytes) in files {
        let text = String::from_utf8_lossy(&bytes);
        let expected: Vec<_> = text
            .lines()
            .filter_map(|l| l.strip_prefix("# expect: "))
            .collect();
        let found: Vec<String> = document::parse("f", &bytes)
            .validate()
            .expect_err(&path.display().to_string())
            .iter()
            .map(|d| {
                let place = format!("{}:{} {}", d.at.line, d.at.column, d.field);
                format!("{}: {}; {}", place.trim_end(), d.message, d.suggestion)
            })
            .collect();
        if found != expected {
            wrong.push_str(&format!("\n{}\n", path.display()));
            for line in found {
                wrong.push_str(&format!("# expect: {line}\n"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Each example, and all of them side by side.
#[test]
fn the_examples_are_valid_and_use_every_tier() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    for folder in [
        examples.join("two-tenants"),
        examples.join("tiers"),
        examples,
    ] {
        let read = document::load(&folder).expect("an example");
        let model = read.validate().unwrap_or_else(|all| panic!("{all:#?}"));
        let name = folder.display();
        assert!(unresolved::of(&model).is_empty(), "{name}");
        assert!(unresolved::lone(&model).is_empty(), "{name}");
        if folder.ends_with("tiers") {
            let tiers: Vec<_> = model.policies.values().map(|policy| policy.tier).collect();
            for tier in [Tier::Admin, Tier::Tenant, Tier::Baseline] {
                assert!(tiers.contains(&tier), "{tier:?}");
            }
            assert_eq!(model.peered.len(), 2);
        }
    }
}

#[test]
fn valid_documents_validate_and_read_back() {
    let mut files = files("corpus/valid");
    files.extend(
        self::files("examples/two-tenants")
            .into_iter()
            .filter(|(path, _)| {
                // The tenants need the nodes; the example is validated as a whole elsewhere.
                path.ends_with("nodes.yaml")
            }),
    );
    assert!(files.len() >= 40);
    for (path, bytes) in files {
        let name = path.display().to_string();
        let read = document::parse(&name, &bytes);
        let model = read
            .validate()
            .unwrap_or_else(|all| panic!("{name}: {all:#?}"));
        let written = document::to_yaml(&read.resources).expect("YAML");
        let again = document::parse("written", written.as_bytes());
        assert_eq!(again.resources, read.resources, "{name}:\n{written}");
        assert_eq!(again.validate().as_ref(), Ok(&model), "{name}");
    }
}
