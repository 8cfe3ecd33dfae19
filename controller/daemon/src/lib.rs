//! The Penstock controller.
//!
//! What operators declare arrives at [`service`], is checked and stored by
//! [`registry`], and becomes one [`world::World`] per revision in [`hub`].
//! [`plan`] compiles each world for every node; [`node`] brings the nodes there
//! and reports; [`status`] turns reports into what the API shows. [`server`]
//! puts the parts together.
#![forbid(unsafe_code)]

pub mod dial;
pub mod election;
pub mod hub;
pub mod ids;
pub mod node;
pub mod plan;
pub mod registry;
pub mod server;
pub mod service;
pub mod status;
pub mod store;
pub mod validated;
pub mod world;
