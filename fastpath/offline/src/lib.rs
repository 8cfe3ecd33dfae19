//! Engines without devices: what a capture would have met under given documents.
//!
//! * [`capture`]: packets out of pcap and pcapng files, streamed;
//! * [`bed`]: one engine per node of a model, with the tables and the policy that its
//!   worker would have, and an underlay between them in memory;
//! * [`replay`]: puts captured packets in where they came from, and tells what became
//!   of each.
//!
//! Nothing here reads a clock: the time is the capture's. Equal input gives equal
//! output.
#![forbid(unsafe_code)]

pub mod bed;
pub mod capture;
pub mod replay;
