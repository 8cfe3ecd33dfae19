//! Makes the rows' traffic from inside the workloads.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::rows::{Row, Seen, Talk};
use super::stage::{BLOB_BYTES, Stage};
use crate::bed::{Interrupt, Netns, Run, run};

/// Long enough for a first packet anywhere, short enough for closed rows.
const SILENCE_MS: u64 = 800;
const TRANSFER: Duration = Duration::from_secs(20);

/// Tries every row: one sender after the other for those that should be
/// answered, so that their times mean something, then all closed ones at once.
pub(super) fn all(stage: &Stage, rows: &mut [Row], interrupt: &Interrupt) -> Result<()> {
    for row in rows.iter_mut().filter(|r| r.allowed) {
        interrupt.check()?;
        row.seen = try_row(stage, row)?;
    }
    std::thread::scope(|scope| {
        let closed: Vec<_> = rows
            .iter_mut()
            .filter(|r| !r.allowed)
            .map(|row| {
                scope.spawn(move || {
                    row.seen = try_row(stage, row)?;
                    Ok(())
                })
            })
            .collect();
        closed.into_iter().try_for_each(|t| match t.join() {
            Ok(result) => result,
            Err(_) => anyhow::bail!("a probe panicked"),
        })
    })
}

fn try_row(stage: &Stage, row: &Row) -> Result<Seen> {
    let ns = stage.workload(&format!("{}-{}", row.tenant, row.from))?;
    match row.talk {
        Talk::Ping => ping(ns, &row.addr),
        Talk::Http => http(ns, &row.addr),
        Talk::Tcp(port) => ask(stage, ns, "tcp-ask", &row.addr, port),
        Talk::Udp(port) => ask(stage, ns, "udp-ask", &row.addr, port),
    }
}

fn ping(ns: &Netns, addr: &str) -> Result<Seen> {
    let out = inside(
        ns,
        &["ping", "-n", "-c", "5", "-i", "0.05", "-W", "1", addr],
    )?;
    let first = out
        .stdout
        .lines()
        .find_map(|l| l.split_once(" time=")?.1.split(' ').next());
    Ok(match first {
        None => Seen::Silence,
        Some(_) if !out.status.success() || !out.stdout.contains(" 0% packet loss") => {
            Seen::Broken("some pings lost".to_owned())
        }
        Some(ms) => {
            let ms: f64 = ms.parse().with_context(|| format!("ping's time {ms:?}"))?;
            Seen::Answer {
                token: String::new(),
                first_us: (ms * 1e3) as u64,
            }
        }
    })
}

fn http(ns: &Netns, addr: &str) -> Result<Seen> {
    let base = if addr.contains(':') {
        format!("http://[{addr}]")
    } else {
        format!("http://{addr}")
    };
    let token = inside(
        ns,
        &[
            "curl",
            "-sS",
            "--max-time",
            "2",
            "-w",
            "\n%{time_connect}",
            &format!("{base}/token"),
        ],
    )?;
    if !token.status.success() {
        return Ok(Seen::Silence);
    }
    let (token, seconds) = token
        .stdout
        .rsplit_once('\n')
        .context("curl printed no time")?;
    let seconds: f64 = seconds
        .parse()
        .with_context(|| format!("curl's time {seconds:?}"))?;
    let blob = inside(
        ns,
        &[
            "curl",
            "-sS",
            "-o",
            "/dev/null",
            "--max-time",
            "15",
            "-w",
            "%{size_download}",
            &format!("{base}/blob"),
        ],
    )?;
    if blob.stdout != BLOB_BYTES.to_string() {
        return Ok(Seen::Broken(format!(
            "{} of {BLOB_BYTES} bytes: {}",
            blob.stdout,
            blob.stderr.trim()
        )));
    }
    Ok(Seen::Answer {
        token: token.to_owned(),
        first_us: (seconds * 1e6) as u64,
    })
}

fn ask(stage: &Stage, ns: &Netns, how: &str, addr: &str, port: u16) -> Result<Seen> {
    let out = inside(
        ns,
        &[
            &stage.workload_binary(),
            how,
            addr,
            &port.to_string(),
            &SILENCE_MS.to_string(),
        ],
    )?;
    if !out.status.success() {
        return Ok(Seen::Silence);
    }
    let (token, first) = out
        .stdout
        .trim()
        .split_once(' ')
        .with_context(|| format!("{how} said {:?}", out.stdout))?;
    Ok(Seen::Answer {
        token: token.to_owned(),
        first_us: first.parse().context("microseconds")?,
    })
}

fn inside(ns: &Netns, command: &[&str]) -> Result<Run> {
    let all: Vec<&str> = ["ip", "netns", "exec", ns.name()]
        .iter()
        .chain(command)
        .copied()
        .collect();
    let begin = Instant::now();
    run(&all, TRANSFER).with_context(|| format!("after {:?}", begin.elapsed()))
}
