//! Device ports that are made up: one with all clients, one with the server.
//!
//! Frames come at a steady rate by the clock. When the polling thread is late, it
//! finds all that should have come meanwhile, as in a deep queue: nothing is left
//! out, so whatever does not come through was dropped by the worker.

use std::collections::BTreeMap;
use std::sync::Arc;

use dpdk::{Burst, Mempool};
use penstock_flow::Mac;
use penstock_worker::lcore::Queues;
use penstock_worker::ports::{Backend, Link, Opened, PortError, Purpose, Source};

use crate::frames::{Class, FLOWS_EACH, FORBIDDEN, Label, PERMITTED, Way, Writer, read};
use crate::meter::{Meter, Phase};

/// The interface with a VLAN for each client.
pub const CLIENTS: &str = "clients";
/// The server's interface.
pub const SERVER: &str = "server";
/// The interface of the NIC.
pub const UPLINK: &str = "uplink";

/// Nanoseconds between two frames while flows are opened, each way.
const FAST: u64 = 15_000;
/// Nanoseconds between two frames of the background, each way.
const BACKGROUND: u64 = 40_000;
/// Nanoseconds between two frames of the target, each way.
const TARGET: u64 = 50_000;
/// Nanoseconds between two new flows of a probe.
const PROBE: u64 = 5_000_000;

/// Frames per second of the background, both ways together.
pub const BACKGROUND_RATE: f64 = 2e9 / BACKGROUND as f64;

/// A host with these interfaces.
#[derive(Debug)]
pub struct Host {
    pool: Mempool,
    meter: Arc<Meter>,
}

impl Host {
    /// Their frames are from `pool`.
    #[must_use]
    pub const fn new(pool: Mempool, meter: Arc<Meter>) -> Self {
        Self { pool, meter }
    }
}

#[tonic::async_trait]
impl Backend for Host {
    async fn link(&self, interface: &str) -> Result<Option<Link>, PortError> {
        let names = [UPLINK, CLIENTS, SERVER];
        let index = (1_u8..).zip(names).find(|(_, name)| *name == interface);
        Ok(index.map(|(index, _)| Link {
            index: index.into(),
            up: true,
            carrier: true,
            mtu: 1600,
            mac: Mac([2, 0, 0, 0, 0, index]),
        }))
    }

    async fn open(&self, _: u32, source: &Source, _: Purpose) -> Result<Opened, PortError> {
        let name = match source {
            Source::Interface(name) => name,
            Source::Devargs(other) => return Err(PortError::NoInterface(other.clone())),
        };
        let Some(link) = self.link(name).await? else {
            return Err(PortError::NoInterface(name.clone()));
        };
        let way = match name.as_str() {
            CLIENTS => Some(Way::Request),
            SERVER => Some(Way::Reply),
            _ => None,
        };
        Ok(Opened {
            mac: link.mac,
            mtu: 1600,
            queues: Box::new(Side::new(way, self.pool, Arc::clone(&self.meter))),
        })
    }

    async fn stats(&self) -> BTreeMap<u32, dpdk::Stats> {
        BTreeMap::new()
    }

    async fn close(&self, _: u32) -> Result<(), PortError> {
        Ok(())
    }

    async fn release(&self, _: &str) -> Result<(), PortError> {
        Ok(())
    }
}

/// When the next frame of a stream is due.
#[derive(Clone, Copy, Debug)]
struct Pace {
    gap: u64,
    next: u64,
}

/// One device port.
#[derive(Debug)]
struct Side {
    /// What it sends; `None`: nothing.
    way: Option<Way>,
    pool: Mempool,
    meter: Arc<Meter>,
    writer: Writer,
    phase: Phase,
    target: Option<u32>,
    /// By class.
    paces: [Pace; Class::ALL.len()],
    /// What each class has sent: the next flow.
    turns: [u32; Class::ALL.len()],
}

/// Never.
const OFF: Pace = Pace {
    gap: 0,
    next: u64::MAX,
};

impl Side {
    fn new(way: Option<Way>, pool: Mempool, meter: Arc<Meter>) -> Self {
        Self {
            way,
            pool,
            meter,
            writer: Writer::default(),
            phase: Phase::Silent,
            target: None,
            paces: [OFF; Class::ALL.len()],
            turns: [0; Class::ALL.len()],
        }
    }

    /// Follows what the bench wants sent.
    fn tune(&mut self, way: Way, now: u64) {
        let phase = self.meter.phase();
        let every = |gap| Pace { gap, next: now };
        if phase != self.phase {
            self.phase = phase;
            let (background, probe) = match (phase, way) {
                (Phase::Silent, _) | (Phase::Open, Way::Reply) => (OFF, OFF),
                (Phase::Open, Way::Request) | (Phase::Answer, _) => (every(FAST), OFF),
                (Phase::Steady, Way::Request) => (every(BACKGROUND), every(PROBE)),
                (Phase::Steady, Way::Reply) => (every(BACKGROUND), OFF),
            };
            self.paces[Class::Background as usize] = background;
            self.paces[Class::Permitted as usize] = probe;
            self.paces[Class::Forbidden as usize] = probe;
        }
        let target = self.meter.target();
        if target != self.target {
            self.target = target;
            self.paces[Class::Target as usize] = target.map_or(OFF, |_| every(TARGET));
        }
    }

    fn label(&mut self, class: Class, way: Way) -> Label {
        let turn = &mut self.turns[class as usize];
        let flow = |turn: u32| (turn % FLOWS_EACH) as u16;
        let (client, flow) = match class {
            Class::Background => {
                // One client after the other, flow by flow.
                let all = self.meter.clients() * FLOWS_EACH;
                *turn %= all;
                if self.target == Some(*turn / FLOWS_EACH) {
                    *turn = (*turn / FLOWS_EACH + 1) * FLOWS_EACH % all;
                }
                let (client, flow) = (*turn / FLOWS_EACH, flow(*turn));
                *turn += 1;
                return Label {
                    class,
                    way,
                    client,
                    flow,
                };
            }
            Class::Target => (self.target.unwrap_or(0), flow(*turn)),
            // Each a flow that has not been for a while.
            Class::Permitted => (PERMITTED, (*turn % 60_000) as u16),
            Class::Forbidden => (FORBIDDEN, (*turn % 60_000) as u16),
        };
        *turn = turn.wrapping_add(1);
        Label {
            class,
            way,
            client,
            flow,
        }
    }
}

impl Queues for Side {
    fn receive(&mut self, burst: &mut Burst, most: usize) -> usize {
        let Some(way) = self.way else {
            return 0;
        };
        let now = self.meter.now();
        self.tune(way, now);
        let mut count = 0;
        while count < most {
            let due = |class: &Class| self.paces[*class as usize].next;
            let Some(class) = Class::ALL.into_iter().min_by_key(due) else {
                break;
            };
            let next = due(&class);
            if next > now {
                break;
            }
            // Frames that do not fit yet come with the next call.
            let label = self.label(class, way);
            let frame = self.writer.write(label);
            let Ok(mbuf) = self.pool.alloc_from(frame) else {
                break;
            };
            if burst.push(mbuf).is_err() {
                break;
            }
            self.paces[class as usize].next = next + self.paces[class as usize].gap;
            self.meter.count_sent(class, now - next);
            count += 1;
        }
        count
    }

    fn send(&mut self, burst: &mut Burst) -> usize {
        let now = self.meter.now();
        for mbuf in burst.iter() {
            if let Some(label) = read(mbuf.data()) {
                self.meter.count_forwarded(label, now);
            }
        }
        let count = burst.len();
        burst.clear();
        count
    }
}
