//! The Penstock controller.
#![forbid(unsafe_code)]

pub mod store;
