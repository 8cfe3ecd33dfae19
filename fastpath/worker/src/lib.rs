//! The Penstock worker: one per node, the node's slow path and its NICs' agent.
//!
//! * [`config`]: what an operator decides;
//! * [`worker`]: everything put together;
//! * [`agent`]: what the controller talks to;
//! * [`policy`]: from messages to the model that the engine judges by;
//! * [`ports`]: which host interface is which device port;
//! * [`flows`]: connections on their way to another worker, or to this one's next life;
//! * [`lcore`]: the polling thread, and [`mailbox`], how it is reached;
//! * [`snapshot`]: what survives a restart;
//! * [`metrics`]: numbers for a monitoring system.
#![forbid(unsafe_code)]

pub mod agent;
pub mod config;
pub mod flows;
pub mod lcore;
pub mod mailbox;
pub mod metrics;
pub mod policy;
pub mod ports;
pub mod snapshot;
pub mod worker;
