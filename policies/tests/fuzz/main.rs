//! What the fuzz target `documents` in integration/fuzz checks, briefly.

#[path = "../../../integration/fuzz/brief.rs"]
mod brief;
mod documents;

#[test]
fn documents() {
    brief::briefly("documents", documents::documents);
}
