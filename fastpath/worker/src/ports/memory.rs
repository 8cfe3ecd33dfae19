//! Ports without devices: for the agent's tests, and to try a controller against
//! a worker on a machine where nothing can be forwarded. They carry nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dpdk::Burst;
use penstock_flow::Mac;

use super::{Backend, Link, Opened, PortError, Purpose, Source};
use crate::lcore::Queues;

/// A host with the interfaces that it is told to have.
#[derive(Debug, Default)]
pub struct Host {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    interfaces: BTreeMap<String, u32>,
    down: BTreeSet<String>,
    next_index: u32,
    open: BTreeSet<u32>,
}

impl Host {
    /// Has interfaces of these names.
    #[must_use]
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let host = Self::default();
        names.into_iter().for_each(|name| host.plug(name));
        host
    }

    /// An interface appears, or is made anew.
    pub fn plug(&self, name: &str) {
        let mut state = self.lock();
        state.next_index += 1;
        let index = state.next_index;
        state.interfaces.insert(name.to_owned(), index);
    }

    /// An interface vanishes.
    pub fn unplug(&self, name: &str) {
        self.lock().interfaces.remove(name);
    }

    /// An interface is set up or down.
    pub fn set_up(&self, name: &str, up: bool) {
        let mut state = self.lock();
        if up {
            state.down.remove(name);
        } else {
            state.down.insert(name.to_owned());
        }
    }

    /// The device ports that are open.
    #[must_use]
    pub fn open_ports(&self) -> BTreeSet<u32> {
        self.lock().open.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct Silence;

impl Queues for Silence {
    fn receive(&mut self, _: &mut Burst, _: usize) -> usize {
        0
    }

    fn send(&mut self, _: &mut Burst) -> usize {
        0
    }
}

#[tonic::async_trait]
impl Backend for Host {
    async fn link(&self, interface: &str) -> Result<Option<Link>, PortError> {
        let state = self.lock();
        let up = !state.down.contains(interface);
        Ok(state.interfaces.get(interface).map(|index| Link {
            index: *index,
            up,
            carrier: up,
            mtu: 1500,
            mac: Mac([2, 0, 0, 0, 0, *index as u8]),
        }))
    }

    async fn open(
        &self,
        device_port: u32,
        source: &Source,
        _: Purpose,
    ) -> Result<Opened, PortError> {
        if let Source::Interface(name) = source
            && self.link(name).await?.is_none()
        {
            return Err(PortError::NoInterface(name.clone()));
        }
        self.lock().open.insert(device_port);
        Ok(Opened {
            mac: Mac([2, 0, 0, 0, 1, device_port as u8]),
            mtu: 1500,
            queues: Box::new(Silence),
        })
    }

    async fn stats(&self) -> BTreeMap<u32, dpdk::Stats> {
        let open = self.open_ports().into_iter();
        open.map(|port| (port, dpdk::Stats::default())).collect()
    }

    async fn close(&self, device_port: u32) -> Result<(), PortError> {
        self.lock().open.remove(&device_port);
        Ok(())
    }

    async fn release(&self, _: &str) -> Result<(), PortError> {
        Ok(())
    }
}
