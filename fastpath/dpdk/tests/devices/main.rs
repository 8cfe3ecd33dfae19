//! The safe face on DPDK's software devices.
//!
//! Made for one process per test (nextest). When a runner puts several tests into one
//! process they share an EAL, and those that need one of their own skip.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

mod bed;
mod errors;
mod frames;
mod hotplug;
mod hugepages;
mod kernel;
mod threads;
mod traffic;
