//! The Penstock worker: one per node, the node's slow path and its NICs' agent.
//!
//! * [`config`]: what an operator decides;
//! * [`mailbox`]: how control threads reach a polling thread;
//! * [`policy`]: from messages to the model that the engine judges by;
//! * [`snapshot`]: what survives a restart.
#![forbid(unsafe_code)]

pub mod config;
pub mod mailbox;
pub mod policy;
pub mod snapshot;
