//! Network namespaces by name, as `ip netns` keeps them.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::process::run;

const IP_DEADLINE: Duration = Duration::from_secs(10);

/// A named network namespace.
#[derive(Clone, Debug)]
pub struct Netns {
    name: String,
}

impl Netns {
    pub(super) fn create(name: &str) -> Result<Self> {
        ip(&["netns", "add", name])?;
        let ns = Self {
            name: name.to_owned(),
        };
        if let Err(e) = ns.settle() {
            // Nobody owns it yet.
            ns.delete()?;
            return Err(e);
        }
        Ok(ns)
    }

    fn settle(&self) -> Result<()> {
        // Nothing may speak before it is told to: no router solicitations, no
        // addresses from them.
        self.run(&[
            "sysctl",
            "-qw",
            "net.ipv6.conf.all.accept_ra=0",
            "net.ipv6.conf.default.accept_ra=0",
        ])?;
        self.run(&["ip", "link", "set", "lo", "up"])?;
        Ok(())
    }

    /// The full name, for `ip netns exec`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs a short command inside and returns what it printed.
    ///
    /// # Errors
    /// When it fails or takes over ten seconds.
    pub fn run(&self, command: &[&str]) -> Result<String> {
        let all: Vec<&str> = ["ip", "netns", "exec", &self.name]
            .iter()
            .chain(command)
            .copied()
            .collect();
        run(&all, IP_DEADLINE)?.success(&all)
    }

    pub(super) fn delete(&self) -> Result<()> {
        ip(&["netns", "del", &self.name])
    }

    fn pids(&self) -> Result<Vec<String>> {
        let command = ["ip", "netns", "pids", &self.name];
        let out = run(&command, IP_DEADLINE)?.success(&command)?;
        Ok(out.split_whitespace().map(str::to_owned).collect())
    }
}

pub(super) fn ip(args: &[&str]) -> Result<()> {
    let all: Vec<&str> = ["ip"].iter().chain(args).copied().collect();
    run(&all, IP_DEADLINE)?.success(&all).map(|_| ())
}

/// Ends what earlier beds with this prefix left behind: those whose process is
/// gone (killed, or kept on purpose). Returns the namespaces that were removed.
///
/// # Errors
/// What `ip` or the file system says.
pub fn sweep(prefix: &str) -> Result<Vec<String>> {
    let mut removed = Vec::new();
    for name in names_in(Path::new("/run/netns"))? {
        if bed_pid(&name, prefix).is_none_or(is_running) {
            continue;
        }
        let ns = Netns { name };
        for pid in ns.pids()? {
            // It may be gone by now: then there is nothing to end.
            drop(run(&["kill", "-KILL", &pid], IP_DEADLINE)?);
        }
        ns.delete()?;
        removed.push(ns.name);
    }
    // Last, when nobody writes to them any more.
    let scratch = std::env::temp_dir();
    for name in names_in(&scratch)? {
        let Some(tag) = name.strip_prefix("penstock-") else {
            continue;
        };
        if bed_pid(&format!("{tag}-"), prefix).is_none_or(is_running) {
            continue;
        }
        let folder = scratch.join(&name);
        fs::remove_dir_all(&folder).with_context(|| format!("remove {}", folder.display()))?;
    }
    Ok(removed)
}

/// Names of what lies in a folder; none where there is no such folder.
fn names_in(folder: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| format!("list {}", folder.display()))?,
    };
    entries
        .map(|entry| {
            let entry = entry.with_context(|| format!("list {}", folder.display()))?;
            Ok(entry.file_name().to_string_lossy().into_owned())
        })
        .collect()
}

/// `PREFIXPID-rest` -> PID.
fn bed_pid(name: &str, prefix: &str) -> Option<u32> {
    name.strip_prefix(prefix)?.split_once('-')?.0.parse().ok()
}

fn is_running(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_prefix_is_recognised() {
        assert_eq!(bed_pid("pd123-host-a", "pd"), Some(123));
        assert_eq!(bed_pid("pd-host", "pd"), None);
        assert_eq!(bed_pid("pdx1-host", "pd"), None);
        assert_eq!(bed_pid("other", "pd"), None);
    }
}
