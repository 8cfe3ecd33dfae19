//! The `penstock` command, as an operator would call it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::pki::Pki;
use crate::bed::{Netns, run};

/// A shell at the controller's side.
#[derive(Clone, Debug)]
pub struct Penstock {
    ns: Netns,
    binary: PathBuf,
    /// Which controller, and as whom.
    environment: Vec<String>,
}

impl Penstock {
    /// Towards the controller at `server`, from `ns`, as an administrator.
    #[must_use]
    pub fn new(ns: Netns, binaries: &Path, server: &str, pki: &Pki) -> Self {
        let (certificate, key) = pki.of("operator", "admin");
        Self {
            ns,
            binary: binaries.join("penstock"),
            environment: vec![
                format!("PENSTOCK_SERVER=https://{server}"),
                format!("PENSTOCK_CA={}", pki.ca()),
                format!("PENSTOCK_CERT={certificate}"),
                format!("PENSTOCK_KEY={key}"),
            ],
        }
    }

    /// What a person's shell needs for [`Self::line`].
    pub(super) fn environment(&self) -> &[String] {
        &self.environment
    }

    /// The command line, for a person to repeat.
    pub(super) fn line(&self, args: &[&str]) -> String {
        let binary = self.binary.display().to_string();
        let head = ["ip", "netns", "exec", self.ns.name(), &binary];
        let line: Vec<&str> = head.iter().chain(args).copied().collect();
        line.join(" ")
    }

    /// What it prints.
    ///
    /// # Errors
    /// When it fails, with what it said.
    pub fn run(&self, args: &[&str]) -> Result<String> {
        let binary = self.binary.display().to_string();
        let head = ["ip", "netns", "exec", self.ns.name(), "env"];
        let environment = self.environment.iter().map(String::as_str);
        let line: Vec<&str> = head
            .into_iter()
            .chain(environment)
            .chain([&*binary])
            .chain(args.iter().copied())
            .collect();
        run(&line, Duration::from_secs(40))?.success(&line)
    }

    /// What it prints as JSON.
    ///
    /// # Errors
    /// When it fails, or prints something else.
    pub fn json(&self, args: &[&str]) -> Result<Value> {
        let args: Vec<&str> = args.iter().copied().chain(["-o", "json"]).collect();
        let out = self.run(&args)?;
        serde_json::from_str(&out)
            .with_context(|| format!("`penstock {}` printed no JSON: {out}", args.join(" ")))
    }
}
