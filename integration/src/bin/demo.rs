//! `make demo`.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Parser;
use penstock_integration::demo::{self, Options};

/// Two tenants, two hosts, real packets.
#[derive(Parser)]
struct Args {
    /// The policy to apply.
    #[arg(long, default_value = "policies/examples/two-tenants")]
    policy: PathBuf,
    /// Leave everything running and say what to try.
    #[arg(long)]
    keep: bool,
    /// Only end what an earlier demo left running.
    #[arg(long)]
    stop: bool,
}

fn main() -> Result<()> {
    let args = Args::parse();
    if args.stop {
        return demo::stop();
    }
    let this = std::env::current_exe().context("find this program's folder")?;
    let binaries = this
        .parent()
        .context("this program has no folder")?
        .to_owned();
    demo::run(&Options {
        binaries,
        policy: args.policy,
        keep: args.keep,
    })
}
