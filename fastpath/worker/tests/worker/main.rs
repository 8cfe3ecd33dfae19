//! The worker from outside: as a controller talks to it, and as workloads use it.
#![forbid(unsafe_code)]
#![allow(clippy::panic, clippy::unwrap_used, reason = "how a test fails")]

mod agent;
mod bed;
mod carry;
mod controller;
mod fixture;
mod forwarding;
mod fragments;
mod guide;
mod homes;
mod lcores;
mod memory;
mod metrics;
mod netns;
mod nics;
mod resized;
mod slowpath;
mod tls;
mod waiting;
