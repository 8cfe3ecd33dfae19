//! A controller and a worker in one process, as benches need them: all of both is
//! what production runs, over real gRPC, and only the worker's ports are made up.
//!
//! * [`site`]: what is declared, and both parts started;
//! * [`frames`]: the flows and what their frames look like;
//! * [`ports`]: device ports that make frames at a steady rate, and look at those
//!   that the worker sends;
//! * [`meter`]: what the ports have seen;
//! * [`log`]: when the worker said what;
//! * [`report`]: how figures are printed.
#![forbid(unsafe_code)]

pub mod frames;
pub mod log;
pub mod meter;
pub mod ports;
pub mod report;
pub mod site;

use std::time::{Duration, Instant};

/// Nothing may take longer.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until something is so.
///
/// # Errors
/// It is not for [`PATIENCE`].
pub async fn wait(what: &str, is_so: impl Fn() -> bool) -> anyhow::Result<()> {
    let begin = Instant::now();
    while !is_so() {
        if begin.elapsed() > PATIENCE {
            anyhow::bail!("waited {PATIENCE:?} for {what}");
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}
