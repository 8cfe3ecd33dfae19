//! Everything put together.

mod parts;
mod tasks;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use penstock_engine::NicConfig;
use penstock_engine::nic::Table;
use penstock_flow::Addr;
use penstock_identity::server::Door;
use penstock_slowpath_api::v1;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use parts::{Parts, dpdk, in_memory, on};

use crate::agent::p4rt::{self, Device};
use crate::agent::slowpath::node::PortsFile;
use crate::agent::slowpath::{self, Facts, Node};
use crate::agent::transport;
use crate::config::{Config, Nic};
use crate::lcore::Core;
use crate::metrics;
use crate::ports::{Attached, Attachments, Numbers, Source};
use crate::snapshot::Store;

/// Device ports are numbered below this.
const DEVICE_PORTS: u32 = 1024;

/// A worker that forwards and serves.
#[derive(Debug)]
pub struct Worker {
    address: SocketAddr,
    metrics_address: Option<SocketAddr>,
    devices: Vec<Arc<Device>>,
    node: Arc<Node>,
    parts: Parts,
    stop: watch::Sender<bool>,
    tasks: JoinSet<anyhow::Result<()>>,
}

impl Worker {
    /// Starts one: opens uplinks, resumes what is kept on disk, then serves.
    ///
    /// # Errors
    /// Whatever is missing, with what to do about it.
    pub async fn start(config: &Config, parts: Parts) -> anyhow::Result<Self> {
        let door = transport::door(config)?;
        let store = Arc::new(Store::open(&config.data_dir)?);
        let lcores = parts.lcores.clone();
        // Until all is as it was: a packet that came before its connection would open
        // another, or be dropped. It waits in its device's queue.
        lcores.each(Core::pause).await?;
        let kept = PortsFile::load(&store)?;
        if kept.is_none() {
            for nic in &config.nics {
                Device::set_aside(nic.device_id, &store)?;
            }
        }
        let numbers = Numbers::resume(DEVICE_PORTS, kept.unwrap_or_default());
        let mut attachments = Attachments::new(
            Arc::clone(&parts.backend),
            lcores.clone(),
            config.attachments.clone(),
            numbers,
        );
        let mut infos = Vec::new();
        let mut devices = Vec::new();
        for (uplink, nic) in (1..).zip(&config.nics) {
            let source = Source::from(&nic.uplink);
            let attached = attachments
                .add_uplink(uplink, source, nic.mtu)
                .await
                .with_context(|| format!("uplink of NIC {}", nic.device_id))?;
            let mut engine = nic_config(nic, &attached)?;
            infos.push(nic_info(&engine));
            let share = engine.capacities.flow.div_ceil(config.lcores.into());
            engine.capacities.flow = share;
            let attached = lcores
                .each(move |core| core.engine.attach_nic(engine))
                .await?;
            attached
                .into_iter()
                .collect::<Result<(), _>>()
                .with_context(|| format!("NIC {}", nic.device_id))?;
            let device =
                Device::resume(nic.device_id, uplink, lcores.clone(), Arc::clone(&store)).await?;
            devices.push(Arc::new(device));
        }
        let facts = Facts {
            node: config.node.clone(),
            lcores: config.lcores.into(),
            nics: infos,
        };
        let node = Arc::new(
            Node::resume(
                facts,
                lcores.clone(),
                Arc::clone(&store),
                attachments,
                config.recovery,
            )
            .await?,
        );
        lcores.each(Core::go_on).await?;

        let listener = TcpListener::bind(config.listen).await.with_context(|| {
            format!("listen = {}: choose another address or port", config.listen)
        })?;
        let address = listener.local_addr()?;
        let metrics = match config.metrics_listen {
            None => None,
            Some(address) => Some(TcpListener::bind(address).await.with_context(|| {
                format!("metrics_listen = {address}: choose another address or port")
            })?),
        };
        let metrics_address = metrics.as_ref().map(TcpListener::local_addr).transpose()?;
        let mut worker = Self {
            address,
            metrics_address,
            devices,
            node,
            parts,
            stop: watch::Sender::new(false),
            tasks: JoinSet::new(),
        };
        worker.spawn(listener, door);
        if let Some(listener) = metrics {
            worker.spawn_metrics(listener);
        }
        tracing::info!(node = config.node, %address, nics = config.nics.len(), "worker serves");
        Ok(worker)
    }

    fn spawn(&mut self, listener: TcpListener, door: Door) {
        let p4rt = p4rt::Server::new(self.devices.iter().map(Arc::clone));
        let slowpath = slowpath::Server::new(Arc::clone(&self.node));
        let mut stopped = self.stop.subscribe();
        self.tasks.spawn(async move {
            let stop = async move {
                drop(stopped.wait_for(|stop| *stop).await);
            };
            transport::serve(listener, &door, p4rt, slowpath, stop).await
        });
        for device in &self.devices {
            let keep = tasks::keep(Arc::clone(device), self.stop.subscribe());
            self.tasks.spawn(keep);
        }
        let ports = tasks::look_after_ports(Arc::clone(&self.node), self.stop.subscribe());
        self.tasks.spawn(ports);
        for attic in std::mem::take(&mut self.parts.attics) {
            self.tasks.spawn(tasks::empty(attic, self.stop.subscribe()));
        }
    }

    fn spawn_metrics(&mut self, listener: TcpListener) {
        let source = metrics::Source {
            lcores: self.parts.lcores.clone(),
            backend: Arc::clone(&self.parts.backend),
            devices: self.devices.clone(),
        };
        let mut stopped = self.stop.subscribe();
        self.tasks.spawn(async move {
            let stop = async move {
                drop(stopped.wait_for(|stop| *stop).await);
            };
            Ok(metrics::serve(listener, source, stop).await?)
        });
    }

    /// Where it serves.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where `/metrics` is served.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics_address
    }

    /// Ends when something that must not end has ended.
    pub async fn failed(&mut self) -> anyhow::Error {
        tokio::select! {
            () = self.parts.ended.notified() => anyhow::anyhow!("a forwarding thread has ended"),
            task = self.tasks.join_next() => match task {
                Some(Ok(Err(error))) => error,
                Some(Err(error)) => error.into(),
                Some(Ok(Ok(()))) | None => anyhow::anyhow!("the server has ended"),
            },
        }
    }

    /// Stops serving, then forwarding; keeps what is to be kept, connections included,
    /// detaches all ports and ends the forwarding threads.
    ///
    /// # Errors
    /// A forwarding thread had panicked.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        self.stop.send_replace(true);
        while let Some(task) = self.tasks.join_next().await {
            if let Err(error) = task.map_err(anyhow::Error::from).and_then(|ended| ended) {
                tracing::warn!(%error, "while stopping");
            }
        }
        self.node.keep_connections().await;
        self.node.close().await;
        self.parts.lcores.stop().await;
        tokio::task::spawn_blocking(self.parts.join).await?
    }
}

fn nic_config(nic: &Nic, uplink: &Attached) -> anyhow::Result<NicConfig> {
    let underlay = nic
        .underlay()
        .with_context(|| format!("vtep {}/{} has no network", nic.vtep, nic.vtep_prefix_len))?;
    Ok(NicConfig {
        device_id: nic.device_id,
        vtep: nic.vtep.into(),
        uplink_port: uplink.device_port,
        uplink_mac: uplink.mac,
        underlay,
        gateway: nic.gateway.map(Addr::from),
        mtu: uplink.mtu,
        capacities: nic.capacities,
        // A tenth of a second at most: it fits.
        entry_write_ns: nic.entry_write.as_nanos() as u64,
    })
}

fn nic_info(nic: &NicConfig) -> v1::NicInfo {
    let capacity: HashMap<_, _> = Table::ALL
        .iter()
        .map(|table| (table.name().to_owned(), nic.capacities.of(*table)))
        .collect();
    v1::NicInfo {
        device_id: nic.device_id,
        driver: "soft".to_owned(),
        vtep: nic.vtep.octets().to_vec(),
        uplink_port: nic.uplink_port,
        uplink_mac: nic.uplink_mac.0.to_vec(),
        uplink_mtu: nic.mtu.into(),
        capacity,
    }
}

/// Runs a worker until `shutdown` ends or something fails.
///
/// # Errors
/// It could not start, or what it depends on has ended.
pub async fn run(
    config: &Config,
    parts: Parts,
    shutdown: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let mut worker = Worker::start(config, parts).await?;
    if let Some(path) = &config.ready_file {
        std::fs::write(path, format!("{}\n", worker.address()))
            .with_context(|| format!("ready_file {}", path.display()))?;
    }
    let failure = tokio::select! {
        () = shutdown => None,
        error = worker.failed() => Some(error),
    };
    if let Some(path) = &config.ready_file
        && let Err(error) = std::fs::remove_file(path)
    {
        tracing::warn!(path = %path.display(), %error, "ready file is left behind");
    }
    tracing::info!("worker stops");
    let stopped = worker.stop().await;
    match failure {
        Some(error) => Err(stopped.err().unwrap_or(error)),
        None => stopped,
    }
}
