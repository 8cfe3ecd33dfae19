//! Restarts in every order, under traffic: who may talk goes on talking, and who may not
//! never does.
//!
//! On the demo's stage, blue's workloads keep TCP connections and streams of datagrams
//! alive, on one host and across, in both families, while red's knock at closed doors the
//! whole time. Each round ends one or two processes, the hard way or in good order, and
//! starts them again. At the end a permission is revoked, and both workers crash: what had
//! been cut stays cut.

mod kind;
mod policy;
mod revoke;
mod traffic;
mod watch;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};

use crate::bed::{Interrupt, eventually, sweep};
use crate::demo::stage::Stage;
use crate::demo::{self, PREFIX};
use kind::{HOSTS, Kind, Plan};
use traffic::{Position, Traffic};
use watch::Worker;

/// What every wait gets: machines are shared.
const PATIENCE: Duration = Duration::from_secs(30);
/// From a worker's word that it serves, until nothing of its restart is left to see.
const SETTLING: Duration = Duration::from_secs(1);
/// Datagrams on their way when a worker ends.
const IN_FLIGHT: Duration = Duration::from_millis(200);
/// What workers' devices hold for them while they wait for a processor.
const QUEUES: Duration = Duration::from_millis(100);
/// A controller stays away for so long.
const ABSENCE: Duration = Duration::from_millis(500);

/// What is to be done.
#[derive(Debug)]
pub struct Options {
    /// Folder of penstockd, penstock-worker, penstock and workload.
    pub binaries: PathBuf,
    /// Folder of the demo's policy.
    pub policy: PathBuf,
    /// Chooses order and hosts.
    pub seed: u64,
    /// How many.
    pub rounds: usize,
    /// How long the revoked connection is watched after the crash.
    pub watch: Duration,
}

/// Plays all rounds; prints what each kind has cost.
///
/// # Errors
/// The first thing that was not as it has to be, and the seed that leads there.
pub fn run(options: &Options) -> Result<()> {
    println!("rounds: seed {}", options.seed);
    let interrupt = Interrupt::install()?;
    sweep(PREFIX)?;
    let stage = Stage::build(
        &demo::Options {
            binaries: options.binaries.clone(),
            policy: options.policy.clone(),
            lcores: 1,
            underlay: demo::Underlay::V4,
            keep: false,
        },
        &interrupt,
    )?;
    let mut rounds = Rounds {
        stage,
        interrupt,
        traffic: Traffic::default(),
        restarts: Vec::new(),
        judged: 0,
        waited: BTreeMap::new(),
    };
    let outcome = rounds.play(options);
    if outcome.is_err() {
        rounds.stage.print_logs();
        watch::print_losses(&rounds.stage);
        rounds.traffic.print_losses(&mut rounds.stage);
    }
    outcome.with_context(|| format!("seed {}", options.seed))
}

struct Rounds {
    stage: Stage,
    interrupt: Interrupt,
    traffic: Traffic,
    /// When datagrams may have been lost: sent in microseconds since 1970.
    restarts: Vec<(u64, u64)>,
    /// Losses up to this time have been judged.
    judged: u64,
    /// How long workers' threads had waited for a processor then.
    waited: BTreeMap<&'static str, Duration>,
}

impl Rounds {
    fn play(&mut self, options: &Options) -> Result<()> {
        policy::apply(&self.stage, options)?;
        self.stage.wait_for_addresses(&self.interrupt)?;
        self.traffic.begin(&mut self.stage, &self.interrupt)?;
        let mut costs: Vec<(Kind, f64)> = Vec::new();
        let plan = Plan::new(options.seed, options.rounds);
        for (number, (kind, host)) in plan.enumerate() {
            self.interrupt.check()?;
            let what = format!("round {number}: {} ({host})", kind.name());
            let begin = Instant::now();
            let gap = self.round(kind, host).with_context(|| what.clone())?;
            println!(
                "{what}: gap {gap:.0} ms, all well after {:.1} s",
                begin.elapsed().as_secs_f64()
            );
            costs.push((kind, gap));
        }
        revoke::run(self, options.watch).context("revoking a permission")?;
        let last = self.traffic.position(&mut self.stage)?;
        self.no_other_losses(&last)?;
        kind::print(&mut costs);
        println!("rounds: {}", self.traffic.summary(&mut self.stage)?);
        Ok(())
    }

    /// One round; how many milliseconds of a stream it has cost.
    fn round(&mut self, kind: Kind, host: &'static str) -> Result<f64> {
        let before = self.traffic.position(&mut self.stage)?;
        let workers = Worker::both(&self.stage)?;
        let begin = micros();
        let controller = "penstockd";
        match kind {
            Kind::CrashWorker => {
                self.stage.process(host)?.crash()?;
                self.start_worker(host)?;
            }
            Kind::StopWorker => {
                self.stage.process(host)?.terminate(PATIENCE)?;
                self.start_worker(host)?;
            }
            Kind::CrashController => {
                self.stage.process(controller)?.crash()?;
                sleep(ABSENCE);
            }
            Kind::StopController => {
                self.stage.process(controller)?.terminate(PATIENCE)?;
                sleep(ABSENCE);
            }
            Kind::CrashWorkerAlone => {
                self.stage.process(controller)?.crash()?;
                self.stage.process(host)?.crash()?;
                self.start_worker(host)?;
                // Nobody programs it: it goes on from its files.
                self.goes_on(&before, micros())?;
            }
        }
        let end = micros();
        let slack = |time: Duration| time.as_micros() as u64;
        if kind.ends_a_worker() {
            let window = (begin - slack(IN_FLIGHT), end + slack(SETTLING));
            self.restarts.push(window);
        }
        if kind.ends_the_controller() {
            self.stage.process(controller)?.start_again()?;
        }
        self.settle()?;
        for (before, now) in workers.iter().zip(Worker::both(&self.stage)?) {
            now.has_been_left_alone_since(before, kind.ends_a_worker().then_some(host))?;
        }
        let after = self.goes_on(&before, end + slack(SETTLING))?;
        self.traffic.nothing_came_in(&mut self.stage)?;
        self.no_other_losses(&after)?;
        Ok(after.gap(|sent| sent >= begin - slack(IN_FLIGHT)))
    }

    /// Starts a worker that has ended, and waits until it serves.
    fn start_worker(&mut self, host: &str) -> Result<()> {
        let serves = |log: &str| log.matches("worker serves").count();
        let before = serves(&self.stage.output(host)?);
        self.stage.process(host)?.start_again()?;
        eventually(&self.interrupt, PATIENCE, "the worker to serve", || {
            self.stage.process(host)?.check_alive()?;
            ensure!(serves(&self.stage.output(host)?) > before, "not yet");
            Ok(())
        })
    }

    /// Waits until the controller has found both nodes as it wants them.
    fn settle(&mut self) -> Result<()> {
        let penstock = self.stage.penstock();
        eventually(&self.interrupt, PATIENCE, "the nodes' programs", || {
            penstock.run(&["wait", "--timeout", "30"])
        })?;
        Ok(())
    }

    /// Waits until every connection has come further than `before`, and every stream has
    /// brought back what was sent after `then`.
    fn goes_on(&mut self, before: &Position, then: u64) -> Result<Position> {
        eventually(&self.interrupt, PATIENCE, "traffic to go on", || {
            self.stage.check_alive_but(&["penstockd"])?;
            let now = self.traffic.position(&mut self.stage)?;
            now.is_beyond(before, then)?;
            Ok(now)
        })
    }

    /// Every datagram that was lost was lost in a restart; or by a worker that was kept
    /// waiting for a processor for longer than its devices' queues last.
    fn no_other_losses(&mut self, position: &Position) -> Result<()> {
        let inside = |sent: u64| {
            let mut restarts = self.restarts.iter();
            restarts.any(|(begin, end)| (*begin..=*end).contains(&sent))
        };
        let lost = position.gap(|sent| sent > self.judged && !inside(sent));
        self.judged = position.accounted_for();
        let mut waited = Duration::ZERO;
        for host in HOSTS {
            let now = self.stage.process(host)?.waited("lcore-0")?;
            let before = self.waited.insert(host, now).unwrap_or_default();
            // One that was started again has begun to count anew.
            waited += now.checked_sub(before).unwrap_or(now);
        }
        if lost > 0.0 {
            println!(
                "  {lost:.0} ms of a stream lost outside of restarts; workers waited {waited:?} for a processor"
            );
        }
        ensure!(
            lost == 0.0 || waited > QUEUES && waited.as_secs_f64() * 1e3 > lost,
            "{lost:.0} ms of a stream are lost, and nothing was restarted then: {:?}",
            self.restarts.last()
        );
        Ok(())
    }
}

fn micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_micros() as u64
}
