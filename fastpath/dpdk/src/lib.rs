//! Safe owners for what DPDK hands out: the environment, pools, frames, ports,
//! queues and polling threads.
//!
//! ```no_run
//! # fn main() -> Result<(), dpdk::Error> {
//! use dpdk::{Burst, Eal, EalConfig, Mempool, PoolConfig, PortConfig};
//!
//! let eal = Eal::init(&EalConfig::new().no_huge(true).memory_mib(256))?;
//! let pool = Mempool::new(&eal, "frames", &PoolConfig::default())?;
//! let mut port = eal.attach("net_null0", "")?;
//! let mut queues = port.start(&PortConfig::default(), pool)?;
//! let (mut rx, mut tx) = (queues.rx.remove(0), queues.tx.remove(0));
//! let poller = dpdk::launch(&eal, "poll", Some(1), move || {
//!     let mut burst = Burst::new();
//!     rx.receive(&mut burst, 32);
//!     tx.send(&mut burst);
//! })?;
//! poller.join()
//! # }
//! ```
//!
//! What the types promise:
//!
//! * A frame has one owner. [`Mbuf`] and [`Burst`] cannot be cloned and free what
//!   they hold; what a transmit queue accepts is the driver's, what it refuses stays
//!   in the caller's burst.
//!
//! ```compile_fail,E0277
//! fn copies<T: Clone>() {}
//! copies::<dpdk::Mbuf>();
//! ```
//!
//! * A queue has one poller. [`RxQueue`] and [`TxQueue`] move between threads but
//!   are never shared, and a port neither stops nor closes while one of them lives.
//!
//! ```compile_fail,E0277
//! fn shared<T: Sync>() {}
//! shared::<dpdk::RxQueue>();
//! ```
//!
//! * A pool outlives its frames: pools, like the environment itself, last until the
//!   process ends, so that a frame needs no counter to keep its pool alive.
//! * Failure is a value. A panic in a polling thread ends that thread and comes
//!   out of its join; it never unwinds into C.
//!
//! The environment ([`Eal::init`]) exists once per process.

mod burst;
mod eal;
mod error;
mod lcore;
mod mbuf;
mod pool;
mod port;

pub use burst::Burst;
pub use eal::{Eal, EalConfig};
pub use error::Error;
pub use lcore::{Lcore, launch};
pub use mbuf::Mbuf;
pub use pool::{HEADROOM, Mempool, PoolConfig};
pub use port::{Link, Port, PortConfig, Queues, RxCounters, RxQueue, Stats, TxQueue};
