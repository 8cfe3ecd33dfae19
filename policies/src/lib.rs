//! From what an operator writes to what a node needs.
//!
//! * [`document`]: the YAML of operators, read with the place of every field;
//! * [`model`]: the same, validated: names resolved, addresses parsed;
//! * [`compile`]: the model as one node's [`penstock_rules::model::Policy`];
//! * [`explain`]: one packet between two ports of the model, judged;
//! * [`diff`]: what changes between two models, for which packets;
//! * [`anonymous`]: groups that selectors stand for;
//! * [`unresolved`]: peers of rules that cannot be found as things are;
//! * [`nic`]: the model as the static tables of one node's NICs;
//! * [`usage`]: how many entries these have.
//!
//! Whatever is wrong is told as a [`Problem`], all of them at once: which field,
//! what is wrong with it, what to do.
#![forbid(unsafe_code)]

pub mod anonymous;
pub mod compile;
pub mod diff;
pub mod document;
pub mod explain;
pub mod ids;
pub mod model;
pub mod mtu;
pub mod nic;
mod problem;
mod suggest;
pub mod unresolved;
pub mod usage;

pub use ids::Ids;
pub use problem::{Diagnostic, Position, Problem, Problems};
