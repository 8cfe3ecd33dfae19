//! One node with a controller: what is declared, and both parts started.
//!
//! Half of the clients may speak to the server because they are members of the group
//! `trusted`, the other half by a rule each. So there are two kinds of permission
//! to take away.

mod declared;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use dpdk::{Eal, Mempool};
use penstock_api::client::{Client, Options as ClientOptions, connect};
use penstock_api::v1;
use penstock_daemon::server::{self, Options};
use penstock_daemon::store::Embedded;
use penstock_worker::config::{Config, File};
use penstock_worker::lcore::Lcores;
use penstock_worker::worker::{self, Worker};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

pub use declared::permission;

use declared::{NODE, everything};

use crate::frames::FLOWS_EACH;
use crate::meter::Meter;
use crate::ports::{self, Host};

/// What differs between sites.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The NIC has room for all flows of so many clients.
    pub in_nic: u32,
    /// Lines for the worker's `[[nic]]`.
    pub nic: &'static str,
}

/// A controller and a worker that run.
#[derive(Debug)]
pub struct Site {
    /// As an operator's tool has it.
    pub client: Client,
    /// The worker's polling threads.
    pub lcores: Lcores,
    worker: Option<Worker>,
    stop: oneshot::Sender<()>,
    daemon: tokio::task::JoinHandle<Result<(), server::Error>>,
    // Threads of their own for each part, as if they were processes.
    controller: Runtime,
    node: Runtime,
    _data: tempfile::TempDir,
}

impl Site {
    /// Starts both parts and declares everything.
    ///
    /// # Errors
    /// Something does not start.
    pub async fn start(
        shape: Shape,
        eal: &Eal,
        pool: Mempool,
        meter: Arc<Meter>,
    ) -> anyhow::Result<Self> {
        let data = tempfile::tempdir()?;
        let runtime = || {
            tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
        };
        let (controller, node) = (runtime()?, runtime()?);

        let config = config(shape, data.path())?;
        let parts = {
            let _inside = node.enter();
            worker::on(&config, eal, pool, Arc::new(Host::new(pool, meter)))?
        };
        let lcores = parts.lcores().clone();
        let worker = node
            .spawn(async move { Worker::start(&config, parts).await })
            .await??;

        let store = Arc::new(Embedded::open(&data.path().join("controller"))?);
        let listener = controller.spawn(TcpListener::bind("127.0.0.1:0")).await??;
        let server = format!("http://{}", listener.local_addr()?);
        let (stop, stopped) = oneshot::channel();
        let daemon = controller.spawn(async move {
            let stop = async move {
                // The sender is gone: as good as a stop.
                let _ = stopped.await;
            };
            server::serve(listener, store, Options::default(), stop).await
        });
        let client = connect(ClientOptions {
            server,
            connect_timeout: Duration::from_secs(10),
            tls: None,
        })
        .await?;
        let mut site = Self {
            client,
            lcores,
            worker: Some(worker),
            stop,
            daemon,
            controller,
            node,
            _data: data,
        };
        site.declare().await?;
        Ok(site)
    }

    async fn declare(&mut self) -> anyhow::Result<()> {
        let address = self.worker.as_ref().context("a worker")?.address();
        self.apply(everything(&address.to_string())).await
    }

    /// Stores these, as `penstock apply` does.
    ///
    /// # Errors
    /// The controller refuses them.
    pub async fn apply(&mut self, resources: Vec<v1::Resource>) -> anyhow::Result<()> {
        let request = v1::ApplyRequest {
            resources,
            ..Default::default()
        };
        self.client.resources.apply(request).await?;
        Ok(())
    }

    /// Stops both parts.
    ///
    /// # Errors
    /// One of them had failed.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        // Whoever is gone needs no stop.
        let _ = self.stop.send(());
        self.daemon.await??;
        if let Some(worker) = self.worker.take() {
            self.node.spawn(worker.stop()).await??;
        }
        self.controller.shutdown_background();
        self.node.shutdown_background();
        Ok(())
    }
}

fn config(shape: Shape, data: &Path) -> anyhow::Result<Config> {
    let Shape { in_nic, nic } = shape;
    // One for each way.
    let flow_capacity = 2 * in_nic * FLOWS_EACH;
    let data = data.join("worker");
    let text = format!(
        "node = \"{NODE}\"\n\
         listen = \"127.0.0.1:0\"\n\
         data_dir = {data:?}\n\
         max_connections = 524288\n\
         flow_capacity = {flow_capacity}\n\
         recovery_s = 0\n\
         [[nic]]\n\
         device_id = 1\n\
         uplink = {{ interface = \"{}\" }}\n\
         vtep = \"192.0.2.1/24\"\n\
         {nic}\n",
        ports::UPLINK
    );
    let file: File = toml::from_str(&text)?;
    Ok(Config::check(file, true, None)?)
}
