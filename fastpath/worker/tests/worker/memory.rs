//! A worker without DPDK in this process, to talk to.

use std::sync::Arc;

use penstock_worker::config::{Config, File};
use penstock_worker::ports::memory::Host;
use penstock_worker::worker::{self, Worker};

use crate::bed::lcores;
use crate::controller::Controller;

/// A worker on a host with the interfaces u0, u1 (uplinks of NIC 1 and 2), va and vb.
pub(crate) struct Bed {
    pub(crate) worker: Worker,
    pub(crate) host: Arc<Host>,
    pub(crate) dir: Arc<tempfile::TempDir>,
}

impl Bed {
    pub(crate) async fn start() -> Self {
        Self::with("").await
    }

    /// With more in its configuration.
    pub(crate) async fn with(more: &str) -> Self {
        let dir = Arc::new(tempfile::tempdir().expect("a directory"));
        let host = Arc::new(Host::new(["u0", "u1", "va", "vb"]));
        Self::on(dir, host, more).await
    }

    /// What it says where it does not start.
    pub(crate) async fn try_with(more: &str) -> Result<Self, String> {
        let dir = Arc::new(tempfile::tempdir().expect("a directory"));
        let host = Arc::new(Host::new(["u0", "u1", "va", "vb"]));
        Self::try_on(dir, host, more).await
    }

    async fn on(dir: Arc<tempfile::TempDir>, host: Arc<Host>, more: &str) -> Self {
        Self::try_on(dir, host, more).await.expect("starts")
    }

    pub(crate) async fn try_on(
        dir: Arc<tempfile::TempDir>,
        host: Arc<Host>,
        more: &str,
    ) -> Result<Self, String> {
        let config = config(dir.path(), more);
        let parts = worker::in_memory(&config, Arc::clone(&host)).expect("a thread");
        match Worker::start(&config, parts).await {
            Ok(worker) => Ok(Self { worker, host, dir }),
            Err(error) => Err(format!("{error:#}")),
        }
    }

    pub(crate) async fn controller(&self) -> Controller {
        Controller::connect(self.worker.address()).await
    }

    /// Stops in good order and starts again with what is on disk.
    pub(crate) async fn restart(self) -> Self {
        self.restart_with(|_| ()).await.expect("starts")
    }

    /// The same, with a change on disk in between; what it says where it does not start.
    pub(crate) async fn restart_with(
        self,
        edit: impl FnOnce(&std::path::Path),
    ) -> Result<Self, String> {
        let Self { worker, host, dir } = self;
        worker.stop().await.expect("stops");
        assert!(host.open_ports().is_empty(), "all are closed");
        edit(dir.path());
        Self::try_on(dir, host, "").await
    }
}

fn config(dir: &std::path::Path, more: &str) -> Config {
    let text = format!(
        "node = \"host-1\"\nlisten = \"127.0.0.1:0\"\nmetrics_listen = \"127.0.0.1:0\"\ndata_dir = {dir:?}\nmax_connections = 8192\n\
         flow_capacity = 1024\nlcores = {}\n\
         [attachments]\nallow = [\"v*\"]\n\
         [[nic]]\ndevice_id = 1\nuplink = {{ interface = \"u0\" }}\nvtep = \"192.0.2.1/24\"\n\
         [[nic]]\ndevice_id = 2\nuplink = {{ interface = \"u1\" }}\nvtep = \"192.0.2.2/24\"\n{more}",
        lcores(),
    );
    let file: File = toml::from_str(&text).expect("toml");
    Config::check(file, !more.contains("[tls]"), None).expect("good")
}
