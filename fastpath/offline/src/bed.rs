//! One engine per node, and an underlay between them in memory.
//!
//! The bed plays the controller, the workers' polling threads and the wires. Numbers
//! that the documents do not have (device ports, MACs of uplinks) are made up; every
//! VTEP reaches every other one and answers at once. An engine is made when the first
//! packet is for its node: a bed is as large as what a capture touches.
//!
//! A packet is followed from engine to engine until it ends; each [`Passage`] tells
//! what one engine made of it.

mod ends;
mod error;
mod node;
mod passage;
mod plan;
mod tables;
mod underlay;

use penstock_engine::Config;
use penstock_engine::nic::Capacities;
use penstock_flow::{Addr, Mac};
use penstock_policies::Ids;
use penstock_policies::model::{Model, NodeName, PortName};

pub use ends::End;
pub(crate) use ends::vlan_of;
pub use error::BedError;
pub use passage::{Carried, Fate, Passage};
pub use plan::{Place, Uplink};

use node::Node;
use plan::Plan;

/// Engines that one packet may meet; no way through a bed is longer.
pub(crate) const LONGEST_WAY: usize = 8;

/// How large engines are.
#[derive(Clone, Debug)]
pub struct Sizes {
    /// An engine's. Numbers of ports grow to what the documents have.
    pub engine: Config,
    /// A NIC's. Tables that the documents fill grow to what they need.
    pub nic: Capacities,
}

impl Default for Sizes {
    /// As a worker with one lcore and no other word in its configuration.
    fn default() -> Self {
        let engine = Config::default();
        Self {
            engine: Config {
                max_connections_per_port: engine.max_connections.div_ceil(2),
                reserved_connections: engine.max_connections / 2,
                ..engine
            },
            nic: Capacities::default(),
        }
    }
}

/// What became of a packet: an engine's part after the other, in the order of its way.
pub type Way = Vec<Passage>;

/// A packet that had waited.
#[derive(Clone, Debug)]
pub struct Released {
    /// The number that it was put in with.
    pub number: u64,
    /// The frame, as it came to where it waited.
    pub frame: Vec<u8>,
    /// What then became of it.
    pub way: Way,
}

/// See the module's contract.
#[derive(Debug)]
pub struct Bed<'m> {
    model: &'m Model,
    ids: Ids,
    sizes: Sizes,
    plan: Plan<'m>,
    /// As in the plan; none: no packet has been for it yet.
    nodes: Vec<Option<Box<Node>>>,
    released: Vec<Released>,
}

impl<'m> Bed<'m> {
    /// Plans a bed; no engine is made.
    ///
    /// # Errors
    /// If ids run out, or the model is not a valid one.
    pub fn new(model: &'m Model, sizes: Sizes) -> Result<Self, BedError> {
        let mut ids = Ids::default();
        ids.assign(model)?;
        let plan = Plan::new(model, &ids)?;
        Ok(Self {
            nodes: plan.nodes.iter().map(|_| None).collect(),
            model,
            ids,
            sizes,
            plan,
            released: Vec::new(),
        })
    }

    /// All ports.
    #[must_use]
    pub fn places(&self) -> &[Place<'m>] {
        &self.plan.places
    }

    /// All NICs.
    #[must_use]
    pub fn uplinks(&self) -> &[Uplink<'m>] {
        &self.plan.uplinks
    }

    /// The NIC with this address on the underlay.
    #[must_use]
    pub fn uplink(&self, vtep: Addr) -> Option<&Uplink<'m>> {
        self.plan.uplink(vtep)
    }

    /// A port, by its id.
    #[must_use]
    pub fn place(&self, id: u32) -> Option<&Place<'m>> {
        self.plan.place(id)
    }

    /// A port's full name.
    #[must_use]
    pub fn port_name(&self, id: u32) -> Option<&'m PortName> {
        self.plan.place(id).map(|place| place.name)
    }

    /// A port sends a frame; it is followed to its end. `number` names it, should it
    /// have to [wait](Self::take_released).
    ///
    /// # Errors
    /// If a node on its way cannot be made.
    pub fn send(
        &mut self,
        now: u64,
        number: u64,
        port: u32,
        frame: &[u8],
    ) -> Result<Way, BedError> {
        match self.plan.place(port) {
            Some(place) => {
                let (node, device_port) = (place.node, place.device_port);
                self.follow(now, number, node, device_port, frame)
            }
            None => Ok(Way::new()),
        }
    }

    /// A frame arrives on a NIC's uplink.
    ///
    /// # Errors
    /// If a node on its way cannot be made.
    pub fn receive(
        &mut self,
        now: u64,
        number: u64,
        vtep: Addr,
        frame: &[u8],
    ) -> Result<Way, BedError> {
        match self.plan.uplink(vtep) {
            Some(uplink) => {
                let (node, device_port) = (uplink.node, uplink.device_port);
                self.follow(now, number, node, device_port, frame)
            }
            None => Ok(Way::new()),
        }
    }

    /// A port sends a frame, and what leaves its node is thrown away: whoever calls has
    /// the frame as it was on the wire.
    ///
    /// # Errors
    /// If the port's node cannot be made.
    pub fn send_no_further(
        &mut self,
        now: u64,
        number: u64,
        port: u32,
        frame: &[u8],
    ) -> Result<Option<Passage>, BedError> {
        let Some(place) = self.plan.place(port) else {
            return Ok(None);
        };
        let (node, device_port) = (place.node, place.device_port);
        self.ready(now, node)?;
        let passage = self.arrive(now, number, node, device_port, frame);
        self.release(now, node)?;
        Ok(passage)
    }

    /// Time passes, for the engines that there are.
    ///
    /// # Errors
    /// If a node cannot be made that a packet goes to whose wait is over.
    pub fn tick(&mut self, now: u64) -> Result<(), BedError> {
        for index in 0..self.nodes.len() {
            if let Some(node) = self.nodes.get_mut(index).and_then(Option::as_mut) {
                node.tick(now);
            } else {
                continue;
            }
            self.answer_underlay(now, index);
            self.release(now, index)?;
        }
        Ok(())
    }

    /// Whether a packet waits somewhere.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        let mut nodes = self.nodes.iter().flatten();
        nodes.any(|node| !node.waiting.is_empty())
    }

    /// Packets whose wait is over; to be called after each call above.
    pub fn take_released(&mut self) -> Vec<Released> {
        std::mem::take(&mut self.released)
    }

    /// The nodes that have engines, with how many connections each has.
    pub fn connections(&self) -> impl Iterator<Item = (&'m NodeName, u64)> + '_ {
        self.plan
            .nodes
            .iter()
            .zip(&self.nodes)
            .filter_map(|(planned, node)| {
                let counters = node.as_ref()?.engine.counters();
                Some((planned.name, counters.connections.live))
            })
    }

    /// The engine of a node is there from now on.
    fn ready(&mut self, now: u64, index: usize) -> Result<(), BedError> {
        if self.nodes.get(index).is_some_and(Option::is_none)
            && let Some(planned) = self.plan.nodes.get(index)
        {
            let node = Node::new(now, self.model, &self.ids, planned, &self.sizes)?;
            if let Some(slot) = self.nodes.get_mut(index) {
                *slot = Some(Box::new(node));
            }
            self.settle(now, index);
        }
        Ok(())
    }

    /// From engine to engine.
    fn follow(
        &mut self,
        now: u64,
        number: u64,
        node: usize,
        device_port: u32,
        frame: &[u8],
    ) -> Result<Way, BedError> {
        self.ready(now, node)?;
        let mut way = Way::new();
        way.extend(self.arrive(now, number, node, device_port, frame));
        self.go_on(now, number, &mut way)?;
        self.release(now, node)?;
        Ok(way)
    }

    /// What has left by an uplink goes on at the other end.
    fn go_on(&mut self, now: u64, number: u64, way: &mut Way) -> Result<(), BedError> {
        while way.len() < LONGEST_WAY
            && let Some(last) = way.last()
            && let Fate::ToWire { vtep: Some(vtep) } = last.fate
            && let Some(uplink) = self.plan.uplink(vtep)
        {
            let (node, device_port) = (uplink.node, uplink.device_port);
            let frame = last.frame.clone();
            self.ready(now, node)?;
            way.extend(self.arrive(now, number, node, device_port, &frame));
            self.release(now, node)?;
        }
        Ok(())
    }

    /// What waits no longer at a node goes on from there.
    fn release(&mut self, now: u64, index: usize) -> Result<(), BedError> {
        while let Some((number, frame, passage)) = self.resume(now, index) {
            let mut way = vec![passage];
            self.go_on(now, number, &mut way)?;
            self.released.push(Released { number, frame, way });
        }
        Ok(())
    }

    /// A made-up MAC of an uplink.
    fn uplink_mac(&self, vtep: Addr) -> Option<Mac> {
        self.plan.uplink(vtep).map(|uplink| uplink.mac)
    }
}
