//! The schema against an independent release of the official descriptors: every
//! message, field number, type, label and service.
//!
//! The release is PyPI's `p4runtime` package, installed into a private folder of
//! the target directory. Without it (no network, no python3) the comparison is
//! skipped, and says so.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use prost::Message;
use prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorSet};

/// p4runtime's own pins do not install together; these do.
const PACKAGES: [&str; 3] = [
    "p4runtime==1.6.0",
    "protobuf==3.20.3",
    "googleapis-common-protos==1.59.1",
];

const PATIENCE: Duration = Duration::from_secs(90);

#[test]
fn the_schema_is_the_official_one() {
    let official = match official() {
        Ok(lines) => lines,
        Err(reason) => {
            eprintln!("SKIPPED, NOT PASSED: no official descriptors to compare with: {reason}");
            return;
        }
    };
    let own = own();
    assert!(official.len() > 600, "only {} facts", official.len());
    let missing: Vec<_> = official.difference(&own).collect();
    let extra: Vec<_> = own.difference(&official).collect();
    assert!(
        missing.is_empty() && extra.is_empty(),
        "missing {missing:#?}\nextra {extra:#?}"
    );
}

/// One line for every fact of this crate's schema.
fn own() -> BTreeSet<String> {
    let set = FileDescriptorSet::decode(p4runtime::p4info::DESCRIPTORS).unwrap();
    let mut lines = BTreeSet::new();
    for file in set.file {
        let package = file.package().to_owned();
        if !package.starts_with("p4.") {
            continue;
        }
        for message in &file.message_type {
            describe(message, &package, &mut lines);
        }
        for item in &file.enum_type {
            describe_enum(item, &package, &mut lines);
        }
        for service in &file.service {
            for method in &service.method {
                lines.insert(format!(
                    "rpc {package}.{}.{} {} {} {} {}",
                    service.name(),
                    method.name(),
                    method.input_type(),
                    method.output_type(),
                    u8::from(method.client_streaming()),
                    u8::from(method.server_streaming()),
                ));
            }
        }
    }
    lines
}

fn describe(message: &DescriptorProto, scope: &str, lines: &mut BTreeSet<String>) {
    let name = format!("{scope}.{}", message.name());
    lines.insert(format!("message {name}"));
    for field in &message.field {
        let oneof = field
            .oneof_index
            .map_or("-", |index| message.oneof_decl[index as usize].name());
        lines.insert(format!(
            "field {name}.{} {} {} {} {} {oneof}",
            field.name(),
            field.number(),
            i32::from(field.r#type()),
            i32::from(field.label()),
            field.type_name.as_deref().unwrap_or("-"),
        ));
    }
    for nested in &message.nested_type {
        describe(nested, &name, lines);
    }
    for item in &message.enum_type {
        describe_enum(item, &name, lines);
    }
}

fn describe_enum(item: &EnumDescriptorProto, scope: &str, lines: &mut BTreeSet<String>) {
    for value in &item.value {
        lines.insert(format!(
            "value {scope}.{}.{} {}",
            item.name(),
            value.name(),
            value.number()
        ));
    }
}

/// The same lines from the official package.
fn official() -> Result<BTreeSet<String>, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("official-descriptors");
    let packages = folder.join("packages");
    if !folder.join("complete").exists() {
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&packages).map_err(|error| error.to_string())?;
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--no-deps"])
            .args([
                "--disable-pip-version-check",
                "--timeout",
                "15",
                "--retries",
                "1",
            ])
            .arg("--target")
            .arg(&packages)
            .args(PACKAGES);
        run(pip, folder.join("pip.log"))?;
        fs::write(folder.join("complete"), "").map_err(|error| error.to_string())?;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schema/describe.py");
    let mut python = Command::new("python3");
    python
        .arg(script)
        .env("PYTHONPATH", &packages)
        // The package's generated code is older than protobuf's C++ parts want.
        .env("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "python");
    let text = run(python, folder.join("describe.log"))?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// Runs a command into a file, for a limited time.
fn run(mut command: Command, log: PathBuf) -> Result<String, String> {
    let out = File::create(&log).map_err(|error| error.to_string())?;
    let err = out.try_clone().map_err(|error| error.to_string())?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .spawn()
        .map_err(|error| format!("{command:?}: {error}"))?;
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            break status;
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("{command:?} took longer than {PATIENCE:?}"));
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let text = fs::read_to_string(&log).map_err(|error| error.to_string())?;
    if status.success() {
        Ok(text)
    } else {
        Err(format!("{command:?}: {status}\n{text}"))
    }
}
