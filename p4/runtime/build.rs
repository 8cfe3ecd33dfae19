//! Compiles the wire schema and generates the typed entries of the pipeline.
//!
//! No outside tool is called: protox reads the `.proto` files, and what p4c
//! made of the P4 program is committed beside it.

#[path = "build/p4info.rs"]
mod p4info;
#[path = "build/pipeline.rs"]
mod pipeline;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use prost::Message;

const SCHEMA: &str = "proto/p4/v1/p4runtime.proto";
const P4INFO: &str = "../program/penstock.p4info.txtpb";
const DEVICE_CONFIG: &str = "../program/penstock.json";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=proto");
    println!("cargo::rerun-if-changed={P4INFO}");
    println!("cargo::rerun-if-changed={DEVICE_CONFIG}");
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);

    let descriptors = protox::compile([SCHEMA], ["proto"])?;
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure()
        .extern_path(".google.rpc.Status", "::tonic_types::Status")
        .compile_fds(descriptors.clone())?;

    let text = fs::read_to_string(P4INFO)?;
    let message = p4info::read(descriptors, &text)?;
    fs::write(out.join("p4info.bin"), message.encode_to_vec())?;
    let program = p4info::Program::from_message(&message)?;
    let device_config = fs::read(Path::new(DEVICE_CONFIG))?;
    let cookie = fingerprint(&[text.as_bytes(), &device_config]);
    fs::write(
        out.join("pipeline.rs"),
        pipeline::generate(&program, cookie)?,
    )?;
    Ok(())
}

/// FNV-1a: tells one build of the pipeline from another, no more.
fn fingerprint(parts: &[&[u8]]) -> u64 {
    parts
        .iter()
        .flat_map(|part| part.iter())
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
}
