//! What has been revoked stays revoked, whatever crashes.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::kind::HOSTS;
use super::traffic::REVOKED;
use super::watch::resent;
use super::{IN_FLIGHT, PATIENCE, Rounds, SETTLING, micros, policy};
use crate::bed::eventually;

/// Between a change that is in force and the last echo that had passed before it.
const ECHOES: Duration = Duration::from_millis(500);

/// Revokes what some connections need while they are busy, crashes both workers, and
/// watches them for `watch`: they are never taken up in their midst.
pub(super) fn run(rounds: &mut Rounds, watch: Duration) -> Result<()> {
    policy::revoke(&rounds.stage)?;
    sleep(ECHOES);
    let cut = rounds.traffic.position(&mut rounds.stage)?;
    let begin = micros();
    for host in HOSTS {
        rounds.stage.process(host)?.crash()?;
    }
    for host in HOSTS {
        rounds.start_worker(host)?;
    }
    let end = micros() + SETTLING.as_micros() as u64;
    rounds
        .restarts
        .push((begin - IN_FLIGHT.as_micros() as u64, end));
    rounds.goes_on(&cut.without(REVOKED), end)?;
    // From now on only the cut connections have anything to send again.
    let client = rounds.stage.workload("blue-client")?.clone();
    let before = resent(&client)?;
    let begin = Instant::now();
    eventually(
        &rounds.interrupt,
        PATIENCE * 2,
        "a segment sent again",
        || {
            let now = resent(&client)?;
            ensure!(now > before, "{now} since the start, as before");
            Ok(())
        },
    )?;
    while begin.elapsed() < watch {
        rounds.interrupt.check()?;
        sleep(ECHOES);
    }
    let now = rounds.traffic.position(&mut rounds.stage)?;
    for name in REVOKED {
        ensure!(
            now.hold(name) == cut.hold(name),
            "{name} goes on, though it was revoked: from {:?} to {:?}",
            cut.hold(name),
            now.hold(name)
        );
    }
    rounds.traffic.nothing_came_in(&mut rounds.stage)?;
    println!(
        "revoked, then both workers killed: cut connections stay cut for {:.1} s, {} segments in vain",
        begin.elapsed().as_secs_f64(),
        resent(&client)? - before
    );
    Ok(())
}
