//! The policy that one node judges by.
//!
//! [`model::Policy`] is what the controller sends; [`Ruleset`] is the same,
//! compiled for lookup. The worker's slow path and `explain` call the same
//! [`Ruleset::judge`]. [`closing`](fn@closing) finds what a change from one to the next
//! may close.
//!
//! # Meaning
//!
//! Each port is judged by the lists that apply to it: those of its groups and
//! those of its whole VPC. They are asked tier by tier.
//!
//! 1. *Admin*: rules by (list's priority, rule's priority, action with the
//!    stricter first, names). The first that matches decides; one that passes
//!    on ends the tier, and the next is asked.
//! 2. *Tenant*: if any list selects the port in this direction, what no rule of
//!    them allows is closed. Where several match, the first by names is named.
//! 3. *Baseline*: as admin; nothing passes on.
//! 4. The VPC's default.
//!
//! A list in audit decides nothing. What may pass is judged again as if such
//! lists were enforced, and what would refuse it then is told.
//!
//! A port that the policy does not know is closed. A prefix speaks of its own
//! family only: `::/0` never matches IPv4. `RoCEv2`, UDP to port 4791, is a
//! protocol of its own: no UDP rule matches it. A peer's groups are looked up in
//! the port's VPC, and then in those that are peered with it.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod closing;
mod delta;
mod error;
mod explain;
mod fate;
mod holes;
mod judge;
mod places;
mod program;
mod query;
mod ruleset;
mod service;
mod shards;
mod tags;

pub mod model;

pub use closing::{Region, closing};
pub use delta::{Delta, Gone, Work};
pub use error::CompileError;
pub use explain::{Explanation, Match, NearMiss, Outcome, TierSays};
pub use fate::Fate;
pub use query::{Decision, Judgement, Query, RuleId, Verdict};
pub use ruleset::{Member, Ruleset};
