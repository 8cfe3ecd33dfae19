//! One client loses its permission and gets it back.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use penstock_bench::frames::{Class, FLOWS_EACH, Way};
use penstock_bench::log::{IN_FORCE, RECEIVED};
use penstock_bench::meter::Meter;
use penstock_bench::site::{Site, permission};
use penstock_bench::{PATIENCE, wait};

use super::Case;

/// So long without a frame, while frames come, and it is over.
const SILENCE: Duration = Duration::from_millis(40);

impl Case<'_> {
    /// Takes a client's permission away, and gives it back.
    pub(super) async fn trial(
        &self,
        site: &mut Site,
        meter: &Meter,
        client: u32,
    ) -> anyhow::Result<Trial> {
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
    pub(super) async fn recovered(
        &self,
        meter: &Meter,
        client: u32,
        since: u64,
    ) -> anyhow::Result<()> {
        wait(&format!("the flows of client {client}"), || {
            meter.through(Way::Request, Some(client), since) == FLOWS_EACH
                && meter.through(Way::Reply, Some(client), since) == FLOWS_EACH
        })
        .await
    }

    /// Changes a client's permission, until that is in force.
    pub(super) async fn change(
        &self,
        site: &mut Site,
        client: u32,
        allowed: bool,
    ) -> anyhow::Result<Change> {
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

/// When a change was what.
pub(super) struct Change {
    generation: u64,
    asked: Instant,
    accepted: Instant,
    received: Instant,
}

/// Milliseconds.
#[derive(Debug)]
pub(super) struct Trial {
    pub(super) worker: f64,
    pub(super) end_to_end: f64,
    pub(super) applying: f64,
}
