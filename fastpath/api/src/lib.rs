//! penstock.slowpath.v1: the schema, as Rust types, client and server; a policy as
//! messages.
#![forbid(unsafe_code)]

pub mod encode;

/// Generated messages and services.
#[allow(missing_debug_implementations, unreachable_pub, clippy::all)]
pub mod v1 {
    tonic::include_proto!("penstock.slowpath.v1");
}

/// The schema as an encoded `FileDescriptorSet`, for gRPC reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
