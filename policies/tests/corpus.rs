//! The corpus: valid documents validate and read back as they were written;
//! invalid ones get exactly the diagnosis that stands at their end.

use std::path::{Path, PathBuf};

use penstock_policies::document;

fn files(folder: &str) -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .expect("the corpus")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    files
        .into_iter()
        .map(|path| {
            let text = std::fs::read_to_string(&path).expect("a file");
            (path, text)
        })
        .collect()
}

#[test]
fn invalid_documents_get_their_diagnosis() {
    let files = files("corpus/invalid");
    assert!(files.len() >= 25);
    let mut wrong = String::new();
    for (path, text) in files {
        let expected: Vec<_> = text
            .lines()
            .filter_map(|l| l.strip_prefix("# expect: "))
            .collect();
        let found: Vec<String> = document::parse("f", text.as_bytes())
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
    assert!(files.len() >= 8);
    for (path, text) in files {
        let name = path.display().to_string();
        let read = document::parse(&name, text.as_bytes());
        let model = read
            .validate()
            .unwrap_or_else(|all| panic!("{name}: {all:#?}"));
        let written = document::to_yaml(&read.resources).expect("YAML");
        let again = document::parse("written", written.as_bytes());
        assert_eq!(again.resources, read.resources, "{name}:\n{written}");
        assert_eq!(again.validate().as_ref(), Ok(&model), "{name}");
    }
}
