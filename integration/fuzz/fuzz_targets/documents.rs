//! The property that the documents' own tests also run, on the fuzzer's bytes.
#![no_main]

#[path = "../../../policies/tests/fuzz/documents.rs"]
mod documents;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| documents::documents(bytes));
