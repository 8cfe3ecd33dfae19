//! From a port to its connections: lists through the connections themselves.
//!
//! Eight bytes per connection and no memory taken on the way. A list is there
//! as long as a connection is in it, whether its port is bound or not.

use penstock_flow::conntrack::{Handle, Table};
use penstock_rules::model::{PortId, Vni};

use super::Connection;
use crate::nic::exact::{Exact, NONE};

/// A connection's place among its port's: slots of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links {
    before: u32,
    behind: u32,
}

impl Default for Links {
    fn default() -> Self {
        Self {
            before: NONE,
            behind: NONE,
        }
    }
}

/// One step of a walk.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Walked {
    /// To this connection.
    To(Handle),
    /// Past ports that are not wanted, or to one that is.
    Past,
    /// There is nothing more.
    End,
}

#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    len: u32,
    /// The VPC of all of them; [`SEVERAL`]: the port has moved.
    vni: Vni,
}

/// Ports that one step of a walk passes: about what a look at a connection costs.
const PORTS_PER_STEP: u32 = 32;

/// No VPC's id.
const SEVERAL: Vni = 0;

#[derive(Debug)]
pub(super) struct Lists {
    lists: Exact<PortId, List>,
    /// The walk: which list comes next, and which connection of the one before.
    next_list: u32,
    next: u32,
}

impl Lists {
    pub(super) fn new(ports: u32, seed: u64) -> Self {
        let lists = Exact::new(ports, seed);
        Self {
            next_list: lists.capacity(),
            next: NONE,
            lists,
        }
    }

    /// Whether `port` has a list or may have one.
    pub(super) fn has_room(&self, port: PortId) -> bool {
        self.lists.len() < self.lists.capacity() || self.lists.find(&port).is_some()
    }

    /// Puts a connection before all others of its port.
    pub(super) fn link(
        &mut self,
        table: &mut Table<Connection>,
        port: PortId,
        vni: Vni,
        handle: Handle,
    ) {
        let slot = handle.index();
        let behind = match self.lists.get_mut(&port) {
            Some(list) => {
                let behind = list.first;
                list.first = slot;
                list.len += 1;
                if list.vni != vni {
                    list.vni = SEVERAL;
                }
                behind
            }
            None => {
                let list = List {
                    first: slot,
                    len: 1,
                    vni,
                };
                // Its caller has asked whether there is room.
                let linked = self.lists.insert(port, list);
                debug_assert!(linked.is_ok(), "{linked:?}");
                NONE
            }
        };
        if let Some(links) = links(table, slot) {
            *links = Links {
                before: NONE,
                behind,
            };
        }
        if let Some(links) = links(table, behind) {
            links.before = slot;
        }
    }

    /// Takes a connection out of its port's list.
    pub(super) fn unlink(&mut self, table: &mut Table<Connection>, handle: Handle) {
        let Some(entry) = table.get(handle) else {
            return;
        };
        let port = entry.key().port();
        let Links { before, behind } = entry.value.links;
        if self.next == handle.index() {
            self.next = behind;
        }
        if let Some(links) = links(table, before) {
            links.behind = behind;
        }
        if let Some(links) = links(table, behind) {
            links.before = before;
        }
        let Some(list) = self.lists.get_mut(&port) else {
            return;
        };
        if before == NONE {
            list.first = behind;
        }
        list.len = list.len.saturating_sub(1);
        if list.len == 0 {
            self.lists.remove(&port);
        }
    }

    pub(super) fn of<'a>(
        &self,
        table: &'a Table<Connection>,
        port: PortId,
    ) -> impl Iterator<Item = u32> + use<'a> {
        let first = self.lists.get(&port).map(|list| list.first);
        core::iter::successors(first, |slot| behind(table, *slot)).filter(|slot| *slot != NONE)
    }

    pub(super) fn len_of(&self, port: PortId) -> u32 {
        self.lists.get(&port).map_or(0, |list| list.len)
    }

    pub(super) fn start_walk(&mut self) {
        (self.next_list, self.next) = (0, NONE);
    }

    pub(super) fn walk(
        &mut self,
        table: &Table<Connection>,
        wanted: impl Fn(PortId, Vni) -> bool,
    ) -> Walked {
        if let Some(handle) = table.handle_at(self.next) {
            self.next = behind(table, self.next).unwrap_or(NONE);
            return Walked::To(handle);
        }
        if self.next_list >= self.lists.capacity() {
            return Walked::End;
        }
        for _ in 0..PORTS_PER_STEP {
            let place = self.lists.at(self.next_list);
            self.next_list += 1;
            if let Some((port, list)) = place
                && is_wanted(*port, list, &wanted)
            {
                self.next = list.first;
                break;
            }
        }
        Walked::Past
    }

    /// Connections that the walk has before it. Those of the list that it is in
    /// all count.
    pub(super) fn left(&self, wanted: impl Fn(PortId, Vni) -> bool) -> u32 {
        let from = match self.next {
            NONE => self.next_list,
            _ => self.next_list.saturating_sub(1),
        };
        self.sum(from, wanted)
    }

    pub(super) fn count(&self, wanted: impl Fn(PortId, Vni) -> bool) -> u32 {
        self.sum(0, wanted)
    }

    fn sum(&self, from: u32, wanted: impl Fn(PortId, Vni) -> bool) -> u32 {
        (from..self.lists.capacity())
            .filter_map(|slot| self.lists.at(slot))
            .filter(|(port, list)| is_wanted(**port, list, &wanted))
            .map(|(_, list)| list.len)
            .sum()
    }
}

fn is_wanted(port: PortId, list: &List, wanted: impl Fn(PortId, Vni) -> bool) -> bool {
    list.vni == SEVERAL || wanted(port, list.vni)
}

fn links(table: &mut Table<Connection>, slot: u32) -> Option<&mut Links> {
    let handle = table.handle_at(slot)?;
    table.get_mut(handle).map(|entry| &mut entry.value.links)
}

fn behind(table: &Table<Connection>, slot: u32) -> Option<u32> {
    let entry = table.get(table.handle_at(slot)?)?;
    Some(entry.value.links.behind)
}
