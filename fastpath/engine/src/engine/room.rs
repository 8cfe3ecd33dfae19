//! Who may have how many connections, and what goes to make room for others.
//!
//! The table is one for all ports. A part of it is kept back: each port that is
//! bound may always have its equal share of that, whatever the others hold; the
//! rest goes to whoever comes first, up to the limit of a single port. So no
//! tenant, with however many ports, can keep the others from connecting.
//!
//! What is made room for is paid by those who caused the want: a port at its
//! limit loses what others have half opened towards it, and one beyond its share
//! what ports beyond theirs have half open. What a port has opened itself never
//! makes room for more of its own at its limit: its flood ends there.

use penstock_flow::DropReason;
use penstock_flow::conntrack::Handle;
use penstock_rules::model::PortId;

use super::Engine;
use crate::connections::{ConnectionEntry, Role};

/// What a port lacks for one more connection.
enum Lack {
    Nothing,
    /// It has as many as a single port may have.
    Own,
    /// It is beyond its share, and so are others who have all the rest.
    Common,
    /// The table is full.
    Table,
}

impl Engine {
    fn lack(&self, port: PortId) -> Lack {
        let has = self.ports.get(&port).map_or(0, |state| state.connections);
        if has >= self.config.max_connections_per_port {
            return Lack::Own;
        }
        let (share, kept_back) = self.shares();
        let common = self.connections.capacity().saturating_sub(kept_back);
        if has >= share && self.beyond_shares >= common {
            return Lack::Common;
        }
        if self.connections.is_full() {
            return Lack::Table;
        }
        Lack::Nothing
    }

    /// Whether `port` may have one more connection as things are.
    pub(super) fn has_room(&self, port: PortId) -> bool {
        matches!(self.lack(port), Lack::Nothing)
    }

    /// Sees to it that `port` may have one more connection, without touching
    /// those of `kept`.
    pub(super) fn make_room(
        &mut self,
        now: u64,
        port: PortId,
        kept: &[Option<Handle>; 2],
    ) -> Result<(), DropReason> {
        match self.lack(port) {
            Lack::Nothing => Ok(()),
            Lack::Own => self.evict(now, kept, |_, entry| match entry.key().port() == port {
                false => Role::Bystander,
                true if entry.value.ingress => Role::Candidate,
                true => Role::Spared,
            }),
            Lack::Common => {
                let (share, _) = self.shares();
                self.evict(now, kept, |engine, entry| {
                    match engine.ports.get(&entry.key().port()) {
                        Some(owner) if owner.connections > share => Role::Candidate,
                        _ => Role::Bystander,
                    }
                })
            }
            // Of a port that is gone, or of before there were so many.
            Lack::Table => self.evict(now, kept, |_, _| Role::Candidate),
        }
    }

    /// `port` has one more connection.
    pub(super) fn count_in(&mut self, port: PortId) {
        let (share, _) = self.shares();
        if let Some(state) = self.ports.get_mut(&port) {
            state.connections += 1;
            self.beyond_shares += u32::from(state.connections > share);
        }
    }

    /// `port` has one connection less.
    pub(super) fn count_out(&mut self, port: PortId) {
        let (share, _) = self.shares();
        if let Some(state) = self.ports.get_mut(&port) {
            let beyond = u32::from(state.connections > share);
            self.beyond_shares = self.beyond_shares.saturating_sub(beyond);
            state.connections = state.connections.saturating_sub(1);
        }
    }

    /// Ports have come or gone: shares are others.
    pub(super) fn recount(&mut self) {
        let (share, _) = self.shares();
        let beyond = |(_, state): (_, &super::PortState)| state.connections.saturating_sub(share);
        self.beyond_shares = self.ports.iter().map(beyond).sum();
    }

    /// A port's share of what is kept back, and all shares together.
    fn shares(&self) -> (u32, u32) {
        let ports = self.ports.len().max(1);
        let share = self.config.reserved_connections / ports;
        (share, share * ports)
    }

    fn evict(
        &mut self,
        now: u64,
        kept: &[Option<Handle>; 2],
        role: impl Fn(&Self, &ConnectionEntry) -> Role,
    ) -> Result<(), DropReason> {
        let start = self.connections.next_candidates();
        let victim = self
            .connections
            .victim(now, start, kept, |entry| role(self, entry))
            .ok_or(DropReason::TableFull)?;
        self.counters.connections.evicted += 1;
        self.forget(victim);
        Ok(())
    }
}
