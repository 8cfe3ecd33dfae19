//! The walls of the workspace: who may depend on whom, and where unsafe lives.
//! ARCHITECTURE.md draws the same floors.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A crate may use only crates of lower floors.
const FLOORS: &[(u32, &[&str])] = &[
    (0, &["dpdk-sys", "penstock-identity"]),
    (1, &["penstock-flow", "p4runtime", "dpdk"]),
    (2, &["penstock-rules"]),
    (
        3,
        &[
            "penstock-policies",
            "penstock-slowpath-api",
            "penstock-engine",
        ],
    ),
    (4, &["penstock-api", "penstock-offline", "penstock-verify"]),
    (5, &["penstockd", "penstock-cli", "penstock-worker"]),
    (
        6,
        &[
            "penstock-integration",
            "penstock-bench",
            "penstock-reference",
        ],
    ),
];

/// The only crates that may contain unsafe code.
const UNSAFE: &[&str] = &["dpdk-sys", "dpdk"];

/// Crates that need libdpdk; nothing else may reach them.
const NEED_DPDK: &[&str] = &["dpdk-sys", "dpdk", "penstock-worker", "penstock-bench"];

fn metadata() -> Value {
    let out = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--offline",
        ])
        .current_dir(root())
        .output()
        .expect("cargo metadata runs");
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    serde_json::from_slice(&out.stdout).expect("cargo metadata prints JSON")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("integration/ has a parent")
        .to_owned()
}

/// Package name -> its dependencies inside the workspace, of every kind.
fn arrows() -> BTreeMap<String, Vec<String>> {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("packages");
    let name = |v: &Value| v["name"].as_str().expect("a name").to_owned();
    let members: Vec<String> = packages.iter().map(name).collect();
    packages
        .iter()
        .map(|p| {
            let deps = p["dependencies"].as_array().expect("dependencies");
            (
                name(p),
                deps.iter()
                    .map(name)
                    .filter(|d| members.contains(d))
                    .collect(),
            )
        })
        .collect()
}

fn floor(name: &str) -> u32 {
    let found = FLOORS.iter().find(|(_, names)| names.contains(&name));
    assert!(
        found.is_some(),
        "{name} stands on no floor: add it to FLOORS and ARCHITECTURE.md"
    );
    found.map_or(0, |(floor, _)| *floor)
}

#[test]
fn arrows_point_down() {
    let arrows = arrows();
    assert!(
        arrows.len() >= 13,
        "cargo metadata lists only {:?}",
        arrows.keys()
    );
    for (from, to) in &arrows {
        // A crate's tests may use more of it than it gives by default.
        for to in to.iter().filter(|to| *to != from) {
            assert!(
                floor(to) < floor(from),
                "{from} (floor {}) uses {to} (floor {})",
                floor(from),
                floor(to)
            );
        }
    }
}

#[test]
fn only_the_worker_reaches_libdpdk() {
    for (from, to) in arrows() {
        if NEED_DPDK.contains(&from.as_str()) {
            continue;
        }
        assert!(
            to.iter().all(|t| !NEED_DPDK.contains(&t.as_str())),
            "{from} uses {to:?}"
        );
    }
}

#[test]
fn unsafe_has_an_address() {
    let metadata = metadata();
    let mut checked = 0;
    for package in metadata["packages"].as_array().expect("packages") {
        let name = package["name"].as_str().expect("a name");
        if UNSAFE.contains(&name) {
            continue;
        }
        for target in package["targets"].as_array().expect("targets") {
            let kind = target["kind"][0].as_str().expect("a kind");
            if !matches!(kind, "lib" | "bin") {
                continue;
            }
            let path = target["src_path"].as_str().expect("a path");
            let text = fs::read_to_string(path).expect("a crate root is readable");
            assert!(
                text.contains("#![forbid(unsafe_code)]"),
                "{path} does not forbid unsafe code"
            );
            checked += 1;
        }
    }
    assert!(checked > 10, "only {checked} crate roots looked at");
}

#[test]
fn the_datapath_names_no_operating_system() {
    for name in ["flow", "rules", "engine"] {
        let path = root().join("fastpath").join(name).join("src/lib.rs");
        let text = fs::read_to_string(&path).expect("a crate root is readable");
        assert!(
            text.lines().any(|l| l == "#![no_std]"),
            "{} is not no_std",
            path.display()
        );
    }
}
