//! What the fuzz targets in integration/fuzz check, briefly: on what the fuzzer has found
//! before, on those inputs damaged, and on bytes of a seeded generator.
//!
//! The properties' files are the targets' too, so they name each other from the root.

#![allow(clippy::panic, clippy::unwrap_used, reason = "tests may panic")]

mod entries;
mod host;
mod p4rt;
mod slowpath;
mod snapshot;
mod streams;
mod updates;

#[path = "../../../../integration/fuzz/brief.rs"]
mod brief;

use brief::briefly;

#[test]
fn p4runtime_server() {
    briefly("p4rt", p4rt::p4rt);
}

#[test]
fn slowpath_server() {
    briefly("slowpath", slowpath::slowpath);
}

#[test]
fn snapshot_files() {
    briefly("snapshot", snapshot::snapshot);
}
