//! `penstock-worker`: arguments to configuration to run.
#![forbid(unsafe_code)]

fn main() {}
