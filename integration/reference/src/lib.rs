//! The reference model: what a policy means, read off the validated documents by
//! linear scan. It is slow and short, and shares with the compiler and the
//! data plane nothing that decides: of other crates it takes the shape of the
//! documents, and addresses as numbers.
//!
//! [`judge`] answers for one packet at one port, [`matching`] lists the rules that speak of it; `docs/policy.md` says the same in
//! words. [`random`] makes models and packets near their boundaries.

#![forbid(unsafe_code)]

mod judge;
mod matching;
pub mod random;

pub use judge::{By, Judged, Match, Packet, Verdict, judge, matching};
