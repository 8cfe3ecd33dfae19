//! The datapath of one lcore, pure.
//!
//! An [`Engine`] owns one shard: its NICs' tables (the soft NIC), its
//! connections and its timers. It reads no clock, owns no packet and blocks on
//! nothing: [`Engine::process`] takes the time and a borrowed [`Frame`] and says
//! what becomes of it. On a packet's way nothing is allocated, locked, logged or
//! unwound; what tables and rings can hold is fixed when the engine is made.
//!
//! Everything that the outside learns is read from it: [`Counters`],
//! [`FlowRecord`], [`DropRecord`], and the frames it wants sent in [`Outbox`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod bucket;
mod connections;
mod device;
mod flow_state;
mod fragments;
mod homes;
mod neighbours;
mod policies;
mod ring;

pub mod config;
pub mod counters;
pub mod engine;
pub mod frame;
pub mod nic;
pub mod outbox;
pub mod record;

pub use config::{AttachError, Config, NicConfig, Shard};
pub use counters::{Counters, PortCounters, Traffic};
pub use engine::{Engine, Fenced, Owner};
pub use flow_state::{FlowState, ImportError};
pub use fragments::{Ports, REMEMBERED, Release};
pub use frame::{Frame, Outcome};
pub use homes::Homes;
pub use outbox::Outbox;
pub use policies::{PolicyChange, Retired};
pub use record::{DropRecord, FlowRecord, Name};
