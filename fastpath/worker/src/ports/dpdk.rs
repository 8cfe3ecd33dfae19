//! Ports made by DPDK, plugged in and out while others are polled.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dpdk::{Burst, Eal, Mempool, Port, PortConfig, RxQueue, TxQueue};
use penstock_flow::Mac;

use super::{Backend, Link, Links, Opened, PortError, Purpose, Source};
use crate::lcore::Queues;

/// How large frames may be: what buffers are made for.
///
/// A packet socket's ring has frames of its own, which hold the kernel's header, the
/// Ethernet header and a VLAN tag beside the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frames {
    /// Bytes of an IP packet.
    pub max_mtu: u16,
    /// Bytes of a buffer behind its headroom.
    pub buffer: u16,
    /// More arguments of `net_af_packet`.
    ring: &'static str,
    /// Buffers that all ports and the polling thread may have in hand together.
    pub count: u32,
}

impl Frames {
    /// For an underlay of 1500 bytes.
    pub const PLAIN: Self = Self {
        max_mtu: 1950,
        buffer: 2048,
        ring: "",
        count: 16_383,
    };
    /// For jumbo frames. A block holds whole frames only, and whole pages.
    pub const JUMBO: Self = Self {
        max_mtu: 9216,
        buffer: 10_240,
        ring: ",framesz=10240,blocksz=20480,framecnt=512",
        count: 4095,
    };

    /// The smallest that carry `mtu`.
    #[must_use]
    pub fn of(mtu: u16) -> Self {
        if mtu <= Self::PLAIN.max_mtu {
            Self::PLAIN
        } else {
            Self::JUMBO
        }
    }
}

/// The host's interfaces and DPDK's devices.
#[derive(Clone, Debug)]
pub struct Dpdk {
    links: Links,
    frames: Frames,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    eal: Arc<Eal>,
    pool: Mempool,
    open: Mutex<BTreeMap<u32, Port>>,
}

impl Dpdk {
    /// Frames are received into buffers of `pool`.
    #[must_use]
    pub fn new(eal: Arc<Eal>, pool: Mempool, frames: Frames, links: Links) -> Self {
        Self {
            links,
            frames,
            shared: Arc::new(Shared {
                eal,
                pool,
                open: Mutex::new(BTreeMap::new()),
            }),
        }
    }

    /// Checks an interface, shields and sets it up; returns its MTU.
    async fn prepare(&self, name: &str, purpose: Purpose) -> Result<u16, PortError> {
        let Some(found) = self.links.find(name).await? else {
            return Err(PortError::NoInterface(name.to_owned()));
        };
        let most = self.frames.max_mtu;
        let Some(mtu) = u16::try_from(found.mtu).ok().filter(|mtu| *mtu <= most) else {
            return Err(PortError::Mtu {
                interface: name.to_owned(),
                mtu: found.mtu,
                most,
            });
        };
        match purpose {
            Purpose::Uplink { mtu: Some(wanted) } if wanted > mtu => {
                return Err(PortError::SmallUplink {
                    interface: name.to_owned(),
                    has: found.mtu,
                    wanted,
                });
            }
            Purpose::Workload { shield: true } => self.links.raise_shield(name, found).await?,
            Purpose::Uplink { .. } | Purpose::Workload { shield: false } => {}
        }
        if !found.up {
            self.links.set_up(name, found).await?;
        }
        Ok(mtu)
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared) -> Result<T, PortError> + Send + 'static,
    ) -> Result<T, PortError> {
        let shared = Arc::clone(&self.shared);
        tokio::task::spawn_blocking(move || work(&shared))
            .await
            .unwrap_or_else(|error| Err(PortError::Control(error.to_string())))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
struct Pair {
    rx: RxQueue,
    tx: TxQueue,
}

impl Queues for Pair {
    fn receive(&mut self, burst: &mut Burst, most: usize) -> usize {
        self.rx.receive(burst, most)
    }

    fn send(&mut self, burst: &mut Burst) -> usize {
        self.tx.send(burst)
    }
}

impl Shared {
    fn open(
        &self,
        device_port: u32,
        source: &Source,
        ring: &str,
        mtu: Option<u16>,
    ) -> Result<(Pair, [u8; 6], u16), PortError> {
        let (mut port, mtu) = match source {
            Source::Interface(name) => {
                let device = format!("net_af_packet{device_port}");
                let port = self.eal.attach(&device, &format!("iface={name}{ring}"))?;
                // The interface keeps its MTU.
                (port, None)
            }
            Source::Devargs(devargs) => (self.device(devargs)?, mtu),
        };
        let config = PortConfig {
            promiscuous: true,
            mtu,
            ..PortConfig::default()
        };
        let mut queues = port.start(&config, self.pool)?;
        let (Some(rx), Some(tx)) = (queues.rx.pop(), queues.tx.pop()) else {
            return Err(PortError::Control(format!(
                "{source} came up without queues"
            )));
        };
        let (mac, mtu) = (port.mac()?, port.mtu()?);
        lock(&self.open).insert(device_port, port);
        Ok((Pair { rx, tx }, mac, mtu))
    }

    /// A virtual device is made; others were found when EAL started.
    fn device(&self, devargs: &str) -> Result<Port, PortError> {
        let (name, arguments) = devargs.split_once(',').unwrap_or((devargs, ""));
        if name.starts_with("net_") {
            return Ok(self.eal.attach(name, arguments)?);
        }
        Ok(self.eal.port(name)?)
    }
}

#[tonic::async_trait]
impl Backend for Dpdk {
    async fn link(&self, interface: &str) -> Result<Option<Link>, PortError> {
        self.links.find(interface).await
    }

    async fn open(
        &self,
        device_port: u32,
        source: &Source,
        purpose: Purpose,
    ) -> Result<Opened, PortError> {
        let wanted = match purpose {
            Purpose::Uplink { mtu } => mtu,
            Purpose::Workload { .. } => None,
        };
        let mut of_link = None;
        if let Source::Interface(name) = source {
            let link = self.prepare(name, purpose).await?;
            of_link = Some(wanted.unwrap_or(link));
        }
        let (source, ring) = (source.clone(), self.frames.ring);
        let (pair, mac, mtu) = self
            .blocking(move |shared| shared.open(device_port, &source, ring, wanted))
            .await?;
        Ok(Opened {
            mac: Mac(mac),
            // The driver of a packet socket does not ask the interface.
            mtu: of_link.unwrap_or(mtu),
            queues: Box::new(pair),
        })
    }

    async fn stats(&self) -> BTreeMap<u32, dpdk::Stats> {
        let stats = self.blocking(|shared| {
            let open = lock(&shared.open);
            // A driver without counters is left out.
            let stats = open
                .iter()
                .filter_map(|(number, port)| Some((*number, port.stats().ok()?)));
            Ok(stats.collect())
        });
        stats.await.unwrap_or_else(|error| {
            tracing::warn!(%error, "the drivers' counters cannot be read; a scrape goes without");
            BTreeMap::new()
        })
    }

    async fn close(&self, device_port: u32) -> Result<(), PortError> {
        self.blocking(move |shared| {
            let port = lock(&shared.open).remove(&device_port);
            match port {
                Some(port) => Ok(port.close()?),
                None => Ok(()),
            }
        })
        .await
    }

    async fn release(&self, interface: &str) -> Result<(), PortError> {
        match self.links.find(interface).await? {
            Some(link) => self.links.lower_shield(interface, link).await,
            // An interface that is gone has taken its filter with it.
            None => Ok(()),
        }
    }
}
