//! `penstock`: declares policies, shows what became of them, answers why.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser as _;

mod args;
mod command;
mod failure;
mod message;
mod output;
mod session;

fn main() -> ExitCode {
    let args = args::Args::parse();
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("penstock: cannot start: {error}");
            return ExitCode::from(failure::FAILED);
        }
    };
    match runtime.block_on(command::run(args)) {
        Ok(code) => code,
        Err(failure) => failure.tell(),
    }
}
