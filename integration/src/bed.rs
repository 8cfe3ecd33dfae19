//! A bed: hosts and workloads as network namespaces of this machine, with real
//! processes in them, that leaves nothing behind.
//!
//! Everything a bed makes carries its tag (a prefix and this process's id).
//! [`Bed`] undoes it in reverse order when it is dropped, whatever the reason;
//! [`sweep`] undoes what a killed process could not.

mod link;
mod netns;
mod process;
mod wait;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

pub use link::{Workload, cable, quiet};
pub use netns::{Netns, sweep};
pub use process::{Process, Run, run};
pub use wait::{Interrupt, eventually};

/// Namespaces, processes and a scratch folder, owned together.
#[derive(Debug)]
pub struct Bed {
    tag: String,
    // Dropped in this order: processes first, then what they stand on.
    processes: Vec<Process>,
    namespaces: Vec<Netns>,
    scratch: PathBuf,
    keep: bool,
}

impl Bed {
    /// An empty bed. `prefix` tells demos from tests, 4 letters at most.
    ///
    /// # Errors
    /// Without root, or where the scratch folder cannot be made.
    pub fn new(prefix: &str) -> Result<Self> {
        if prefix.is_empty() || prefix.len() > 4 {
            bail!("bed prefix {prefix:?}: one to four letters");
        }
        if fs::metadata("/proc/self")
            .context("read /proc/self")
            .map(owner)?
            != 0
        {
            bail!("network namespaces need root: run as root, or with sudo");
        }
        let tag = format!("{prefix}{}", std::process::id());
        let scratch = std::env::temp_dir().join(format!("penstock-{tag}"));
        fs::create_dir_all(&scratch)
            .with_context(|| format!("create the scratch folder {}", scratch.display()))?;
        Ok(Self {
            tag,
            processes: Vec::new(),
            namespaces: Vec::new(),
            scratch,
            keep: false,
        })
    }

    /// Folder for logs and data; goes with the bed.
    #[must_use]
    pub fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// Makes a namespace; its full name is unique on this machine.
    ///
    /// # Errors
    /// What `ip` says.
    pub fn netns(&mut self, name: &str) -> Result<Netns> {
        let ns = Netns::create(&format!("{}-{name}", self.tag))?;
        self.namespaces.push(ns.clone());
        Ok(ns)
    }

    /// Starts a process in a namespace; its output goes to `NAME.log` in the
    /// scratch folder.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub fn spawn(&mut self, ns: &Netns, name: &str, command: &[&str]) -> Result<&mut Process> {
        let log = self.scratch.join(format!("{name}.log"));
        let process = Process::spawn(ns, name, command, &log)?;
        self.processes.push(process);
        self.processes.last_mut().context("the process just pushed")
    }

    /// The process called `name`.
    pub fn process(&mut self, name: &str) -> Option<&mut Process> {
        self.processes.iter_mut().find(|p| p.name() == name)
    }

    /// Fails if any process has ended by itself, naming it and the end of its log.
    ///
    /// # Errors
    /// The first such process.
    pub fn check_alive(&mut self) -> Result<()> {
        self.processes.iter_mut().try_for_each(Process::check_alive)
    }

    /// The same, whatever has become of `others`.
    ///
    /// # Errors
    /// The first process that has ended.
    pub fn check_alive_but(&mut self, others: &[&str]) -> Result<()> {
        let mut all = self.processes.iter_mut();
        all.try_for_each(|process| match others.contains(&process.name()) {
            true => Ok(()),
            false => process.check_alive(),
        })
    }

    /// Leaves everything running after this process has gone; the next
    /// [`sweep`] with the same prefix ends it.
    pub fn keep(&mut self) {
        self.keep = true;
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        if self.keep {
            self.processes.drain(..).for_each(Process::abandon);
            return;
        }
        while let Some(process) = self.processes.pop() {
            process.stop();
        }
        while let Some(ns) = self.namespaces.pop() {
            if let Err(e) = ns.delete() {
                eprintln!("bed: {e:#}");
            }
        }
        if let Err(e) = fs::remove_dir_all(&self.scratch) {
            eprintln!("bed: remove {}: {e}", self.scratch.display());
        }
    }
}

fn owner(meta: fs::Metadata) -> u32 {
    use std::os::unix::fs::MetadataExt as _;
    meta.uid()
}
