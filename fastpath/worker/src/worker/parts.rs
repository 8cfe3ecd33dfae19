//! What a worker runs on: DPDK, or nothing.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use anyhow::Context as _;
use penstock_engine::{Config as EngineConfig, Engine, Shard};
use tokio::sync::Notify;

use super::DEVICE_PORTS;
use crate::config::Config;
use crate::lcore::{self, Attic, Clock, Core, Handle, Lcores, Peers};
use crate::mailbox::{self, Receiver};
use crate::ports::dpdk::{Dpdk, Frames};
use crate::ports::memory::Host;
use crate::ports::{Backend, Links};

/// Polling threads, and where their ports come from.
pub struct Parts {
    pub(super) lcores: Lcores,
    pub(super) backend: Arc<dyn Backend>,
    pub(super) attics: Vec<Attic>,
    /// Told when one of the threads ends, for whatever reason.
    pub(super) ended: Arc<Notify>,
    pub(super) join: Box<dyn FnOnce() -> anyhow::Result<()> + Send>,
}

impl Parts {
    /// Towards the polling threads.
    #[must_use]
    pub fn lcores(&self) -> &Lcores {
        &self.lcores
    }
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts")
            .field("lcores", &self.lcores)
            .field("backend", &self.backend)
            .finish_non_exhaustive()
    }
}

/// Dropped when its thread ends, after a panic too.
struct End(Arc<Notify>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// Starts the environment and the polling threads. Needs a tokio runtime.
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
        // What all threads keep to themselves must leave enough for each.
        cache: (frames.count / 6 / u32::from(config.lcores)).min(256),
        ..::dpdk::PoolConfig::default()
    };
    let pool = ::dpdk::Mempool::new(&eal, "frames", &pool_config)?;
    let links = Links::open().context("netlink socket")?;
    let backend = Arc::new(Dpdk::new(Arc::clone(&eal), pool, frames, links));
    on(config, &eal, pool, backend)
}

/// The same on ports of the caller's making, whose frames are from `pool`.
///
/// # Errors
/// A thread does not start.
pub fn on(
    config: &Config,
    eal: &::dpdk::Eal,
    pool: ::dpdk::Mempool,
    backend: Arc<dyn Backend>,
) -> anyhow::Result<Parts> {
    let (crew, cores) = Crew::new(config, Some(pool));
    let mut threads = Vec::with_capacity(cores.len());
    for (index, (core, receiver)) in cores.into_iter().enumerate() {
        let end = End(Arc::clone(&crew.ended));
        let cpu = config.cpu(index).map(usize::from);
        let thread = ::dpdk::launch(eal, &format!("lcore-{index}"), cpu, move || {
            let _end = end;
            lcore::run(core, receiver)
        })?;
        threads.push(thread);
    }
    let join = Box::new(move || {
        let ends: Vec<_> = threads.into_iter().map(::dpdk::Lcore::join).collect();
        // Dropped when all have ended: frames may be under way between them.
        ends.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(())
    });
    Ok(crew.into_parts(backend, join))
}

/// The same without DPDK: `host` says which interfaces there are, and nothing is
/// forwarded.
///
/// # Errors
/// A thread does not start.
pub fn in_memory(config: &Config, host: Arc<Host>) -> anyhow::Result<Parts> {
    let (crew, cores) = Crew::new(config, None);
    let mut threads = Vec::with_capacity(cores.len());
    for (index, (core, receiver)) in cores.into_iter().enumerate() {
        let end = End(Arc::clone(&crew.ended));
        let thread = std::thread::Builder::new()
            .name(format!("lcore-{index}"))
            .spawn(move || {
                let _end = end;
                lcore::run(core, receiver)
            })?;
        threads.push(thread);
    }
    let join = Box::new(move || {
        let ends: Vec<_> = threads
            .into_iter()
            .map(std::thread::JoinHandle::join)
            .collect();
        if ends.iter().any(Result::is_err) {
            anyhow::bail!("a forwarding thread panicked");
        }
        Ok(())
    });
    Ok(crew.into_parts(host, join))
}

/// What control threads keep of polling threads.
struct Crew {
    handles: Vec<Handle>,
    attics: Vec<Attic>,
    ended: Arc<Notify>,
}

impl Crew {
    /// With what each thread is to be given.
    fn new(config: &Config, pool: Option<::dpdk::Mempool>) -> (Self, Vec<(Core, Receiver<Core>)>) {
        let mut crew = Self {
            handles: Vec::new(),
            attics: Vec::new(),
            ended: Arc::default(),
        };
        // One clock and one seed: what one of them says holds for all.
        let clock = Clock::start();
        // The standard library draws its keys from the system.
        let seed = RandomState::new().hash_one(std::process::id());
        let processors = match config.cpus.len() {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            named => named,
        };
        let crowded = usize::from(config.lcores) > processors;
        let room = ring_room(config.lcores, pool.map_or(0, |pool| pool.size()));
        let peers = Peers::mesh(config.lcores, room);
        let mut cores = Vec::with_capacity(peers.len());
        for (index, peers) in (0..).zip(peers) {
            let shard = Shard {
                index,
                count: config.lcores,
            };
            let engine = Engine::new(engine_config(config, seed, shard));
            let (core, attic) = Core::new(engine, clock, pool, DEVICE_PORTS);
            let mut core = core.among(peers);
            core.longest_sleep = config.longest_sleep;
            core.crowded = crowded;
            let (handle, receiver) = mailbox::channel();
            crew.handles.push(handle);
            crew.attics.push(attic);
            cores.push((core, receiver));
        }
        (crew, cores)
    }

    fn into_parts(
        self,
        backend: Arc<dyn Backend>,
        join: Box<dyn FnOnce() -> anyhow::Result<()> + Send>,
    ) -> Parts {
        Parts {
            lcores: Lcores::new(self.handles),
            backend,
            attics: self.attics,
            ended: self.ended,
            join,
        }
    }
}

/// Frames in the ring from one lcore to another: an lcore that stands still may hold an
/// eighth of all buffers, but a burst or two always fit.
fn ring_room(lcores: u16, buffers: u32) -> usize {
    let others = u32::from(lcores).saturating_sub(1).max(1);
    (buffers / 8 / others).clamp(64, 512) as usize
}

/// Totals of the configuration are shared out. A port's connections are spread over the
/// lcores by their hash, and so are its limits; but its questions (ARP, ND, DHCP) are answered by the
/// one that polls it, which therefore has their whole limit.
fn engine_config(config: &Config, seed: u64, shard: Shard) -> EngineConfig {
    let lcores = u32::from(shard.count);
    let connections = config.max_connections.div_ceil(lcores);
    let default = EngineConfig::default();
    EngineConfig {
        seed,
        shard,
        max_connections: connections,
        max_connections_per_port: connections.div_ceil(2),
        reserved_connections: connections / 2,
        // No limit stays none.
        opens_per_second: config.opens_per_second.div_ceil(lcores),
        max_device_ports: DEVICE_PORTS,
        drop_records_per_second: default.drop_records_per_second.div_ceil(lcores),
        icmp_errors_per_second: default.icmp_errors_per_second.div_ceil(lcores),
        max_fragmented: default.max_fragmented.div_ceil(lcores),
        max_waiting_fragments: default.max_waiting_fragments.div_ceil(lcores),
        ..default
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::File;

    #[test]
    fn what_a_port_may_open_is_shared_out_and_no_limit_stays_none() {
        for (written, lcores, share) in [(0, 4, 0), (10, 1, 10), (10, 4, 3), (1, 4, 1)] {
            let text = format!(
                "node = \"n\"\ndata_dir = \"/d\"\nlcores = {lcores}\nopens_per_second = {written}\n\
                 [[nic]]\ndevice_id = 1\nuplink = {{ interface = \"u0\" }}\nvtep = \"192.0.2.1/24\"\n"
            );
            let file: File = toml::from_str(&text).expect("toml");
            let config = Config::check(file, true, None).expect("good");
            let shard = Shard {
                index: 0,
                count: lcores,
            };
            let engine = engine_config(&config, 7, shard);
            assert_eq!(engine.opens_per_second, share, "{written} on {lcores}");
        }
    }
}
