//! Who talks, who knocks, and what comes of it.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail, ensure};

use super::PATIENCE;
use super::policy::{TCP, UDP};
use super::watch::Received;
use crate::bed::{Interrupt, eventually};
use crate::demo::stage::Stage;

/// Microseconds between two datagrams of a stream.
const PERIOD: u64 = 5000;

/// TCP connections: name, from, to. On host-b: client, db; on host-a: web.
const HOLDS: [(&str, &str, &str); 6] = [
    ("hold-local-4", "blue-client", "10.0.0.12"),
    ("hold-local-6", "blue-client", "fd00:10::12"),
    ("hold-remote-4", "blue-web", "10.0.0.12"),
    ("hold-remote-6", "blue-web", "fd00:10::12"),
    ("hold-revoked-4", "blue-client", "10.0.0.11"),
    ("hold-revoked-6", "blue-client", "fd00:10::11"),
];
/// Those that need what is revoked at the end.
pub(super) const REVOKED: &[&str] = &["hold-revoked-4", "hold-revoked-6"];

/// Datagrams there and back.
const STREAMS: [(&str, &str, &str); 4] = [
    ("stream-local-4", "blue-client", "10.0.0.12"),
    ("stream-local-6", "blue-client", "fd00:10::12"),
    ("stream-remote-4", "blue-client", "10.0.0.11"),
    ("stream-remote-6", "blue-client", "fd00:10::11"),
];

/// Closed doors: who knocks, and where. One on a host, one across.
const KNOCKS: [(&str, &str, &str); 2] = [
    ("knock-local-4", "red-client", "10.0.0.12"),
    ("knock-remote-6", "red-db", "fd00:10::11"),
];
/// Who is behind the doors.
const INSIDE: [&str; 2] = ["red-db", "red-web"];
/// Open for web alone, and for nobody.
const DOORS: &str = "5432";

/// All that goes on.
#[derive(Default)]
pub(super) struct Traffic {
    /// What those behind the doors had received before the knocking.
    received: BTreeMap<&'static str, Received>,
}

/// How far everything has come.
#[derive(Clone, Debug, Default)]
pub(super) struct Position {
    holds: BTreeMap<&'static str, u64>,
    /// The newest datagram that is accounted for: when it was sent.
    streams: BTreeMap<&'static str, u64>,
    /// Datagrams that did not come back: number, and when it was sent.
    lost: BTreeMap<&'static str, Vec<(u64, u64)>>,
}

impl Traffic {
    pub(super) fn begin(&mut self, stage: &mut Stage, interrupt: &Interrupt) -> Result<()> {
        let workload = stage.workload_binary();
        neighbours(stage)?;
        self.doors_can_be_seen(stage)?;
        let (tcp, udp) = (TCP.to_string(), UDP.to_string());
        for server in ["blue-web", "blue-db"] {
            let echo = [&workload, "echo", "--tcp", &tcp, "--udp", &udp].map(ToOwned::to_owned);
            stage.spawn(server, &format!("{server}-echo"), &echo)?;
        }
        eventually(interrupt, PATIENCE, "the echoes", || {
            for server in ["blue-web", "blue-db"] {
                let said = stage.output(&format!("{server}-echo"))?;
                ensure!(said.contains("ready"), "{server}: {said}");
            }
            Ok(())
        })?;
        for (name, from, to) in HOLDS {
            let command = [&workload, "hold", to, &tcp].map(ToOwned::to_owned);
            stage.spawn(from, name, &command)?;
        }
        let period = PERIOD.to_string();
        for (name, from, to) in STREAMS {
            let command = [&workload, "stream", to, &udp, &period].map(ToOwned::to_owned);
            stage.spawn(from, name, &command)?;
        }
        for (name, from, to) in KNOCKS {
            let command = [&workload, "knock", to, DOORS, "10"].map(ToOwned::to_owned);
            stage.spawn(from, name, &command)?;
            let ping = ["ping", "-n", "-q", "-i", "0.01", to].map(str::to_owned);
            stage.spawn(from, &format!("{name}-ping"), &ping)?;
        }
        eventually(interrupt, PATIENCE, "traffic to flow", || {
            stage.check_alive()?;
            self.position(stage)?.is_beyond(&Position::default(), 0)
        })?;
        self.nothing_came_in(stage)
    }

    /// That what comes in is counted is shown by what may; then the counters are read.
    fn doors_can_be_seen(&mut self, stage: &Stage) -> Result<()> {
        let workload = stage.workload_binary();
        let read = |name| Received::of(stage.workload(name)?);
        let before = read("red-web")?;
        let client = stage.workload("red-client")?;
        for to in ["10.0.0.11", "fd00:10::11"] {
            client.run(&["ping", "-n", "-c", "2", "-i", "0.1", to])?;
            client.run(&[&workload, "udp-ask", to, "7", "2000"])?;
        }
        client.run(&["curl", "-sS", "--max-time", "5", "http://10.0.0.11/token"])?;
        let after = read("red-web")?;
        ensure!(
            after.tcp > before.tcp && after.udp >= before.udp + 40 && after.echo >= before.echo + 4,
            "what red-web has received is not seen: {before:?}, then {after:?}"
        );
        // The web page's connection ends by itself.
        std::thread::sleep(std::time::Duration::from_millis(300));
        for name in INSIDE {
            self.received.insert(name, read(name)?);
        }
        Ok(())
    }

    /// Nothing that was knocked with has come in.
    pub(super) fn nothing_came_in(&self, stage: &mut Stage) -> Result<()> {
        for (name, before) in &self.received {
            let now = Received::of(stage.workload(name)?)?;
            ensure!(
                now == *before,
                "{name} has received {before:?}, and now {now:?}"
            );
        }
        for (name, ..) in KNOCKS {
            let said = stage.output(name)?;
            ensure!(!said.contains("OPEN"), "{name}: a connection was made");
        }
        Ok(())
    }

    /// How far everything has come.
    pub(super) fn position(&self, stage: &mut Stage) -> Result<Position> {
        let mut position = Position::default();
        for (name, ..) in HOLDS {
            let said = stage.output(name)?;
            let last = whole(&said).next_back();
            let number = last.and_then(|line| line.parse().ok()).unwrap_or(0);
            position.holds.insert(name, number);
        }
        for (name, ..) in STREAMS {
            let said = stage.output(name)?;
            let mut lost = Vec::new();
            for line in whole(&said) {
                let mut words = line.split(' ');
                let what = words.next();
                let mut number = || words.next()?.parse().ok();
                match (what, number(), number()) {
                    (Some("lost"), Some(number), Some(sent)) => lost.push((number, sent)),
                    (Some("back"), Some(_), Some(sent)) => {
                        position.streams.insert(name, sent);
                    }
                    (Some("send"), ..) => {}
                    _ => bail!("{name} said {line:?}"),
                }
            }
            position.lost.insert(name, lost);
        }
        Ok(position)
    }

    /// Which datagrams did not come back, for whoever reads why a test failed.
    pub(super) fn print_losses(&self, stage: &mut Stage) {
        match self.position(stage) {
            Err(error) => eprintln!("--- {error:#}"),
            Ok(position) => {
                for name in ["blue-client", "blue-db", "blue-web"] {
                    let counters = stage.workload(name).and_then(|ns| {
                        ns.run(&[
                            "grep",
                            "-h",
                            "Udp: \\|Udp6.*Err\\|eth0",
                            "/proc/net/snmp",
                            "/proc/net/snmp6",
                            "/proc/net/dev",
                        ])
                    });
                    eprintln!("--- {name}'s kernel: {counters:?}");
                }
                for (name, lost) in &position.lost {
                    eprintln!("--- {name} has lost {}: {lost:?}", lost.len());
                }
            }
        }
    }

    /// What it all was.
    pub(super) fn summary(&self, stage: &mut Stage) -> Result<String> {
        let mut knocks = 0;
        for (name, ..) in KNOCKS {
            let said = stage.output(name)?;
            let last = whole(&said).next_back();
            let number = last.and_then(|line| line.strip_prefix("knocks ")?.parse::<u64>().ok());
            knocks += number.with_context(|| format!("{name} does not knock: {last:?}"))?;
        }
        Ok(format!(
            "{} TCP connections and {} streams went on; {knocks} times SYN, datagram and ping at \
             closed doors, none came in",
            HOLDS.len() - REVOKED.len(),
            STREAMS.len()
        ))
    }
}

impl Position {
    /// Whether every connection has come further than in `before`, and every stream
    /// accounts for what was sent at `then`.
    pub(super) fn is_beyond(&self, before: &Self, then: u64) -> Result<()> {
        for (name, ..) in HOLDS {
            let (now, was) = (self.holds.get(name), before.holds.get(name));
            // Not in `before`: nobody waits for it.
            if !before.holds.is_empty() && was.is_none() {
                continue;
            }
            let now = now.copied().unwrap_or(0);
            // Some more: what had only been under way is no proof.
            ensure!(
                now > was.copied().unwrap_or(0) + 10,
                "{name} is still at {now}"
            );
        }
        for (name, ..) in STREAMS {
            let now = self.streams.get(name).copied().unwrap_or(0);
            ensure!(
                now > then,
                "{name} is {} us behind",
                then.saturating_sub(now)
            );
        }
        Ok(())
    }

    /// The same, with nothing about some of the connections.
    pub(super) fn without(&self, names: &[&str]) -> Self {
        let mut rest = self.clone();
        rest.holds.retain(|name, _| !names.contains(name));
        rest
    }

    pub(super) fn hold(&self, name: &str) -> Option<u64> {
        self.holds.get(name).copied()
    }

    /// Of what was sent before, every stream says whether it came back.
    pub(super) fn accounted_for(&self) -> u64 {
        self.streams.values().copied().min().unwrap_or(0)
    }

    /// The most that a stream has lost of what was sent at a time that `counts`, in
    /// milliseconds of it.
    pub(super) fn gap(&self, counts: impl Fn(u64) -> bool) -> f64 {
        let lost = |all: &Vec<(u64, u64)>| all.iter().filter(|(_, sent)| counts(*sent)).count();
        let most = self.lost.values().map(lost).max().unwrap_or(0);
        most as f64 * PERIOD as f64 / 1e3
    }
}

/// The lines that are written to their end.
fn whole(said: &str) -> impl DoubleEndedIterator<Item = &str> {
    let end = said.rfind('\n').map_or(0, |at| at + 1);
    said.get(..end).unwrap_or_default().lines()
}

/// A host that has lost its neighbour sends nothing for a while: that is not what is
/// looked at here.
fn neighbours(stage: &Stage) -> Result<()> {
    for (tenant, number) in [("blue", 1), ("red", 2)] {
        let places = [("web", "11"), ("db", "12"), ("client", "21")];
        for (from, _) in places {
            let ns = stage.workload(&format!("{tenant}-{from}"))?;
            // A sender of little repeats it at once, again and again.
            ns.run(&["sysctl", "-qw", "net.ipv4.tcp_thin_linear_timeouts=1"])?;
            for (to, last) in places.iter().filter(|(to, _)| *to != from) {
                let mac = format!("02:00:00:00:0{number}:{last}");
                for addr in [format!("10.0.0.{last}"), format!("fd00:10::{last}")] {
                    let neigh = ["ip", "neigh", "replace", &addr, "lladdr", &mac];
                    ns.run(&[&neigh[..], &["nud", "permanent", "dev", "eth0"]].concat())
                        .with_context(|| format!("{tenant}-{from} to {to}"))?;
                }
            }
        }
    }
    Ok(())
}
