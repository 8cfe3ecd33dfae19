//! `make demo`.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::Parser;
use penstock_integration::demo::{self, Options, Underlay};

/// Two tenants, two hosts, real packets.
#[derive(Parser)]
struct Args {
    /// The policy to apply.
    #[arg(long, default_value = "policies/examples/two-tenants")]
    policy: PathBuf,
    /// Forwarding threads of each worker.
    #[arg(long, default_value_t = 1)]
    lcores: u16,
    /// IP between the hosts: 4 or 6.
    #[arg(long, default_value_t = 4)]
    underlay: u8,
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
    let underlay = match args.underlay {
        4 => Underlay::V4,
        6 => Underlay::V6,
        other => bail!("--underlay {other}: there is IPv4 and IPv6; use 4 or 6"),
    };
    let this = std::env::current_exe().context("find this program's folder")?;
    let binaries = this
        .parent()
        .context("this program has no folder")?
        .to_owned();
    demo::run(&Options {
        binaries,
        policy: args.policy,
        lcores: args.lcores,
        underlay,
        keep: args.keep,
    })
}
