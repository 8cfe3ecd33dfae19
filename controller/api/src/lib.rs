//! penstock.v1: the schema, as Rust types, client and server.
//!
//! * [`v1`]: generated messages and services;
//! * [`convert`]: messages from and to the document types of `penstock-policies`;
//! * [`client`]: a connection with deadlines;
//! * [`strict`]: what becomes of fields that the schema does not have.
#![forbid(unsafe_code)]

pub mod client;
pub mod convert;
pub mod strict;

/// Generated messages and services.
#[allow(
    missing_debug_implementations,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    clippy::nursery
)]
pub mod v1 {
    tonic::include_proto!("penstock.v1");
}

/// The schema as an encoded `FileDescriptorSet`, for gRPC reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// Bytes of a message, either way: a request of 50 000 resources fits.
pub const MESSAGE_LIMIT: usize = 64 << 20;
