//! What a packet is and which connection it belongs to.
//!
//! Pure: no clock, socket, file or thread can be named here. Time is always an
//! argument, in nanoseconds of a monotonic clock.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod addr;
pub mod build;
pub mod checksum;
pub mod conntrack;
pub mod dhcp;
pub mod drop;
pub mod hash;
pub mod key;
pub mod packet;
pub mod tuple;
pub mod wheel;

pub use addr::{Addr, Mac, Prefix};
pub use drop::DropReason;
pub use key::{Key, Orientation};
pub use tuple::Tuple;
