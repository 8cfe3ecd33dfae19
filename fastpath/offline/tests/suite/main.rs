//! Captures in, verdicts out.
#![allow(clippy::panic, clippy::unwrap_used, reason = "tests may panic")]

mod captures;
mod files;
mod frames;
mod property;
mod replays;
mod site;
mod wire;
