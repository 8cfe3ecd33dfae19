//! Numbers for the data plane.
//!
//! Ports, subnets, groups, policies, prefix sets and nodes have names in the API
//! and 32-bit ids in tables. Ids count up per kind, durably, so that an id means one thing for
//! as long as anybody may remember it; after four billion of them the counting
//! starts anew and passes over those in use. 0 is never an id. What rules can name shares one count: see [`space`].

use std::collections::{BTreeMap, HashSet};

use crate::store::{self, Batch, Store};
use crate::world::{Kind, World};

/// The next id of every kind.
#[derive(Clone, Debug)]
pub struct Ids {
    next: BTreeMap<Kind, u32>,
    in_use: BTreeMap<Kind, HashSet<u32>>,
}

/// The kind whose count an id comes from. Groups, with those that selectors stand
/// for, policies and prefix sets share one.
const fn space(kind: Kind) -> Kind {
    match kind {
        Kind::Policy | Kind::PrefixSet | Kind::SecurityGroup => Kind::SecurityGroup,
        Kind::Tenant | Kind::Vpc | Kind::Subnet | Kind::Port | Kind::Peering | Kind::Node => kind,
    }
}

fn key(kind: Kind) -> Vec<u8> {
    format!("next-id/{}", kind.name()).into_bytes()
}

impl Ids {
    /// Reads the counters.
    ///
    /// # Errors
    /// When the store fails, or a counter is damaged. One that is missing starts
    /// behind the highest id in use.
    pub fn load(store: &dyn Store, world: &World) -> Result<Self, store::Error> {
        let mut in_use: BTreeMap<Kind, HashSet<u32>> = BTreeMap::new();
        for row in world.rows.values() {
            if let Some(kind) = row.kind() {
                in_use.entry(space(kind)).or_default().insert(row.id);
            }
        }
        let anonymous = world.anonymous.values().copied();
        in_use
            .entry(Kind::SecurityGroup)
            .or_default()
            .extend(anonymous);
        let mut next = BTreeMap::new();
        for kind in Kind::ALL.into_iter().filter(|kind| space(*kind) == *kind) {
            let stored = store::get_exact(store, &key(kind))?.map(u32::from_be_bytes);
            let highest = in_use
                .get(&kind)
                .and_then(|ids| ids.iter().max().copied())
                .unwrap_or(0);
            next.insert(
                kind,
                stored.unwrap_or_else(|| highest.checked_add(1).unwrap_or(1)),
            );
        }
        Ok(Self { next, in_use })
    }

    /// A fresh id; `None` when four billion are in use.
    pub fn allocate(&mut self, kind: Kind) -> Option<u32> {
        let kind = space(kind);
        let next = self.next.entry(kind).or_insert(1);
        let in_use = self.in_use.entry(kind).or_default();
        if in_use.len() >= u32::MAX as usize {
            return None;
        }
        loop {
            let id = *next;
            *next = id.checked_add(1).unwrap_or(1);
            if id != 0 && in_use.insert(id) {
                return Some(id);
            }
        }
    }

    /// The resource is gone.
    pub fn release(&mut self, kind: Kind, id: u32) {
        if let Some(ids) = self.in_use.get_mut(&space(kind)) {
            ids.remove(&id);
        }
    }

    /// Adds the counters to a commit.
    pub fn save(&self, batch: &mut Batch) {
        for (kind, next) in &self.next {
            batch.put(key(*kind), next.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Memory;

    #[test]
    fn ids_are_not_reused_soon_and_never_while_alive() {
        let store = Memory::default();
        let world = World::load(&store).unwrap();
        let mut ids = Ids::load(&store, &world).unwrap();
        assert_eq!(ids.allocate(Kind::Port), Some(1));
        assert_eq!(ids.allocate(Kind::Port), Some(2));
        assert_eq!(ids.allocate(Kind::Node), Some(1));
        // A rule's words never stand for two things.
        assert_eq!(ids.allocate(Kind::SecurityGroup), Some(1));
        assert_eq!(ids.allocate(Kind::Policy), Some(2));
        assert_eq!(ids.allocate(Kind::PrefixSet), Some(3));
        ids.release(Kind::Port, 1);
        assert_eq!(ids.allocate(Kind::Port), Some(3));
        let mut batch = Batch::default();
        ids.save(&mut batch);
        store.commit(&batch, 0).unwrap();
        let mut again = Ids::load(&store, &world).unwrap();
        assert_eq!(again.allocate(Kind::Port), Some(4));

        let mut damaged = Batch::default();
        damaged.put(key(Kind::Port), [1, 2]);
        store.commit(&damaged, store.revision()).unwrap();
        let error = Ids::load(&store, &world).unwrap_err().to_string();
        assert!(error.contains("holds 2 bytes, not 4"), "{error}");

        // Around the corner: 0 is skipped, and so is what is in use.
        ids.next.insert(Kind::Port, u32::MAX);
        assert_eq!(ids.allocate(Kind::Port), Some(u32::MAX));
        assert_eq!(ids.allocate(Kind::Port), Some(1));
        assert_eq!(ids.allocate(Kind::Port), Some(4));
    }
}
