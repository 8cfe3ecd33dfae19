//! Updates, and the shortest list of them from what is to what should be.

use std::collections::BTreeMap;

use crate::pipeline::{Entry, Key, entity};
use crate::v1;
use crate::v1::update::Type;

/// Adds an entry.
#[must_use]
pub fn insert(entry: &Entry) -> v1::Update {
    update(Type::Insert, entry.encode())
}

/// Gives an entry another action.
#[must_use]
pub fn modify(entry: &Entry) -> v1::Update {
    update(Type::Modify, entry.encode())
}

/// Removes an entry.
#[must_use]
pub fn delete(key: &Key) -> v1::Update {
    update(Type::Delete, key.encode())
}

fn update(kind: Type, entry: v1::TableEntry) -> v1::Update {
    v1::Update {
        r#type: kind.into(),
        entity: Some(entity(entry)),
    }
}

/// One step from what is to what should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Missing.
    Insert(Entry),
    /// There, with another action, timeout or meter.
    Modify(Entry),
    /// Not wanted.
    Delete(Key),
}

impl Step {
    /// To the wire.
    #[must_use]
    pub fn encode(&self) -> v1::Update {
        match self {
            Self::Insert(entry) => insert(entry),
            Self::Modify(entry) => modify(entry),
            Self::Delete(key) => delete(key),
        }
    }
}

/// The steps from `found` to `wanted`, each key at most once: insertions and
/// changes from the end of the pipeline to its start, then deletions from its
/// start to its end, so that no entry names a next hop that is not there.
/// Nothing when both are equal.
#[must_use]
pub fn plan<'a>(
    wanted: impl IntoIterator<Item = &'a Entry>,
    found: impl IntoIterator<Item = &'a Entry>,
) -> Vec<Step> {
    let mut found: BTreeMap<Key, &Entry> = found
        .into_iter()
        .map(|entry| (entry.key(), entry))
        .collect();
    let wanted: BTreeMap<Key, &Entry> = wanted
        .into_iter()
        .map(|entry| (entry.key(), entry))
        .collect();
    let mut steps = Vec::new();
    for (key, entry) in wanted.into_iter().rev() {
        match found.remove(&key) {
            Some(same) if same == entry => {}
            Some(_) => steps.push(Step::Modify(entry.clone())),
            None => steps.push(Step::Insert(entry.clone())),
        }
    }
    steps.extend(found.into_keys().map(Step::Delete));
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::{mapping, nexthop};
    use crate::{Bits, Lpm};

    fn route(dst: u128, nexthop_id: u32) -> Entry {
        let key = mapping::Key {
            vpc: Bits::from(1_u8),
            dst: Lpm::exact(dst),
        };
        let action = mapping::Action::SetNexthop { nexthop_id };
        mapping::Entry { key, action }.into()
    }

    fn hop(nexthop_id: u32) -> Entry {
        let action = nexthop::Action::ToPort {
            device_port: 1,
            vlan: Bits::default(),
            dst_mac: Bits::from([2, 0, 0, 0, 0, 1]),
        };
        let key = nexthop::Key { nexthop_id };
        nexthop::Entry { key, action }.into()
    }

    #[test]
    fn equal_sets_need_no_step() {
        let entries = [hop(1), route(5, 1)];
        assert_eq!(plan(&entries, &entries), []);
    }

    #[test]
    fn next_hops_come_first_and_go_last() {
        let wanted = [route(5, 1), hop(1), route(6, 1)];
        let found = [route(6, 2), hop(2), route(7, 2)];
        assert_eq!(
            plan(&wanted, &found),
            [
                Step::Insert(hop(1)),
                Step::Modify(route(6, 1)),
                Step::Insert(route(5, 1)),
                Step::Delete(route(7, 2).key()),
                Step::Delete(hop(2).key()),
            ]
        );
    }
}
