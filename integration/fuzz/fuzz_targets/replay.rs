//! The property that the offline crate's tests also run, on the fuzzer's bytes.
#![no_main]

#[path = "../../../fastpath/offline/tests/fuzz/replay.rs"]
mod replay;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| replay::replay(bytes));
