//! The safe face on DPDK's software devices.
//!
//! EAL starts once per process: under nextest every test has its own, under plain
//! `cargo test` those of this file share one.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

mod bed;
mod errors;
mod frames;
mod hotplug;
mod kernel;
mod threads;
mod traffic;
