//! What a worker runs on: DPDK, or nothing.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use anyhow::Context as _;
use penstock_engine::{Config as EngineConfig, Engine};
use tokio::sync::oneshot;

use super::DEVICE_PORTS;
use crate::config::Config;
use crate::lcore::{self, Attic, Clock, Core, Handle};
use crate::mailbox;
use crate::ports::dpdk::{Dpdk, Frames};
use crate::ports::memory::Host;
use crate::ports::{Backend, Links};

/// A polling thread, and where its ports come from.
pub struct Parts {
    pub(super) lcore: Handle,
    pub(super) backend: Arc<dyn Backend>,
    pub(super) attic: Option<Attic>,
    /// Answers when the thread ends, for whatever reason.
    pub(super) ended: oneshot::Receiver<()>,
    pub(super) join: Box<dyn FnOnce() -> anyhow::Result<()> + Send>,
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts")
            .field("lcore", &self.lcore)
            .field("backend", &self.backend)
            .finish_non_exhaustive()
    }
}

/// Starts the environment and the polling thread. Needs a tokio runtime.
///
/// # Errors
/// The environment does not start.
pub fn dpdk(config: &Config) -> anyhow::Result<Parts> {
    let mut eal = ::dpdk::EalConfig::new()
        .no_huge(config.eal.no_huge)
        .memory_mib(config.eal.memory_mb)
        .file_prefix(&config.eal.file_prefix);
    for nic in &config.nics {
        if let crate::config::Uplink::Devargs(devargs) = &nic.uplink
            && !devargs.starts_with("net_")
        {
            eal = eal.allow_pci(devargs);
        }
    }
    let eal = Arc::new(::dpdk::Eal::init(&eal)?);
    let largest = config.nics.iter().filter_map(|nic| nic.mtu).max();
    let frames = Frames::of(largest.unwrap_or(0));
    let pool_config = ::dpdk::PoolConfig {
        mbufs: frames.count,
        data_room: frames.buffer + ::dpdk::HEADROOM,
        ..::dpdk::PoolConfig::default()
    };
    let pool = ::dpdk::Mempool::new(&eal, "frames", &pool_config)?;
    let links = Links::open().context("netlink socket")?;
    let backend = Arc::new(Dpdk::new(Arc::clone(&eal), pool, frames, links));
    let (core, attic) = core(config, Some(pool));
    let (lcore, receiver) = mailbox::channel();
    let (end, ended) = oneshot::channel();
    let thread = ::dpdk::launch(&eal, "lcore-0", config.cpu.map(usize::from), move || {
        // Dropped when the thread ends, after a panic too.
        let _end = end;
        lcore::run(core, receiver)
    })?;
    let join = Box::new(move || {
        drop(thread.join()?);
        Ok(())
    });
    Ok(Parts {
        lcore,
        backend,
        attic: Some(attic),
        ended,
        join,
    })
}

/// The same without DPDK: `host` says which interfaces there are, and nothing is
/// forwarded.
///
/// # Errors
/// The thread does not start.
pub fn in_memory(config: &Config, host: Arc<Host>) -> anyhow::Result<Parts> {
    let (core, attic) = core(config, None);
    let (lcore, receiver) = mailbox::channel();
    let (end, ended) = oneshot::channel();
    let thread = std::thread::Builder::new()
        .name("lcore-0".to_owned())
        .spawn(move || {
            let _end = end;
            lcore::run(core, receiver)
        })?;
    let join = Box::new(move || match thread.join() {
        Ok(core) => {
            drop(core);
            Ok(())
        }
        Err(_) => Err(anyhow::anyhow!("the forwarding thread panicked")),
    });
    Ok(Parts {
        lcore,
        backend: host,
        attic: Some(attic),
        ended,
        join,
    })
}

fn core(config: &Config, pool: Option<::dpdk::Mempool>) -> (Core, Attic) {
    let engine = Engine::new(EngineConfig {
        // The standard library draws its keys from the system.
        seed: RandomState::new().hash_one(std::process::id()),
        max_connections: config.max_connections,
        max_connections_per_port: config.max_connections.div_ceil(2),
        reserved_connections: config.max_connections / 2,
        max_device_ports: DEVICE_PORTS,
        ..EngineConfig::default()
    });
    let (mut core, attic) = Core::new(engine, Clock::start(), pool, DEVICE_PORTS);
    core.longest_sleep = config.longest_sleep;
    (core, attic)
}
