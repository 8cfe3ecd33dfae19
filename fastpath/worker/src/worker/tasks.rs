//! What goes on beside serving, until the worker stops.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::agent::p4rt::Device;
use crate::agent::slowpath::Node;
use crate::lcore::Attic;

/// Changes of a device's tables come in batches: they are kept together.
const KEEP_AFTER: Duration = Duration::from_millis(200);
/// Between two tries to keep them.
const KEEP_AGAIN: Duration = Duration::from_secs(5);
/// Between two looks at the host's interfaces.
const LOOK: Duration = Duration::from_millis(500);
/// Between two looks for policies to drop.
const SWEEP: Duration = Duration::from_millis(100);

async fn stopped(stop: &mut watch::Receiver<bool>) {
    drop(stop.wait_for(|stop| *stop).await);
}

/// Keeps a device's tables on disk, soon after they change and once at the end; and again
/// where the disk did not take them.
pub(super) async fn keep(
    device: Arc<Device>,
    mut stop: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let mut failed = false;
    loop {
        let last = tokio::select! {
            () = device.changed() => false,
            () = tokio::time::sleep(KEEP_AGAIN), if failed => false,
            () = stopped(&mut stop) => true,
        };
        if !last {
            tokio::time::sleep(KEEP_AFTER).await;
        }
        let saved = device.save().await;
        match &saved {
            Ok(()) if failed => tracing::info!(device = device.id(), "tables are on disk again"),
            Ok(()) => {}
            Err(error) if !failed => {
                tracing::error!(device = device.id(), %error, "tables are not kept: a restart would begin empty");
            }
            Err(error) => tracing::debug!(device = device.id(), %error, "tables are not kept"),
        }
        failed = saved.is_err();
        if last {
            return Ok(());
        }
    }
}

/// Attaches interfaces that appear, and notices those that vanish.
pub(super) async fn look_after_ports(
    node: Arc<Node>,
    mut stop: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK) => node.look_after_ports().await?,
            () = stopped(&mut stop) => return Ok(()),
        }
    }
}

/// Drops what a polling thread has no use for any more.
pub(super) async fn empty(mut attic: Attic, mut stop: watch::Receiver<bool>) -> anyhow::Result<()> {
    loop {
        let last = tokio::select! {
            () = tokio::time::sleep(SWEEP) => false,
            () = stopped(&mut stop) => true,
        };
        while let Ok(retired) = attic.pop() {
            drop(retired);
        }
        if last {
            return Ok(());
        }
    }
}
