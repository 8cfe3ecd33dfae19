//! The property that the worker's tests also run, on the fuzzer's bytes.
#![no_main]

#[allow(dead_code, reason = "shared with other targets")]
#[path = "../../../fastpath/worker/tests/fuzz/host.rs"]
mod host;
#[allow(dead_code, reason = "shared with other targets")]
#[path = "../../../fastpath/worker/tests/fuzz/slowpath.rs"]
mod slowpath;
#[allow(dead_code, reason = "shared with other targets")]
#[path = "../../../fastpath/worker/tests/fuzz/updates.rs"]
mod updates;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| slowpath::slowpath(bytes));
