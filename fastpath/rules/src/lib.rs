//! The policy that one node judges by.
//!
//! [`model::Policy`] is what the controller sends; [`Ruleset`] is the same,
//! compiled for lookup. The worker's slow path and `explain` call the same
//! [`Ruleset::judge`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod model;
