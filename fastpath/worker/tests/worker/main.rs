//! The worker from outside: as a controller talks to it, and as workloads use it.
#![forbid(unsafe_code)]

mod agent;
mod controller;
mod fixture;
mod forwarding;
mod memory;
mod netns;
mod slowpath;
