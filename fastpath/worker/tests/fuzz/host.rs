//! A worker's agent over an engine, in one thread: whatever the agent asks of its polling
//! thread is done between two polls of the work that waits for it.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use penstock_engine::nic::Capacities;
use penstock_engine::{Config, Engine, NicConfig};
use penstock_flow::{Addr, Mac, Prefix};
use penstock_worker::lcore::{Attic, Clock, Core, Lcores};
use penstock_worker::mailbox::{self, Receiver};
use penstock_worker::snapshot::Store;
use tokio::runtime::Runtime;

/// The NICs; the uplink of each has its number.
pub(crate) const NICS: [u32; 2] = [1, 2];
/// Device ports are numbered below this.
pub(crate) const DEVICE_PORTS: u32 = 64;
/// Whatever takes as long hangs.
const SOON: Duration = Duration::from_secs(20);

pub(crate) struct Host {
    pub(crate) core: Core,
    receiver: Receiver<Core>,
    attic: Attic,
    pub(crate) lcores: Lcores,
    pub(crate) store: Arc<Store>,
    pub(crate) dir: Arc<tempfile::TempDir>,
    runtime: Runtime,
}

/// Small enough to be filled.
fn capacities() -> Capacities {
    Capacities {
        vport: 3,
        underlay: 3,
        spoof_guard: 3,
        flow: 4,
        acl: 3,
        mapping: 3,
        nexthop: 3,
        ..Capacities::default()
    }
}

impl Host {
    /// With an empty data directory.
    pub(crate) fn new() -> Self {
        // In memory, where there is such a place: every file is synced.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        Self::on(Arc::new(dir.expect("a directory")))
    }

    /// A new life on the same data directory.
    pub(crate) fn again(self) -> Self {
        let Self { dir, store, .. } = self;
        drop(store);
        Self::on(dir)
    }

    fn on(dir: Arc<tempfile::TempDir>) -> Self {
        let mut engine = Engine::new(Config {
            max_connections: 16,
            max_connections_per_port: 8,
            reserved_connections: 4,
            max_device_ports: DEVICE_PORTS,
            max_ports: 64,
            ..Config::default()
        });
        for device_id in NICS {
            let nic = NicConfig {
                device_id,
                vtep: Addr::from_v4([192, 0, 2, device_id as u8]),
                uplink_port: device_id,
                uplink_mac: Mac([2, 0, 0, 0, 1, device_id as u8]),
                underlay: Prefix::new(Addr::from_v4([192, 0, 2, 0]), 120).expect("a prefix"),
                gateway: None,
                mtu: 1600,
                capacities: capacities(),
                entry_write_ns: 0,
            };
            engine.attach_nic(nic).expect("attaches");
        }
        let (core, attic) = Core::new(engine, Clock::start(), None, DEVICE_PORTS);
        let (handle, receiver) = mailbox::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime");
        Self {
            core,
            receiver,
            attic,
            lcores: Lcores::new(vec![handle]),
            store: Arc::new(Store::open(dir.path()).expect("opens")),
            dir,
            runtime,
        }
    }

    /// Runs `work` to its end, and the jobs that it sends to the polling thread.
    pub(crate) fn run<T>(&mut self, work: impl Future<Output = T>) -> T {
        let (core, receiver, attic) = (&mut self.core, &mut self.receiver, &mut self.attic);
        let begin = Instant::now();
        self.runtime.block_on(async {
            let mut work = pin!(work);
            std::future::poll_fn(|cx| {
                receiver.run(core, 64);
                while attic.pop().is_ok() {}
                if let Poll::Ready(done) = work.as_mut().poll(cx) {
                    return Poll::Ready(done);
                }
                assert!(begin.elapsed() < SOON, "the agent hangs");
                // Jobs come from tasks and blocking threads too: look again.
                cx.waker().wake_by_ref();
                Poll::Pending
            })
            .await
        })
    }
}

/// Bytes as a sequence of choices; after the last one, every choice is the first.
pub(crate) struct Choices<'a>(pub(crate) &'a [u8]);

impl<'a> Choices<'a> {
    pub(crate) fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
            None => 0,
        }
    }

    pub(crate) fn of<T: Copy>(&mut self, values: &[T]) -> T {
        values[usize::from(self.byte()) % values.len()]
    }

    /// True once in `n` times.
    pub(crate) fn rarely(&mut self, n: u8) -> bool {
        self.byte() % n == n - 1
    }

    /// Some bytes, up to 255.
    pub(crate) fn some(&mut self) -> &'a [u8] {
        let len = usize::from(self.byte()).min(self.0.len());
        let (some, rest) = self.0.split_at(len);
        self.0 = rest;
        some
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The message with some of its bytes changed; as it was where that is no message.
    pub(crate) fn damage<M: prost::Message + Default>(&mut self, message: M) -> M {
        let mut bytes = message.encode_to_vec();
        for _ in 0..=self.byte() % 4 {
            let at = usize::from(self.byte()) | usize::from(self.byte() & 3) << 8;
            let value = self.byte();
            if bytes.is_empty() || value == 0 {
                bytes.push(value);
            } else {
                let at = at % bytes.len();
                bytes[at] ^= value;
            }
        }
        M::decode(bytes.as_slice()).unwrap_or(message)
    }
}
