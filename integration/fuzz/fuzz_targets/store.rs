//! The property that penstockd's tests also run, on the fuzzer's bytes.
#![no_main]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

#[path = "../../../controller/daemon/tests/fuzz/store.rs"]
mod store;

static HOOK: Once = Once::new();

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // libFuzzer's own hook ends the process at once; the embedded database is expected to
    // panic at times, and penstockd to catch that.
    HOOK.call_once(|| std::panic::set_hook(Box::new(|info| eprintln!("{info}"))));
    if catch_unwind(AssertUnwindSafe(|| store::store(bytes))).is_err() {
        std::process::abort();
    }
});
