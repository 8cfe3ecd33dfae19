//! The engine as its users meet it: hosts, a wire, a controller.

#![allow(clippy::panic, reason = "helpers of tests fail as tests do")]

#[path = "../bed/bed.rs"]
mod bed;

mod ageing;
mod carry;
mod changes;
mod dhcp;
mod dhcp6;
mod errors;
mod fence;
mod fragments;
mod fragments_fair;
mod fragments_random;
mod homes;
mod judge;
mod moves;
mod mtu;
mod neighbours;
mod nics;
mod offload;
mod persist;
mod policy;
mod pressure;
mod random;
mod reach;
mod recovery;
mod reject;
mod related;
mod shards;
mod stateless;
mod tables;
mod told;
mod underlay;
mod wire;
