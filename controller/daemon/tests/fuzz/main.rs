//! What the fuzz target `store` in integration/fuzz checks, briefly.

#![allow(clippy::panic, clippy::unwrap_used, reason = "tests may panic")]

#[path = "../../../../integration/fuzz/brief.rs"]
mod brief;
mod store;

#[test]
fn stores() {
    brief::briefly("store", store::store);
}
