//! penstock.v1: the schema, as Rust types, client and server.
#![forbid(unsafe_code)]

/// Generated messages and services.
#[allow(missing_debug_implementations, unreachable_pub, clippy::all)]
pub mod v1 {
    tonic::include_proto!("penstock.v1");
}

/// The schema as an encoded `FileDescriptorSet`, for gRPC reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
