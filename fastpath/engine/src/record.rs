//! What an engine tells about single connections and single drops.

use core::fmt;

use penstock_flow::{DropReason, Tuple};
use penstock_rules::model::{PortId, Vni};

use crate::counters::Traffic;

/// A connection as one port sees it.
#[derive(Clone, Copy, Debug)]
pub struct FlowRecord<'a> {
    /// Whose connection.
    pub port: PortId,
    /// Its VPC.
    pub vni: Vni,
    /// In the opener's direction.
    pub tuple: Tuple,
    /// Opened towards the port.
    pub ingress: bool,
    /// Where its protocol stands, one word.
    pub state: &'static str,
    /// Carried by the slow path.
    pub slow: Traffic,
    /// Carried by the NIC stages.
    pub nic: Traffic,
    /// In the NIC now.
    pub offloaded: bool,
    /// Full name of the rule that admits it, or of the list that had admitted what
    /// persists; empty where no rule did.
    pub rule: &'a str,
    /// Of the policy that judged it last.
    pub generation: u64,
    /// Since its last packet.
    pub idle_ns: u64,
}

/// A rule's name, kept without the ruleset it came from.
#[derive(Clone, Copy)]
pub struct Name {
    len: u8,
    bytes: [u8; Self::MAX],
}

impl Name {
    /// Longer names lose their beginning: what tells rules apart is at the end.
    pub const MAX: usize = 191;
    /// No name.
    pub const EMPTY: Self = Self {
        len: 0,
        bytes: [0; Self::MAX],
    };

    /// From a whole name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let mut from = name.len().saturating_sub(Self::MAX);
        while !name.is_char_boundary(from) {
            from += 1;
        }
        let tail = name.get(from..).unwrap_or("").as_bytes();
        let mut this = Self::EMPTY;
        if let Some(room) = this.bytes.get_mut(..tail.len()) {
            room.copy_from_slice(tail);
            this.len = tail.len() as u8;
        }
        this
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.bytes
            .get(..usize::from(self.len))
            .and_then(|b| core::str::from_utf8(b).ok())
            .unwrap_or("")
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

/// Why a record was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A first packet was refused, or one with a source that is not its port's.
    Denied(DropReason),
    /// A connection was cut because the policy no longer admits it.
    Revoked,
    /// A rule with a log has let it pass: it has opened a connection, or needs none.
    Allowed,
    /// It has passed, and would not have, were lists in audit enforced.
    WouldDrop,
}

impl Event {
    /// The stable name used in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Denied(reason) => reason.name(),
            Self::Revoked => "revoked",
            Self::Allowed => "allowed",
            Self::WouldDrop => "would_drop",
        }
    }
}

/// What became of a packet or a connection: a drop, or what policy wants told.
#[derive(Clone, Copy, Debug)]
pub struct DropRecord {
    /// When, on the clock given to `process` and `tick`.
    pub at: u64,
    /// What happened.
    pub event: Event,
    /// The port at which policy was judged.
    pub port: PortId,
    /// Its VPC.
    pub vni: Vni,
    /// In the opener's direction.
    pub tuple: Tuple,
    /// Towards the port.
    pub ingress: bool,
    /// Full name of the rule that decided, or would have, or that had admitted what
    /// is now revoked; empty where none did.
    pub rule: Name,
    /// Of the policy that judged it.
    pub generation: u64,
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    #[test]
    fn the_guide_has_the_words_of_records() {
        let guide = include_str!("../../../docs/drops.md");
        for event in [Event::Revoked, Event::WouldDrop, Event::Allowed] {
            let item = format!("\n- `{}`: ", event.name());
            assert_eq!(guide.matches(&item).count(), 1, "{item}");
        }
    }
}
