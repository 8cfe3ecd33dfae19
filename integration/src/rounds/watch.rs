//! What workers and kernels count.

use anyhow::{Context as _, Result, ensure};

use super::kind::HOSTS;
use crate::bed::Netns;
use crate::demo::stage::{METRICS, Stage};

/// A worker's numbers.
#[derive(Debug)]
pub(super) struct Worker {
    host: &'static str,
    /// Of the policy in force.
    generation: u64,
    /// Updates of tables that clients have written since its start.
    updates: u64,
}

impl Worker {
    pub(super) fn both(stage: &Stage) -> Result<Vec<Self>> {
        HOSTS.iter().map(|host| Self::of(stage, host)).collect()
    }

    fn of(stage: &Stage, host: &'static str) -> Result<Self> {
        let url = format!("http://{METRICS}/metrics");
        let text = stage.on_host(host, &["curl", "-sS", "--max-time", "5", &url])?;
        let number = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name));
            let value = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
            value.with_context(|| format!("{host} does not tell {name}"))
        };
        Ok(Self {
            host,
            generation: number("penstock_policy_generation ")?,
            updates: number("penstock_table_updates_total{")?,
        })
    }

    /// Whoever came back has written nothing that was there already; `restarted` counts
    /// anew.
    pub(super) fn has_been_left_alone_since(
        &self,
        before: &Self,
        restarted: Option<&str>,
    ) -> Result<()> {
        let updates = if restarted == Some(self.host) {
            0
        } else {
            before.updates
        };
        ensure!(
            (self.generation, self.updates) == (before.generation, updates),
            "written again, though nothing had changed: {before:?}, now {self:?}"
        );
        Ok(())
    }
}

/// Where workers have lost frames, for whoever reads why a test failed.
pub(super) fn print_losses(stage: &Stage) {
    let url = format!("http://{METRICS}/metrics");
    for host in HOSTS {
        match stage.on_host(host, &["curl", "-sS", "--max-time", "5", &url]) {
            Err(error) => eprintln!("--- {host}: {error:#}"),
            Ok(text) => {
                eprintln!("--- {host} has lost");
                let loss = |line: &&str| {
                    let lost = ["drops_total", "lost_total", "missed", "errors", "no_buffer"];
                    lost.iter().any(|word| line.contains(word)) && !line.ends_with(" 0")
                };
                let lines = text.lines().filter(|line| !line.starts_with('#'));
                lines.filter(loss).for_each(|line| eprintln!("{line}"));
            }
        }
    }
}

/// Packets that a workload's kernel has received, of the kinds that are knocked with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Received {
    pub(super) tcp: u64,
    pub(super) udp: u64,
    pub(super) echo: u64,
}

impl Received {
    pub(super) fn of(ns: &Netns) -> Result<Self> {
        let v4 = ns.run(&["cat", "/proc/net/snmp"])?;
        let v6 = ns.run(&["cat", "/proc/net/snmp6"])?;
        let four = |protocol, name| value(&v4, protocol, name);
        let six = |name: &str| {
            let mut lines = v6.lines().map(str::split_whitespace);
            lines
                .find_map(|mut words| (words.next()? == name).then(|| words.next())?)?
                .parse::<u64>()
                .ok()
        };
        let read = || {
            Some(Self {
                // Both families.
                tcp: four("Tcp", "InSegs")?,
                udp: four("Udp", "InDatagrams")?
                    + four("Udp", "NoPorts")?
                    + six("Udp6InDatagrams")?
                    + six("Udp6NoPorts")?,
                echo: four("Icmp", "InEchos")? + six("Icmp6InEchos")?,
            })
        };
        read().with_context(|| format!("{}: its kernel's counters", ns.name()))
    }
}

/// Segments that a workload's kernel has sent again.
pub(super) fn resent(ns: &Netns) -> Result<u64> {
    let text = ns.run(&["cat", "/proc/net/snmp"])?;
    let number = value(&text, "Tcp", "RetransSegs");
    number.context("the kernel's counter of segments sent again")
}

/// From /proc/net/snmp, which has of each protocol a line with names and one with values.
fn value(text: &str, protocol: &str, name: &str) -> Option<u64> {
    let mut lines = text
        .lines()
        .filter_map(|line| line.strip_prefix(protocol)?.strip_prefix(": "));
    let place = lines.next()?.split(' ').position(|word| word == name)?;
    lines.next()?.split(' ').nth(place)?.parse().ok()
}
