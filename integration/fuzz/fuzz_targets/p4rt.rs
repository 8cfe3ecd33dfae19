//! The property that the worker's tests also run, on the fuzzer's bytes.
#![no_main]

#[allow(dead_code, reason = "shared with other targets")]
#[path = "../../../fastpath/worker/tests/fuzz/entries.rs"]
mod entries;
#[allow(dead_code, reason = "shared with other targets")]
#[path = "../../../fastpath/worker/tests/fuzz/host.rs"]
mod host;
#[allow(dead_code, reason = "shared with other targets")]
#[path = "../../../fastpath/worker/tests/fuzz/p4rt.rs"]
mod p4rt;
#[allow(dead_code, reason = "shared with other targets")]
#[path = "../../../fastpath/worker/tests/fuzz/streams.rs"]
mod streams;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| p4rt::p4rt(bytes));
