//! Bindings to the distribution's libdpdk, made at build time by bindgen, and a
//! short C shim for the inline functions that are really used.
//!
//! Nothing here is safe to call without reading DPDK's manual; the crate `dpdk`
//! is the safe face. The surface is an allow-list in the build script: a function
//! is bound when it has a caller.

#![allow(
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    missing_debug_implementations,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    reason = "generated code follows C's names and bindgen's habits"
)]

include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
