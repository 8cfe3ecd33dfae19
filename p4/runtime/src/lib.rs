//! P4Runtime v1: messages, client, server, and typed entries of Penstock's pipeline.
//!
//! * [`v1`] and [`config`] are the wire: generated from this crate's own
//!   statement of the schema, compatible with every P4Runtime 1.x peer.
//! * [`pipeline`] is generated from the P4 program's p4info: one module per
//!   table with its `Key`, `Action` and `Entry`. A name that is not in the
//!   program does not compile, a value that does not fit cannot be made, and
//!   what comes from the wire is checked once, when it is decoded.
//! * [`transport`], [`batch`], [`election`], [`role`] and [`punt`] hold what both
//!   ends of a channel must agree on.
//!
//! ```
//! use p4runtime::pipeline::{mapping, Entry};
//! use p4runtime::{Bits, Lpm};
//!
//! let entry: Entry = mapping::Entry {
//!     key: mapping::Key {
//!         vpc: Bits::from(7_u8),
//!         dst: Lpm::exact(0xffff_0a00_0001),
//!     },
//!     action: mapping::Action::SetNexthop { nexthop_id: 3 },
//! }
//! .into();
//! assert_eq!(Entry::decode(&entry.encode()), Ok(entry));
//! ```
//!
//! A wrong name is a compile error:
//!
//! ```compile_fail
//! let action = p4runtime::pipeline::mapping::Action::Forward { nexthop_id: 3 };
//! ```

#![forbid(unsafe_code)]

pub mod address;
pub mod batch;
mod bits;
mod decode;
pub mod election;
mod encode;
mod matching;
mod meter;
pub mod p4info;
pub mod pipeline;
pub mod priority;
pub mod punt;
pub mod reason;
pub mod role;
pub mod transport;
pub mod update;
mod wire;

pub use bits::{Bits, Field, Wide};
pub use decode::DecodeError;
pub use matching::{Lpm, Range, Ternary};
pub use meter::Meter;
pub use priority::Priority;
pub use wire::p4::config::v1 as config;
pub use wire::p4::v1;
