//! The demo: two tenants with the same addresses on two hosts, real traffic
//! from the workloads' own kernels, and one table of what was seen.
//!
//! It runs the same binaries that production runs and talks to them through
//! the `penstock` command only.

mod command;
mod cut;
mod pki;
mod probe;
mod rows;
mod stage;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

pub use command::Penstock;
pub use pki::Pki;

use crate::bed::{Interrupt, sweep};
use stage::Stage;

/// Prefix of everything that a demo makes.
const PREFIX: &str = "pd";

/// How the demo is to run.
#[derive(Debug)]
pub struct Options {
    /// Folder of penstockd, penstock-worker, penstock and workload.
    pub binaries: PathBuf,
    /// The policy to apply.
    pub policy: PathBuf,
    /// Leave it running.
    pub keep: bool,
}

/// Ends what a kept or killed demo left behind.
///
/// # Errors
/// What `ip` says.
pub fn stop() -> Result<()> {
    let removed = sweep(PREFIX)?;
    println!("demo: {} left-over namespaces removed", removed.len());
    Ok(())
}

/// Runs the demo; an error unless every row was as expected.
///
/// # Errors
/// The first step that failed, or the number of wrong rows.
pub fn run(options: &Options) -> Result<()> {
    let interrupt = Interrupt::install()?;
    let left = sweep(PREFIX)?;
    if !left.is_empty() {
        println!("demo: removed {} namespaces of an earlier demo", left.len());
    }
    let begin = Instant::now();
    let mut stage = Stage::build(options, &interrupt)?;
    let outcome = play(&mut stage, options, &interrupt);
    if let Err(e) = &outcome {
        eprintln!("demo: failed: {e:#}");
        stage.print_logs();
    }
    if options.keep && outcome.is_ok() {
        stage.print_what_to_try();
        stage.keep();
    }
    drop(stage);
    println!("demo: took {:.1} s", begin.elapsed().as_secs_f64());
    outcome
}

fn play(stage: &mut Stage, options: &Options, interrupt: &Interrupt) -> Result<()> {
    say("applying the policy through `penstock apply`");
    let penstock = stage.penstock();
    let policy = options
        .policy
        .to_str()
        .context("the policy's path is not UTF-8")?;
    print!("{}", penstock.run(&["apply", "-f", policy])?);
    say("waiting until every node has it (`penstock wait`)");
    let begin = Instant::now();
    print!("{}", penstock.run(&["wait", "--timeout", "30"])?);
    println!(
        "  programmed after {:.0} ms",
        begin.elapsed().as_secs_f64() * 1e3
    );
    stage.wait_for_addresses(interrupt)?;
    stage.check_alive()?;

    say("sending traffic between the workloads");
    let mut rows = rows::all();
    probe::all(stage, &mut rows, interrupt)?;
    rows::count_packets(&penstock, &mut rows)?;
    rows::print(&rows);

    say("removing a permission under an open connection");
    let cut = cut::run(stage, interrupt, Duration::from_secs(1))?;
    cut.print();

    stage.check_alive()?;
    let wrong =
        rows.iter().filter(|r| !r.is_as_expected()).count() + usize::from(!cut.is_as_expected());
    if wrong > 0 {
        bail!("{wrong} of {} rows are not as expected", rows.len() + 1);
    }
    println!("demo: all {} rows as expected", rows.len() + 1);
    Ok(())
}

fn say(what: &str) {
    println!("\n==> {what}");
}
