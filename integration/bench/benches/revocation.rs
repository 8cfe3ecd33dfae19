//! `make bench-revocation`: how soon a permission that is taken away is gone for every
//! packet, with 100 000 connections alive.
//!
//! In each trial one client of a thousand loses its permission while all talk: an
//! `Apply` at the controller, as an operator's tool sends it. Measured is the last frame
//! of the client's flows that the worker sends, either way, from two moments on: the
//! worker's receipt of the update, and the return of `Apply`. Where the last frame
//! went before `Apply` returned, the second is 0. Then the client gets its permission
//! back, and its flows open anew.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use dpdk::{Eal, EalConfig, Mempool, PoolConfig};
use penstock_bench::frames::{CLIENTS, Class, FLOWS, FLOWS_EACH, Way};
use penstock_bench::log::{IN_FORCE, Log, RECEIVED};
use penstock_bench::meter::{Meter, Phase};
use penstock_bench::ports::BACKGROUND_RATE;
use penstock_bench::report::{Report, percentile};
use penstock_bench::site::{Shape, Site, permission};

const RUNS: usize = 3;
const TRIALS: usize = 100;
/// Changes of policy in all runs together, at least.
const UPDATES: usize = 1000;
/// Nothing may take longer.
const PATIENCE: Duration = Duration::from_secs(20);
/// So long without a frame, while frames come, and it is over.
const SILENCE: Duration = Duration::from_millis(40);
/// Of the background's rate, at least so much must have been made.
const RATE_KEPT: f64 = 0.95;

/// The cases by the end of their rows' names.
const CASES: [(&str, Shape); 1] = [(
    "",
    Shape {
        flow_capacity: 1 << 18,
        nic: "",
    },
)];

fn main() -> anyhow::Result<()> {
    let eal = Eal::init(&EalConfig::new().no_huge(true).memory_mib(256))?;
    let pool = Mempool::new(
        &eal,
        "frames",
        &PoolConfig {
            mbufs: 16_383,
            ..PoolConfig::default()
        },
    )?;
    let log = Log::listen()?;
    let report = Report::new("revocation");
    let only = std::env::args().nth(1).filter(|arg| !arg.starts_with("--"));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    for (suffix, shape) in CASES {
        if only
            .as_ref()
            .is_some_and(|only| !suffix.contains(only.as_str()))
        {
            continue;
        }
        let case = Case {
            eal: &eal,
            pool,
            log: &log,
            report,
            shape,
        };
        let mut runs = Vec::new();
        for _ in 0..RUNS {
            runs.push(runtime.block_on(case.run()).context("no figures")?);
        }
        let p99 = |of: fn(&Run) -> &[f64]| runs.iter().map(|run| percentile(of(run), 99)).collect();
        report.row(
            &format!("worker/100k{suffix}"),
            "p99",
            "ms",
            p99(|run| &run.worker),
        );
        report.row(
            &format!("end-to-end/100k{suffix}"),
            "p99",
            "ms",
            p99(|run| &run.end_to_end),
        );
        let count = |of: fn(&Run) -> u64| runs.iter().map(|run| of(run) as f64).collect();
        report.row(&format!("lost{suffix}"), "count", "", count(|run| run.lost));
        report.row(
            &format!("flips{suffix}"),
            "count",
            "",
            count(|run| run.flips),
        );
    }
    Ok(())
}

struct Case<'a> {
    eal: &'a Eal,
    pool: Mempool,
    log: &'a Log,
    report: Report,
    shape: Shape,
}

/// What one run has measured.
#[derive(Debug, Default)]
struct Run {
    /// Milliseconds, one per trial.
    worker: Vec<f64>,
    end_to_end: Vec<f64>,
    lost: u64,
    flips: u64,
}

impl Case<'_> {
    async fn run(&self) -> anyhow::Result<Run> {
        let meter = Arc::new(Meter::default());
        let mut site = Site::start(self.shape, self.eal, self.pool, Arc::clone(&meter)).await?;
        let measured = self.measure(&mut site, &meter).await;
        meter.set_phase(Phase::Silent);
        site.stop().await?;
        measured
    }

    async fn measure(&self, site: &mut Site, meter: &Meter) -> anyhow::Result<Run> {
        self.open(site, meter).await?;
        let counted = Counted::now(meter);
        let _before = meter.take_late();
        let mut run = Run::default();
        let mut applying = Vec::new();
        let begin = Instant::now();
        meter.set_phase(Phase::Steady);
        // Clients in an order that is not their own, both kinds in turn.
        let mut client = 0;
        let mut next = || {
            client = (client + 389) % CLIENTS;
            client
        };
        for _ in 0..TRIALS {
            let trial = self.trial(site, meter, next()).await?;
            run.worker.push(trial.worker);
            run.end_to_end.push(trial.end_to_end);
            applying.push(trial.applying);
        }
        // Changes as fast as they are taken.
        let rest = (UPDATES.div_ceil(RUNS)).saturating_sub(2 * TRIALS);
        let toggled = next();
        meter.set_target(Some(toggled));
        for i in 0..rest.next_multiple_of(2) {
            self.change(site, toggled, i % 2 == 1).await?;
        }
        self.recovered(meter, toggled, meter.now()).await?;
        meter.set_target(None);

        let took = begin.elapsed();
        meter.set_phase(Phase::Silent);
        tokio::time::sleep(Duration::from_millis(200)).await;
        let counted = Counted::now(meter).since(&counted);
        let wanted = BACKGROUND_RATE * took.as_secs_f64();
        let made = counted.sent[Class::Background as usize] as f64;
        let late = meter.take_late();
        if made < RATE_KEPT * wanted {
            bail!(
                "the bench fell behind: {made} of {wanted:.0} frames were made, the latest {late:?} \
                 late; this machine is too busy"
            );
        }
        run.lost = counted.lost(Class::Background);
        run.flips = counted.lost(Class::Permitted) + counted.forwarded[Class::Forbidden as usize];
        let median = |of: &[f64]| percentile(of, 50);
        self.report.note(&format!(
            "  {} trials in {took:.1?}: worker median {:.2} ms, end to end {:.2} ms, Apply {:.2} ms; \
             {made} frames of others, {} of either probe; a frame was {late:.1?} late at most",
            run.worker.len(),
            median(&run.worker),
            median(&run.end_to_end),
            median(&applying),
            counted.sent[Class::Forbidden as usize],
        ));
        Ok(run)
    }

    /// Brings all flows to life and into the NIC, as far as it takes them.
    async fn open(&self, site: &Site, meter: &Meter) -> anyhow::Result<()> {
        let begin = meter.now();
        wait("the policy in force", || {
            self.log.newest(IN_FORCE).is_some()
        })
        .await?;
        meter.set_phase(Phase::Open);
        wait("all requests", || {
            meter.through(Way::Request, None, begin) == FLOWS
        })
        .await?;
        meter.set_phase(Phase::Answer);
        wait("all replies", || {
            meter.through(Way::Reply, None, begin) == FLOWS
        })
        .await?;
        let again = meter.now();
        wait("all flows once more", || {
            meter.through(Way::Request, None, again) == FLOWS
                && meter.through(Way::Reply, None, again) == FLOWS
        })
        .await?;
        meter.set_phase(Phase::Silent);
        tokio::time::sleep(Duration::from_millis(200)).await;
        let counts = site.lcores.each(|core| {
            let counters = core.engine.counters();
            (counters.connections.live, counters.offload.live)
        });
        let (live, offloaded) = counts
            .await?
            .into_iter()
            .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        // Each flow is a connection of both its ends.
        if live < 2 * u64::from(FLOWS) {
            bail!("{live} connections are alive, not {}", 2 * FLOWS);
        }
        self.report.note(&format!(
            "  {FLOWS} flows, {live} connections of their ports, {offloaded} of these in the NIC"
        ));
        Ok(())
    }

    /// Takes a client's permission away, and gives it back.
    async fn trial(&self, site: &mut Site, meter: &Meter, client: u32) -> anyhow::Result<Trial> {
        let begin = meter.now();
        meter.set_target(Some(client));
        self.recovered(meter, client, begin).await?;

        let change = self.change(site, client, false).await?;
        let over = Instant::now();
        loop {
            let (last, sent) = (meter.last(), meter.sent(Class::Target));
            tokio::time::sleep(SILENCE).await;
            // Frames must have come for silence to mean anything.
            if meter.last() == last && meter.sent(Class::Target) - sent > u64::from(2 * FLOWS_EACH)
            {
                break;
            }
            if over.elapsed() > PATIENCE {
                bail!("client {client}: its flows go on {PATIENCE:?} after they were revoked");
            }
        }
        let last = meter.last();
        let from = |moment: Instant| last.saturating_sub(meter.at(moment)) as f64 / 1e6;
        let trial = Trial {
            worker: from(change.received),
            end_to_end: from(change.accepted),
            applying: (change.accepted - change.asked).as_secs_f64() * 1e3,
        };
        if trial.worker > 50.0 {
            let phases = self.log.of(change.generation);
            let phases = phases.iter().map(|(said, at)| {
                format!("{said} +{:.1} ms", (*at - change.asked).as_secs_f64() * 1e3)
            });
            let phases: Vec<_> = phases.collect();
            self.report
                .note(&format!("  slow: {trial:?}, {}", phases.join(", ")));
        }

        let again = meter.now();
        self.change(site, client, true).await?;
        self.recovered(meter, client, again).await?;
        meter.set_target(None);
        Ok(trial)
    }

    /// All of a client's flows have come through since, both ways.
    async fn recovered(&self, meter: &Meter, client: u32, since: u64) -> anyhow::Result<()> {
        wait(&format!("the flows of client {client}"), || {
            meter.through(Way::Request, Some(client), since) == FLOWS_EACH
                && meter.through(Way::Reply, Some(client), since) == FLOWS_EACH
        })
        .await
    }

    /// Changes a client's permission, until that is in force.
    async fn change(&self, site: &mut Site, client: u32, allowed: bool) -> anyhow::Result<Change> {
        let before = self
            .log
            .newest(IN_FORCE)
            .map_or(0, |(generation, _)| generation);
        let asked = Instant::now();
        site.apply(vec![permission(client, allowed)]).await?;
        let accepted = Instant::now();
        let is_newer = |newest: &(u64, Instant)| newest.0 > before;
        wait("the change in force", || {
            self.log.newest(IN_FORCE).is_some_and(|n| is_newer(&n))
        })
        .await?;
        let (generation, _) = self.log.newest(IN_FORCE).context("a generation")?;
        let said = self.log.of(generation);
        let received = said.iter().find(|(said, _)| said == RECEIVED);
        Ok(Change {
            generation,
            asked,
            accepted,
            received: received.context("the worker's receipt")?.1,
        })
    }
}

struct Change {
    generation: u64,
    asked: Instant,
    accepted: Instant,
    received: Instant,
}

/// Milliseconds.
#[derive(Debug)]
struct Trial {
    worker: f64,
    end_to_end: f64,
    applying: f64,
}

/// Frames by class.
struct Counted {
    sent: [u64; Class::ALL.len()],
    forwarded: [u64; Class::ALL.len()],
}

impl Counted {
    fn now(meter: &Meter) -> Self {
        Self {
            sent: Class::ALL.map(|class| meter.sent(class)),
            forwarded: Class::ALL.map(|class| meter.forwarded(class)),
        }
    }

    fn since(&self, before: &Self) -> Self {
        Self {
            sent: Class::ALL.map(|c| self.sent[c as usize] - before.sent[c as usize]),
            forwarded: Class::ALL
                .map(|c| self.forwarded[c as usize] - before.forwarded[c as usize]),
        }
    }

    fn lost(&self, class: Class) -> u64 {
        self.sent[class as usize].saturating_sub(self.forwarded[class as usize])
    }
}

async fn wait(what: &str, is_so: impl Fn() -> bool) -> anyhow::Result<()> {
    let begin = Instant::now();
    while !is_so() {
        if begin.elapsed() > PATIENCE {
            bail!("waited {PATIENCE:?} for {what}");
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}
