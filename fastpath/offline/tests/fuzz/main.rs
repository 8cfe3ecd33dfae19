//! What the fuzz target `replay` in integration/fuzz checks, briefly.

#![allow(clippy::panic, clippy::unwrap_used, reason = "tests may panic")]

#[path = "../../../../integration/fuzz/brief.rs"]
mod brief;
mod replay;

#[test]
fn any_bytes_as_a_capture() {
    brief::briefly("replay", replay::replay);
}
