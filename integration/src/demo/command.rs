//! The `penstock` command, as an operator would call it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::bed::{Netns, run};

/// A shell at the controller's side.
#[derive(Clone, Debug)]
pub(super) struct Penstock {
    ns: Netns,
    binary: PathBuf,
    server: String,
}

impl Penstock {
    pub(super) fn new(ns: Netns, binaries: &Path, server: String) -> Self {
        Self {
            ns,
            binary: binaries.join("penstock"),
            server,
        }
    }

    /// The whole command line, for a person to repeat.
    pub(super) fn line(&self, args: &[&str]) -> Vec<String> {
        let head = ["ip", "netns", "exec", self.ns.name()].map(str::to_owned);
        let program = [
            self.binary.display().to_string(),
            "--server".to_owned(),
            self.server.clone(),
        ];
        head.into_iter()
            .chain(program)
            .chain(args.iter().map(|&a| a.to_owned()))
            .collect()
    }

    pub(super) fn run(&self, args: &[&str]) -> Result<String> {
        let line = self.line(args);
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        run(&line, Duration::from_secs(40))?.success(&line)
    }

    pub(super) fn json(&self, args: &[&str]) -> Result<Value> {
        let args: Vec<&str> = args.iter().copied().chain(["-o", "json"]).collect();
        let out = self.run(&args)?;
        serde_json::from_str(&out)
            .with_context(|| format!("`penstock {}` printed no JSON: {out}", args.join(" ")))
    }
}
