//! Tests, beds, benches and checks that need more than one part of Penstock.
#![forbid(unsafe_code)]

pub mod bed;
pub mod demo;
pub mod lab;
pub mod rounds;
