//! The controller as its clients and its nodes see it: the server of
//! production on a socket of the test, real clients, and fake workers over the
//! generated server traits.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]
#![allow(
    unreachable_pub,
    missing_debug_implementations,
    reason = "modules of one test program"
)]

mod apply;
mod controller;
mod diagnostics;
mod fake;
mod limits;
mod nics;
mod nodes;
mod plans;
mod policies;
mod property;
mod read;
mod restart;
mod samples;
mod turns;
mod waiting;
mod watch;
