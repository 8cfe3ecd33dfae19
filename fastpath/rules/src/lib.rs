//! The policy that one node judges by.
//!
//! [`model::Policy`] is what the controller sends; [`Ruleset`] is the same,
//! compiled for lookup. The worker's slow path and `explain` call the same
//! [`Ruleset::judge`]. [`closing`](fn@closing) finds what a change from one to the next
//! may close.
//!
//! # Meaning
//!
//! A port is *selected* in a direction if one of its groups selects that
//! direction. Selected, it is closed there except for what some rule of its
//! groups in that direction allows. Not selected, its VPC's default decides. A
//! port that the policy does not know is closed. Rules only ever allow, so
//! their order decides nothing; where several match, the one of the lowest
//! [`RuleId`] is named.
//!
//! A prefix speaks of its own family only: `::/0` never matches IPv4.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod closing;
mod error;
mod explain;
mod peers;
mod program;
mod query;
mod ruleset;
mod service;

pub mod model;

pub use closing::{Region, closing};
pub use error::CompileError;
pub use explain::{Explanation, NearMiss};
pub use query::{Decision, Judgement, Query, RuleId};
pub use ruleset::Ruleset;
