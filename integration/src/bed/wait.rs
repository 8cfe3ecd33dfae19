//! Waiting, always with a deadline, always interruptible.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// Whether SIGINT, SIGTERM or SIGHUP has come. Without it the process would
/// die on the spot and leave its namespaces behind.
#[derive(Clone, Debug)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From here on the signals only set the flag.
    ///
    /// # Errors
    /// Where the handlers cannot be installed.
    pub fn install() -> Result<Self> {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&flag))
                .context("install a signal handler")?;
        }
        Ok(Self(flag))
    }

    /// One that never comes: for tests, which their runner ends.
    #[must_use]
    pub fn none() -> Self {
        Self(Arc::new(AtomicBool::new(false)))
    }

    /// # Errors
    /// After a signal.
    pub fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        Ok(())
    }
}

/// Asks `probe` again and again until it gives a value; fails at the deadline
/// with what was awaited and the last answer.
///
/// # Errors
/// At the deadline, or after an interrupt.
pub fn eventually<T>(
    interrupt: &Interrupt,
    deadline: Duration,
    what: &str,
    mut probe: impl FnMut() -> Result<T>,
) -> Result<T> {
    let end = Instant::now() + deadline;
    loop {
        interrupt.check()?;
        match probe() {
            Ok(value) => return Ok(value),
            Err(e) if Instant::now() >= end => {
                return Err(e).with_context(|| format!("waited {deadline:?} for {what}"));
            }
            Err(_) => sleep(Duration::from_millis(50)),
        }
    }
}
