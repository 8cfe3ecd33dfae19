//! The demo: two tenants with the same addresses on two hosts, real traffic
//! from the workloads' own kernels, and one table of what was seen.
//!
//! It runs the same binaries that production runs and talks to them through
//! the `penstock` command only.

pub(crate) mod command;
mod cut;
pub(crate) mod pki;
mod probe;
mod rows;
pub(crate) mod stage;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

pub use command::Penstock;
pub use pki::Pki;

use crate::bed::{Interrupt, sweep};
use stage::Stage;

/// Prefix of everything that a demo makes.
pub(crate) const PREFIX: &str = "pd";

/// How the demo is to run.
#[derive(Debug)]
pub struct Options {
    /// Folder of penstockd, penstock-worker, penstock and workload.
    pub binaries: PathBuf,
    /// The policy to apply: a folder of documents.
    pub policy: PathBuf,
    /// Forwarding threads of each worker.
    pub lcores: u16,
    /// What is between the hosts.
    pub underlay: Underlay,
    /// Leave it running.
    pub keep: bool,
}

/// The family of the network between the hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Underlay {
    /// As the policy says.
    #[default]
    V4,
    /// Another VTEP for each of the policy's.
    V6,
}

impl Underlay {
    const IPV4: &str = "192.168.50.";
    const IPV6: &str = "2001:db8:50::";

    /// A worker's VTEP with its prefix length.
    fn vtep(self, last: u8) -> String {
        match self {
            Self::V4 => format!("{}{last}/24", Self::IPV4),
            Self::V6 => format!("{}{last}/64", Self::IPV6),
        }
    }

    /// Documents with VTEPs of this family.
    fn readdress(self, documents: &str) -> String {
        match self {
            Self::V4 => documents.to_owned(),
            Self::V6 => documents.replace(Self::IPV4, Self::IPV6),
        }
    }
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
    let policy = stage.policy(&options.policy)?;
    print!("{}", penstock.run(&["apply", "-f", &policy])?);
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
