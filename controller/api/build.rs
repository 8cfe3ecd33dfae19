//! Compiles the schema without protoc.

use std::path::PathBuf;

use prost::Message as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let files = protox::compile(["penstock/v1/penstock.proto"], ["proto"])?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("descriptors.bin"), files.encode_to_vec())?;
    let mut config = tonic_prost_build::Config::new();
    config.enable_type_names();
    // Equal maps are equal bytes.
    config.btree_map(["."]);
    tonic_prost_build::configure()
        .codec_path("crate::strict::Codec")
        .compile_fds_with_config(files, config)?;
    Ok(())
}
