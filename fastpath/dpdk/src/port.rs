//! Ports: the control side. Frames go through their [`queue`](RxQueue)s.

mod config;
mod queue;

use std::ffi::{CString, c_int};
use std::fmt;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dpdk_sys as sys;

pub use config::{Link, PortConfig, Stats};
pub use queue::{Queues, RxCounters, RxQueue, TxQueue};

use crate::eal::control;
use crate::error::{self, Error};
use crate::pool::{HEADROOM, Mempool};

/// Ethernet header and one VLAN tag: what a frame is longer than its payload.
const OVERHEAD: u32 = 14 + 4;

/// The owner of one port.
///
/// A port and its queues hold the device together: it is stopped and released when the
/// last of them is dropped, never under the feet of a polling thread. Control calls of
/// different ports may come from different threads.
pub struct Port {
    device: Arc<Device>,
}

impl Port {
    /// The caller has claimed `id` (see `eal::control`).
    pub(crate) fn new(id: u16, name: CString, attached: bool) -> Self {
        Self {
            device: Arc::new(Device {
                id,
                name,
                attached,
                started: AtomicBool::new(false),
                released: AtomicBool::new(false),
            }),
        }
    }

    /// DPDK's number for the port.
    pub fn id(&self) -> u16 {
        self.device.id
    }

    pub fn name(&self) -> String {
        self.device.shown()
    }

    /// Sets the port up and starts it. Receives into mbufs of `pool`. May be called
    /// again after [`Port::stop`].
    pub fn start(&mut self, config: &PortConfig, pool: Mempool) -> Result<Queues, Error> {
        let device = &self.device;
        let _control = control();
        if device.started.load(Ordering::Relaxed) {
            return Err(device.state("running already; stop it first"));
        }
        device.check_room(config, pool)?;
        device.configure(config)?;
        device.set_up_queues(config, pool)?;
        device.settle(config)?;
        // SAFETY: a valid port, configured above; `control` keeps others out.
        device.done("starting", unsafe { sys::rte_eth_dev_start(device.id) })?;
        device.started.store(true, Ordering::Relaxed);
        Ok(Queues::of(device, config.rx_queues, config.tx_queues))
    }

    /// Stops the port. Refused while a queue is in somebody's hands.
    pub fn stop(&mut self) -> Result<(), Error> {
        self.alone()?;
        let _control = control();
        self.device.stop()
    }

    /// Stops the port and releases its device; one that was attached is unplugged, and its
    /// name is free again. While a queue is in somebody's hands this is refused, and the
    /// port closes when the last of them is dropped.
    pub fn close(mut self) -> Result<(), Error> {
        self.alone()?;
        self.device.release()
    }

    /// The port's own address.
    pub fn mac(&self) -> Result<[u8; 6], Error> {
        let mut mac = sys::rte_ether_addr::default();
        // SAFETY: a valid port and a place for the answer.
        let returned = unsafe { sys::rte_eth_macaddr_get(self.device.id, &raw mut mac) };
        self.device.done("reading the MAC address", returned)?;
        Ok(mac.addr_bytes)
    }

    /// The link as the driver last saw it.
    pub fn link(&self) -> Result<Link, Error> {
        let mut link = sys::rte_eth_link::default();
        // SAFETY: a valid port and a place for the answer.
        let returned = unsafe { sys::rte_eth_link_get_nowait(self.device.id, &raw mut link) };
        self.device.done("reading the link", returned)?;
        Ok(Link::of(&link))
    }

    /// Largest payload of a frame, without Ethernet header and VLAN tag.
    pub fn mtu(&self) -> Result<u16, Error> {
        let mut mtu = 0;
        // SAFETY: a valid port and a place for the answer.
        let returned = unsafe { sys::rte_eth_dev_get_mtu(self.device.id, &raw mut mtu) };
        self.device.done("reading the MTU", returned)?;
        Ok(mtu)
    }

    /// The driver's counters since start-up or the last reset.
    pub fn stats(&self) -> Result<Stats, Error> {
        let mut stats = sys::rte_eth_stats::default();
        // SAFETY: a valid port and a place for the answer.
        let returned = unsafe { sys::rte_eth_stats_get(self.device.id, &raw mut stats) };
        self.device.done("reading counters", returned)?;
        Ok(Stats::of(&stats))
    }

    /// Sets the driver's counters to zero.
    pub fn reset_stats(&mut self) -> Result<(), Error> {
        // SAFETY: a valid port.
        let returned = unsafe { sys::rte_eth_stats_reset(self.device.id) };
        self.device.done("resetting counters", returned)
    }

    /// NUMA node of the device, if it has one.
    pub fn socket(&self) -> Option<u16> {
        // SAFETY: a valid port.
        u16::try_from(unsafe { sys::rte_eth_dev_socket_id(self.device.id) }).ok()
    }

    /// Makes sure that no queue lives. `get_mut` also orders what their last holders
    /// did before what we do next.
    fn alone(&mut self) -> Result<(), Error> {
        if Arc::get_mut(&mut self.device).is_some() {
            return Ok(());
        }
        Err(Error::QueuesInUse {
            name: self.device.shown(),
            queues: Arc::strong_count(&self.device) - 1,
        })
    }
}

impl fmt::Debug for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Port")
            .field("id", &self.id())
            .field("name", &self.device.name)
            .finish()
    }
}

/// The device behind a port and its queues.
struct Device {
    id: u16,
    name: CString,
    /// Plugged in by us, so to be unplugged by us.
    attached: bool,
    // Both change under `control` only.
    started: AtomicBool,
    released: AtomicBool,
}

impl Device {
    fn check_room(&self, config: &PortConfig, pool: Mempool) -> Result<(), Error> {
        let Some(mtu) = config.mtu else { return Ok(()) };
        let needed = u32::from(mtu) + OVERHEAD;
        let room = u32::from(pool.data_room() - HEADROOM);
        if needed > room {
            return Err(Error::FrameRoom {
                name: self.shown(),
                mtu,
                needed,
                room,
            });
        }
        Ok(())
    }

    fn configure(&self, config: &PortConfig) -> Result<(), Error> {
        let mut conf = sys::rte_eth_conf::default();
        if let Some(mtu) = config.mtu {
            conf.rxmode.mtu = u32::from(mtu);
        }
        // SAFETY: a valid port that is not running; the configuration is copied.
        let returned = unsafe {
            sys::rte_eth_dev_configure(self.id, config.rx_queues, config.tx_queues, &raw const conf)
        };
        self.done("configuring it", returned)
    }

    fn set_up_queues(&self, config: &PortConfig, pool: Mempool) -> Result<(), Error> {
        let (mut rx, mut tx) = (config.rx_descriptors, config.tx_descriptors);
        // SAFETY: a valid, configured port that is not running, queue numbers below
        // what it was configured with, a pool that is never freed, and null for the
        // driver's own defaults.
        unsafe {
            let returned = sys::rte_eth_dev_adjust_nb_rx_tx_desc(self.id, &raw mut rx, &raw mut tx);
            self.done("sizing its rings", returned)?;
            let socket = sys::rte_eth_dev_socket_id(self.id) as u32;
            for queue in 0..config.rx_queues {
                let pool = pool.as_ptr();
                let returned =
                    sys::rte_eth_rx_queue_setup(self.id, queue, rx, socket, ptr::null(), pool);
                self.done("setting up a receive queue", returned)?;
            }
            for queue in 0..config.tx_queues {
                let returned = sys::rte_eth_tx_queue_setup(self.id, queue, tx, socket, ptr::null());
                self.done("setting up a transmit queue", returned)?;
            }
        }
        Ok(())
    }

    fn settle(&self, config: &PortConfig) -> Result<(), Error> {
        if let Some(mtu) = config.mtu {
            // SAFETY: a valid, configured port.
            let returned = unsafe { sys::rte_eth_dev_set_mtu(self.id, mtu) };
            // A driver without the call has nothing to program: `configure` has checked
            // the MTU against its limits and recorded it.
            if returned != -ENOTSUP {
                self.done("setting the MTU", returned)?;
            }
        }
        if config.promiscuous {
            // SAFETY: a valid, configured port.
            let returned = unsafe { sys::rte_eth_promiscuous_enable(self.id) };
            self.done("making it promiscuous", returned)?;
        }
        Ok(())
    }

    fn stop(&self) -> Result<(), Error> {
        if self.started.load(Ordering::Relaxed) {
            // SAFETY: a valid port without a queue in use: callers hold the only reference.
            self.done("stopping it", unsafe { sys::rte_eth_dev_stop(self.id) })?;
            self.started.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    fn release(&self) -> Result<(), Error> {
        let mut claims = control();
        if self.released.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.stop()?;
        // SAFETY: a valid, stopped port without a queue in use, and a C string.
        let returned = unsafe {
            if self.attached {
                sys::rte_eal_hotplug_remove(c"vdev".as_ptr(), self.name.as_ptr())
            } else {
                sys::rte_eth_dev_close(self.id)
            }
        };
        self.done("releasing it", returned)?;
        self.released.store(true, Ordering::Relaxed);
        claims.remove(&self.id);
        Ok(())
    }

    fn done(&self, operation: &'static str, returned: c_int) -> Result<(), Error> {
        if returned >= 0 {
            return Ok(());
        }
        Err(Error::Port {
            name: self.shown(),
            operation,
            reason: error::code(returned),
        })
    }

    fn state(&self, state: &'static str) -> Error {
        Error::State {
            name: self.shown(),
            state,
        }
    }

    fn shown(&self) -> String {
        self.name.to_string_lossy().into_owned()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // Nobody is left to hear of a failure, and DPDK has put it on standard error; the
        // claim then stays, so that the half-released port gets no new owner.
        let _ = self.release();
    }
}

/// The one errno that is an answer: "this driver has no such call".
const ENOTSUP: c_int = 95;
