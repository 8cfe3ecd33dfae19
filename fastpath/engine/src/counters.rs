//! What an engine counts. Plain numbers of one lcore: the worker adds up.

use penstock_flow::DropReason;

/// Packets and their bytes, as they arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Frames.
    pub packets: u64,
    /// Bytes of those frames.
    pub bytes: u64,
}

impl Traffic {
    pub(crate) fn add(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }

    /// It counts elsewhere.
    pub(crate) fn take_back(&mut self, bytes: usize) {
        self.packets = self.packets.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes as u64);
    }

    pub(crate) fn plus(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

/// A device port's share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Came in from it.
    pub received: Traffic,
    /// Went out to it.
    pub sent: Traffic,
    /// Came in from it and was dropped.
    pub dropped: u64,
}

impl PortCounters {
    /// Adds another lcore's.
    pub fn merge(&mut self, other: &Self) {
        self.received.plus(other.received);
        self.sent.plus(other.sent);
        self.dropped += other.dropped;
    }
}

/// All of an engine's numbers. At any time
/// `received.packets == sent.packets + sum(drops) + consumed + waiting`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Frames given to [`process`](crate::Engine::process).
    pub received: Traffic,
    /// Frames it said to send, as long as they were then.
    pub sent: Traffic,
    /// Frames meant for the engine itself, without an answer.
    pub consumed: u64,
    /// Fragments that wait now for the first one of their packet.
    pub waiting: u64,
    /// Frames dropped, by `DropReason as usize`.
    pub drops: [u64; DropReason::ALL.len()],
    /// Forwarded by the NIC stages alone.
    pub nic: Traffic,
    /// Forwarded by the slow path.
    pub slow: Traffic,
    /// Answered in place: ARP, ND, ping of a gateway, ICMP errors.
    pub answered: u64,
    /// Connections.
    pub connections: Connections,
    /// Flow-table entries, in pairs or local chains.
    pub offload: Offload,
    /// What policy has said beside yes and no.
    pub judged: Judged,
}

/// Lives of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// There now.
    pub live: u64,
    /// Begun, ever.
    pub opened: u64,
    /// Of these, taken up in their midst after a restart.
    pub adopted: u64,
    /// Taken up from another engine, ever; not among those opened.
    pub imported: u64,
    /// Ended by their own protocol or by silence.
    pub expired: u64,
    /// Made room for others, being half-open or closed.
    pub evicted: u64,
    /// Cut by a policy change.
    pub revoked: u64,
    /// Judged again after a policy change, with whatever result.
    pub rejudged: u64,
    /// Gone with their port.
    pub orphaned: u64,
    /// Judged again, they would be refused, and may go on until they end.
    pub persisted: u64,
    /// Let go without being cut: their packets are judged one by one from then on.
    pub released: u64,
}

/// What policy has said beside yes and no, at each end of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// Packets that have passed without a connection.
    pub stateless: u64,
    /// Packets that were to be logged, recorded or not.
    pub logged: u64,
    /// Packets that lists in audit would have refused, recorded or not.
    pub would_drop: u64,
    /// Packets that were rejected and whose senders were told so.
    pub rejected: u64,
}

impl Judged {
    fn merge(&mut self, other: &Self) {
        let Self {
            stateless,
            logged,
            would_drop,
            rejected,
        } = other;
        self.stateless += stateless;
        self.logged += logged;
        self.would_drop += would_drop;
        self.rejected += rejected;
    }
}

/// Lives of NIC flow entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// Pairs in the NIC now or on their way into it.
    pub live: u64,
    /// Offered, ever.
    pub offered: u64,
    /// Of these, taken in whole by the NIC.
    pub installed: u64,
    /// Taken out again, or back before they were in.
    pub withdrawn: u64,
    /// Stayed in software because the flow table was full.
    pub table_full: u64,
    /// Stayed in software because too many were on their way.
    pub queue_full: u64,
}

impl Connections {
    fn merge(&mut self, other: &Self) {
        let Self {
            live,
            opened,
            adopted,
            imported,
            expired,
            evicted,
            revoked,
            rejudged,
            orphaned,
            persisted,
            released,
        } = other;
        self.live += live;
        self.opened += opened;
        self.adopted += adopted;
        self.imported += imported;
        self.expired += expired;
        self.evicted += evicted;
        self.revoked += revoked;
        self.rejudged += rejudged;
        self.orphaned += orphaned;
        self.persisted += persisted;
        self.released += released;
    }
}

impl Offload {
    fn merge(&mut self, other: &Self) {
        let Self {
            live,
            offered,
            installed,
            withdrawn,
            table_full,
            queue_full,
        } = other;
        self.live += live;
        self.offered += offered;
        self.installed += installed;
        self.withdrawn += withdrawn;
        self.table_full += table_full;
        self.queue_full += queue_full;
    }
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            received: Traffic::default(),
            sent: Traffic::default(),
            consumed: 0,
            waiting: 0,
            drops: [0; DropReason::ALL.len()],
            nic: Traffic::default(),
            slow: Traffic::default(),
            answered: 0,
            connections: Connections::default(),
            offload: Offload::default(),
            judged: Judged::default(),
        }
    }
}

impl Counters {
    /// Frames dropped for `reason`.
    #[must_use]
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops.get(reason as usize).copied().unwrap_or(0)
    }

    /// Adds another lcore's.
    pub fn merge(&mut self, other: &Self) {
        let Self {
            received,
            sent,
            consumed,
            waiting,
            drops,
            nic,
            slow,
            answered,
            connections,
            offload,
            judged,
        } = other;
        self.received.plus(*received);
        self.sent.plus(*sent);
        self.consumed += consumed;
        self.waiting += waiting;
        for (sum, more) in self.drops.iter_mut().zip(drops) {
            *sum += more;
        }
        self.nic.plus(*nic);
        self.slow.plus(*slow);
        self.answered += answered;
        self.connections.merge(connections);
        self.offload.merge(offload);
        self.judged.merge(judged);
    }

    pub(crate) fn drop(&mut self, reason: DropReason) {
        if let Some(n) = self.drops.get_mut(reason as usize) {
            *n += 1;
        }
    }
}
