//! The properties that the flow crate's tests also run, on the fuzzer's bytes.
#![no_main]

#[path = "../../../fastpath/flow/tests/suite/properties.rs"]
#[allow(dead_code, reason = "each target drives one of them")]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::control(bytes));
