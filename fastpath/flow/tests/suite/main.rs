//! Tests of the public interface.
#![allow(clippy::panic, reason = "assertions outside of test functions")]

mod build;
mod etherparse;
mod frames;
mod fuzzed;
mod headers;
mod outer;
mod parse;
mod properties;
mod reset;
mod table;
mod tcp;
mod tcp_parts;
mod tcp_peers;
mod tcp_table;
mod wheel;
