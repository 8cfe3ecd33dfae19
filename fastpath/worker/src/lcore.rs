//! A polling thread and what it owns: one engine, and the queues of some ports.
//!
//! [`run`] goes round: waiting jobs, then for each port a burst received, decided on
//! with one reading of the clock, and sent; then what the engine itself wants sent. On a
//! packet's way nothing is allocated, locked or logged; what a queue does not
//! take is counted and dropped.
//!
//! Where there are several, each has the connections of its own shard, and the queues of a
//! device port belong to one of them. A frame is decided on by the lcore whose shard its
//! flow is, and sent by the one that has the queue: it is handed over, once or twice,
//! through [`handover`]'s rings.
//!
//! Everything else reaches the thread as a job in its [`mailbox`](crate::mailbox), and
//! what a job replaces goes back with its answer, to be dropped elsewhere.

mod carry;
mod clock;
mod forward;
mod group;
mod handover;
mod idle;
mod merge;
mod queries;
mod wire;

use std::time::Duration;

use dpdk::{Mbuf, Mempool};
use penstock_engine::{Engine, Outbox, PolicyChange, Retired};

pub use carry::{Imported, SLOTS};
pub use clock::Clock;
pub use group::Lcores;
pub use handover::{HandedOver, Peers};
pub use queries::{Drops, FlowFilter, FlowRow, Numbers};
pub use wire::{AddError, Lost, Queues};

use crate::mailbox::{Receiver, Sender};
use idle::Idle;
use wire::Wire;

/// How control threads reach it.
pub type Handle = Sender<Core>;

/// Nanoseconds between two looks at the engine's timers.
const TICK: u64 = 1_000_000;
/// Jobs run between two rounds over the ports.
const JOBS: usize = 16;

/// What a polling thread owns.
#[derive(Debug)]
pub struct Core {
    /// The datapath.
    pub engine: Engine,
    /// The clock that the engine's times are of.
    pub clock: Clock,
    /// Between two looks for packets after a second without any; zero: never sleeps.
    pub longest_sleep: Duration,
    /// Whether lcores share processors, and so give way to one another.
    pub crowded: bool,
    outbox: Outbox,
    /// For frames that the engine originates; `None` without DPDK.
    pool: Option<Mempool>,
    wire: Wire,
    /// Frames that wait in the engine's places.
    waiting: Box<[Option<Mbuf>]>,
    /// Policies that nothing refers to any more, to be dropped elsewhere.
    retired: rtrb::Producer<Retired>,
    paused: bool,
    stop: bool,
}

/// Where replaced policies come out, to be dropped; empty it now and then.
pub type Attic = rtrb::Consumer<Retired>;

/// Replaced policies that may wait to be dropped.
const ATTIC: usize = 64;

impl Core {
    /// Without ports. `max_device_ports` is the engine's.
    #[must_use]
    pub fn new(
        engine: Engine,
        clock: Clock,
        pool: Option<Mempool>,
        max_device_ports: u32,
    ) -> (Self, Attic) {
        let (retired, attic) = rtrb::RingBuffer::new(ATTIC);
        let places = engine.places();
        let core = Self {
            engine,
            clock,
            longest_sleep: Duration::from_micros(250),
            crowded: false,
            outbox: Outbox::new(),
            pool,
            wire: Wire::new(max_device_ports),
            waiting: (0..places).map(|_| None).collect(),
            retired,
            paused: false,
            stop: false,
        };
        (core, attic)
    }

    /// The same as one of several: the engine has a shard of its own, and `peers` are its
    /// ends of the rings between them.
    #[must_use]
    pub fn among(mut self, peers: Peers) -> Self {
        self.wire.peers = peers;
        self
    }

    /// Puts a policy in force; see [`Engine::set_policy`].
    pub fn set_policy(&mut self, change: PolicyChange) {
        if let Some(old) = self.engine.set_policy(self.clock.now(), change) {
            self.retire(old);
        }
    }

    /// Whether no packet is answered by a NIC as it was before the last change: its
    /// fences are there, or no packet comes in at all.
    #[must_use]
    pub fn fences_stand(&self) -> bool {
        self.paused || self.engine.fences_stand()
    }

    fn retire(&mut self, old: Retired) {
        // The attic is emptied many times as fast as policies change; should it be
        // full all the same, forwarding pays for dropping one.
        drop(self.retired.push(old));
    }

    /// Begins to poll a device port.
    ///
    /// # Errors
    /// The number cannot be used.
    pub fn add_port(&mut self, number: u32, queues: Box<dyn Queues>) -> Result<(), AddError> {
        self.wire.add(number, queues)
    }

    /// Another lcore polls a device port, and sends what leaves by it.
    pub fn set_home(&mut self, number: u32, lcore: u16) {
        self.wire.set_home(number, lcore);
    }

    /// Ends polling a device port, here or elsewhere; its queues go back to whoever added them.
    pub fn remove_port(&mut self, number: u32) -> Option<Box<dyn Queues>> {
        self.wire.remove(number)
    }

    /// Frames lost behind the engine's decision.
    #[must_use]
    pub fn lost(&self) -> Lost {
        self.wire.lost
    }

    /// From now on no frame is received and no timer runs, until [`go_on`](Self::go_on);
    /// jobs are done. What arrives waits in the devices' queues.
    pub fn pause(&mut self) {
        self.paused = true;
    }

    /// Ends a [`pause`](Self::pause).
    pub fn go_on(&mut self) {
        self.paused = false;
    }

    /// Ends [`run`] after this job.
    pub fn stop(&mut self) {
        self.stop = true;
    }
}

/// Polls until a job says stop, or nobody is left to say it. Returns what it owned, to be dropped elsewhere.
pub fn run(mut core: Core, mut mailbox: Receiver<Core>) -> Core {
    let mut idle = Idle::new(core.clock.now(), core.longest_sleep, core.crowded);
    let mut next_tick = 0;
    while !core.stop {
        let jobs = mailbox.run(&mut core, JOBS);
        let frames = if core.paused { 0 } else { core.poll() };
        let now = core.clock.now();
        if now >= next_tick {
            if !core.paused {
                core.tick(now);
            }
            next_tick = now + TICK;
            core.stop |= mailbox.is_orphaned();
        }
        idle.rest(now, jobs + frames > 0);
    }
    core
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use penstock_engine::Config;

    use super::*;
    use crate::mailbox;

    #[test]
    fn a_thread_that_nobody_can_reach_ends() {
        let engine = Engine::new(Config {
            max_connections: 64,
            ..Config::default()
        });
        let (core, _attic) = Core::new(engine, Clock::start(), None, 16);
        let (handle, receiver) = mailbox::channel();
        let thread = std::thread::spawn(move || run(core, receiver));
        let other = handle.clone();
        drop(handle);
        std::thread::sleep(Duration::from_millis(20));
        assert!(!thread.is_finished(), "one is left");
        drop(other);
        let end = Instant::now() + Duration::from_secs(5);
        while !thread.is_finished() {
            assert!(Instant::now() < end, "it polls on");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
