//! Ports made by DPDK, plugged in and out while others are polled.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dpdk::{Burst, Eal, Mempool, Port, PortConfig, RxQueue, TxQueue};
use penstock_flow::Mac;

use super::{Backend, Link, Links, Opened, PortError, Purpose, Source};
use crate::lcore::Queues;

/// af_packet receives into ring frames of 2048 bytes, which hold the kernel's header, the
/// frame's Ethernet header and a VLAN tag beside the packet.
const MAX_MTU: u16 = 1950;

/// The host's interfaces and DPDK's devices.
#[derive(Clone, Debug)]
pub struct Dpdk {
    links: Links,
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
    pub fn new(eal: Arc<Eal>, pool: Mempool, links: Links) -> Self {
        Self {
            links,
            shared: Arc::new(Shared {
                eal,
                pool,
                open: Mutex::new(BTreeMap::new()),
            }),
        }
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
    fn open(&self, device_port: u32, source: &Source) -> Result<(Pair, [u8; 6], u16), PortError> {
        let mut port = match source {
            Source::Interface(name) => self.eal.attach(
                &format!("net_af_packet{device_port}"),
                &format!("iface={name}"),
            )?,
            Source::Devargs(devargs) => self.device(devargs)?,
        };
        let config = PortConfig {
            promiscuous: true,
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
        let mut link = None;
        if let Source::Interface(name) = source {
            let Some(found) = self.links.find(name).await? else {
                return Err(PortError::NoInterface(name.clone()));
            };
            if found.mtu > MAX_MTU.into() {
                return Err(PortError::Mtu {
                    interface: name.clone(),
                    mtu: found.mtu,
                    most: MAX_MTU,
                });
            }
            if purpose == (Purpose::Workload { shield: true }) {
                self.links.raise_shield(name, found).await?;
            }
            if !found.up {
                self.links.set_up(name, found).await?;
            }
            link = Some(found);
        }
        let source = source.clone();
        let (pair, mac, mtu) = self
            .blocking(move |shared| shared.open(device_port, &source))
            .await?;
        Ok(Opened {
            mac: Mac(mac),
            // The driver of a packet socket does not ask the interface.
            mtu: link.map_or(mtu, |link| link.mtu as u16),
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
        stats.await.unwrap_or_default()
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
