//! The committed results of p4c belong to the committed sources, and the numbers
//! that Rust and P4 share are the same on both sides.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use p4runtime::pipeline;
use p4runtime::reason::{Ask, Drop};
use sha2::{Digest, Sha256};

fn program() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../program")
}

fn sha256(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    for byte in Sha256::digest(fs::read(path)?) {
        write!(text, "{byte:02x}").map_err(io::Error::other)?;
    }
    Ok(text)
}

#[test]
fn sources_and_artefacts_belong_together() {
    let folder = program();
    let mut found = BTreeMap::new();
    for file in fs::read_dir(&folder).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if [".p4", ".json", ".txtpb"]
            .iter()
            .any(|end| name.ends_with(end))
        {
            found.insert(name, sha256(&path).unwrap());
        }
    }
    let listed: BTreeMap<_, _> = fs::read_to_string(folder.join("sources.sha256"))
        .unwrap()
        .lines()
        .map(|line| line.split_once("  ").unwrap())
        .map(|(hash, name)| (name.to_owned(), hash.to_owned()))
        .collect();
    assert_eq!(
        found, listed,
        "the P4 program was changed without compiling it: run p4/program/compile.sh"
    );
}

/// `const bit<..> NAME = NUMBER;` of constants.p4.
fn constants() -> BTreeMap<String, u128> {
    let text = fs::read_to_string(program().join("constants.p4")).unwrap();
    let mut constants = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("const ")) {
        let (left, right) = line.split_once('=').unwrap();
        let name = left.split_whitespace().last().unwrap();
        let number = right.split(';').next().unwrap().trim().replace('_', "");
        let number = match number.strip_prefix("0x") {
            Some(hex) => u128::from_str_radix(hex, 16),
            None => number.parse(),
        };
        let twice = constants.insert(name.to_owned(), number.unwrap());
        assert_eq!(twice, None, "{name} is defined twice");
    }
    constants
}

#[test]
fn shared_numbers_are_the_same() {
    let constants = constants();
    assert_eq!(constants["CPU_PORT"], u128::from(pipeline::CPU_PORT));
    assert_eq!(constants["ENVELOPE"], pipeline::ENVELOPE.get());
    assert_eq!(
        constants["GATEWAY_MAC"],
        u128::from(pipeline::GATEWAY_MAC.get())
    );
}

#[test]
fn reasons_are_the_same() {
    let constants = constants();
    let of = |prefix: &str| -> BTreeMap<String, u128> {
        constants
            .iter()
            .filter_map(|(name, number)| Some((name.strip_prefix(prefix)?, *number)))
            .filter(|(_, number)| *number != 0)
            .map(|(name, number)| (name.to_lowercase(), number))
            .collect()
    };
    let asks: BTreeMap<_, _> = Ask::ALL
        .iter()
        .map(|reason| (reason.name().to_owned(), u128::from(reason.number())))
        .collect();
    assert_eq!(of("ASK_"), asks);
    let drops: BTreeMap<_, _> = Drop::ALL
        .iter()
        .map(|reason| (reason.name().to_owned(), u128::from(reason.number())))
        .collect();
    assert_eq!(of("DROP_"), drops);
    for reason in Ask::ALL {
        assert_eq!(Ask::from_number(reason.number()), Some(*reason));
    }
    for reason in Drop::ALL {
        assert_eq!(Drop::from_number(reason.number()), Some(*reason));
    }
    assert_eq!(Ask::from_number(0), None);
}

/// An id that moves breaks every client that has stored one.
#[test]
fn ids_are_written_out_and_stable() {
    let info = pipeline::p4info().unwrap();
    let tables: Vec<_> = info
        .tables
        .iter()
        .map(|table| table.preamble.as_ref().unwrap())
        .map(|preamble| (preamble.id, preamble.name.as_str()))
        .collect();
    assert_eq!(
        tables,
        [
            (0x0200_0001, "vport"),
            (0x0200_0002, "underlay"),
            (0x0200_0003, "spoof_guard"),
            (0x0200_0004, "fence"),
            (0x0200_0005, "rdma_qp"),
            (0x0200_0006, "rdma_pair"),
            (0x0200_0007, "flow"),
            (0x0200_0008, "acl"),
            (0x0200_0009, "mapping"),
            (0x0200_000a, "nexthop"),
            (0x0200_000b, "drops"),
        ]
    );
    for action in &info.actions {
        let preamble = action.preamble.as_ref().unwrap();
        let written = preamble.id & 0x00ff_ff00 == 0;
        assert!(written || preamble.name == "NoAction", "{}", preamble.name);
    }
    assert!(
        info.counters.is_empty() && info.meters.is_empty() && info.registers.is_empty(),
        "bmv2 cannot reconcile a program with indirect resources"
    );
}
