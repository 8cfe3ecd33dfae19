//! EAL on a machine that lacks what it asks for. Alone in its file: EAL starts once per process.

#![allow(clippy::panic, reason = "a test may")]

use std::path::Path;

use dpdk::{Eal, EalConfig, Error};

#[test]
fn a_failed_start_is_an_error_and_the_only_try() {
    // More hugepages than any machine has.
    let error = Eal::init(&EalConfig::new().memory_mib(100_000_000)).expect_err("too much");
    let text = error.to_string();
    assert!(matches!(error, Error::Start { .. }), "{text}");
    assert!(
        text.contains("-m 100000000") && text.contains("nr_hugepages"),
        "{text}"
    );
    let again = Eal::init(&EalConfig::new().no_huge(true));
    assert!(matches!(again, Err(Error::AlreadyInitialised)), "{again:?}");
    for root in ["/var/run", "/run", "/tmp"] {
        let folder = Path::new(root).join(format!("dpdk/penstock-{}", std::process::id()));
        assert!(!folder.exists(), "left behind: {}", folder.display());
    }
}
