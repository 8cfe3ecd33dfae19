//! `make bench-revocation`: how soon a permission that is taken away is gone for every
//! packet, with 100 000 connections alive.
//!
//! In each trial one client of a thousand loses its permission while all talk: an
//! `Apply` at the controller, as an operator's tool sends it. Measured is the last frame
//! of the client's flows that the worker sends, either way, from two moments on: the
//! worker's receipt of the update, and the return of `Apply`. Where the last frame
//! went before `Apply` returned, the second is 0. Then the client gets its permission
//! back, and its flows open anew.

mod trial;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use dpdk::{Eal, EalConfig, Mempool, PoolConfig};
use penstock_bench::frames::{CLIENTS, Class, FLOWS, FLOWS_EACH, Way};
use penstock_bench::log::{IN_FORCE, Log};
use penstock_bench::meter::{Meter, Phase};
use penstock_bench::ports::BACKGROUND_RATE;
use penstock_bench::report::{Report, percentile};
use penstock_bench::site::{Shape, Site};
use penstock_bench::wait;

const RUNS: usize = 3;
const TRIALS: usize = 100;
/// Changes of policy in all runs together, at least.
const UPDATES: usize = 1000;
/// A slow NIC takes longer to fill.
const FILLING: Duration = Duration::from_secs(90);
/// Of the background's rate, at least so much must have been made.
const RATE_KEPT: f64 = 0.95;

/// The cases by the end of their rows' names.
const CASES: [(&str, Shape); 2] = [
    (
        "",
        Shape {
            in_nic: CLIENTS,
            nic: "",
        },
    ),
    // At this pace it takes minutes to fill a NIC. Each trial has flows that are in it.
    (
        "/slow-nic",
        Shape {
            in_nic: 100,
            nic: "entry_write_us = 1000",
        },
    ),
];

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
        self.log.forget();
        let mut site = Site::start(self.shape, self.eal, self.pool, Arc::clone(&meter)).await?;
        let measured = self.measure(&mut site, &meter).await;
        meter.set_phase(Phase::Silent);
        site.stop().await?;
        measured
    }

    async fn measure(&self, site: &mut Site, meter: &Meter) -> anyhow::Result<Run> {
        self.open(site, meter).await?;
        let counted = meter.count();
        let _before = meter.take_late();
        let mut run = Run::default();
        let mut applying = Vec::new();
        let begin = Instant::now();
        meter.set_phase(Phase::Steady);
        // Clients in an order that is not their own, both kinds in turn.
        let mut client = 0;
        let mut next = || {
            client = (client + 389) % self.shape.in_nic;
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
        let counted = meter.count().since(&counted);
        let wanted = BACKGROUND_RATE * took.as_secs_f64();
        let made = counted.sent(Class::Background) as f64;
        let late = meter.take_late();
        if made < RATE_KEPT * wanted {
            bail!(
                "the bench fell behind: {made} of {wanted:.0} frames were made, the latest {late:?} \
                 late; this machine is too busy"
            );
        }
        run.lost = counted.lost(Class::Background);
        run.flips = counted.lost(Class::Permitted) + counted.forwarded(Class::Forbidden);
        let median = |of: &[f64]| percentile(of, 50);
        self.report.note(&format!(
            "  {} trials in {took:.1?}: worker median {:.2} ms, end to end {:.2} ms, Apply {:.2} ms; \
             {made} frames of others, {} of either probe; a frame was {late:.1?} late at most",
            run.worker.len(),
            median(&run.worker),
            median(&run.end_to_end),
            median(&applying),
            counted.sent(Class::Forbidden),
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
        // First those that are to be in the NIC, until they are.
        let first = self.shape.in_nic;
        for clients in [first, CLIENTS] {
            meter.set_clients(clients);
            let flows = clients * FLOWS_EACH;
            meter.set_phase(Phase::Open);
            wait("all requests", || {
                meter.through(Way::Request, None, begin) == flows
            })
            .await?;
            meter.set_phase(Phase::Answer);
            wait("all replies", || {
                meter.through(Way::Reply, None, begin) == flows
            })
            .await?;
            let deadline = Instant::now() + FILLING;
            // A table may be full a little earlier.
            while self.connections(site).await?.1 < u64::from(first * FLOWS_EACH) * 98 / 100 {
                if Instant::now() > deadline {
                    bail!("the NIC does not fill: {:?}", self.connections(site).await?);
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        meter.set_phase(Phase::Silent);
        tokio::time::sleep(Duration::from_millis(200)).await;
        let (live, offloaded) = self.connections(site).await?;
        // Each flow is a connection of both its ends.
        if live < 2 * u64::from(FLOWS) {
            bail!("{live} connections are alive, not {}", 2 * FLOWS);
        }
        self.report.note(&format!(
            "  {FLOWS} flows, {live} connections of their ports, {offloaded} flows in the NIC"
        ));
        Ok(())
    }

    /// Those that the worker has, and the flows in its NIC.
    async fn connections(&self, site: &Site) -> anyhow::Result<(u64, u64)> {
        let counts = site.lcores.each(|core| {
            let counters = core.engine.counters();
            (counters.connections.live, counters.offload.live)
        });
        let counts = counts.await?.into_iter();
        Ok(counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1)))
    }
}
