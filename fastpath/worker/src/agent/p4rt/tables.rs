//! The controller's tables as it wrote them: what is read back, kept on disk, and put
//! into the engine again after a restart.

use std::collections::BTreeMap;
use std::ops::RangeBounds;

use p4runtime::batch::Refusal;
use p4runtime::pipeline::{Entry, Key, Table};
use p4runtime::{role, v1};
use penstock_engine::nic::{Op, Update};
use tonic::Code;

use super::convert::{self, Home};

/// One change, checked as far as it can be without the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Add.
    Insert(Entry),
    /// Change the action.
    Modify(Entry),
    /// Remove.
    Delete(Key),
}

impl Change {
    /// From the wire.
    ///
    /// # Errors
    /// It is no table entry, no client may write the table, or the entry is malformed.
    pub fn decode(update: &v1::Update) -> Result<Self, Refusal> {
        use v1::entity::Entity as E;
        let invalid = |message: &str| Refusal::new(Code::InvalidArgument, message);
        let entity = update.entity.as_ref().and_then(|e| e.entity.as_ref());
        let entry = match entity {
            Some(E::TableEntry(entry)) => entry,
            None => return Err(invalid("entity: nothing is given; give a table_entry")),
            Some(_) => {
                return Err(Refusal::new(
                    Code::Unimplemented,
                    "entity: this pipeline is written through table_entry only; \
                     meters are set with their entry, counters are read-only",
                ));
            }
        };
        let table = Table::from_id(entry.table_id)?;
        if !role::client_may_write(table) {
            return Err(convert::workers_own(table));
        }
        match v1::update::Type::try_from(update.r#type) {
            Ok(v1::update::Type::Insert) => Ok(Self::Insert(Entry::decode(entry)?)),
            Ok(v1::update::Type::Modify) => Ok(Self::Modify(Entry::decode(entry)?)),
            Ok(v1::update::Type::Delete) => Ok(Self::Delete(Key::decode(entry)?)),
            Ok(v1::update::Type::Unspecified) | Err(_) => {
                Err(invalid("type: give INSERT, MODIFY or DELETE"))
            }
        }
    }

    /// What it changes.
    #[must_use]
    pub fn key(&self) -> Key {
        match self {
            Self::Insert(entry) | Self::Modify(entry) => entry.key(),
            Self::Delete(key) => key.clone(),
        }
    }
}

/// A change as the engine takes it, and how to take it back.
#[derive(Clone, Copy, Debug)]
pub struct Planned {
    /// `None`: the agent's tables only.
    pub apply: Option<Update>,
    /// `None`: nothing to take back in the engine.
    pub undo: Option<Update>,
}

/// Entries by key, in the pipeline's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    entries: BTreeMap<Key, Entry>,
}

impl Tables {
    /// Every entry.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.entries.values()
    }

    /// One entry.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// The entries of a range of keys.
    pub fn range(&self, keys: impl RangeBounds<Key>) -> impl Iterator<Item = &Entry> {
        self.entries.range(keys).map(|(_, entry)| entry)
    }

    /// Does what the engine has done already.
    pub fn apply(&mut self, change: Change) {
        match change {
            Change::Insert(entry) | Change::Modify(entry) => {
                self.entries.insert(entry.key(), entry);
            }
            Change::Delete(key) => {
                self.entries.remove(&key);
            }
        }
    }
}

/// Tables with the changes of a batch on top, as if all had been taken.
#[derive(Debug)]
pub struct Overlay<'a> {
    below: &'a Tables,
    above: BTreeMap<Key, Option<Entry>>,
    uplink: u32,
}

impl<'a> Overlay<'a> {
    /// Nothing changed yet.
    #[must_use]
    pub fn new(below: &'a Tables, uplink: u32) -> Self {
        Self {
            below,
            above: BTreeMap::new(),
            uplink,
        }
    }

    /// What the engine is to do for `change`, which from now on counts as done.
    ///
    /// # Errors
    /// The key is there and must not be, or the reverse, or the soft NIC cannot do it.
    pub fn plan(&mut self, change: &Change) -> Result<Planned, Refusal> {
        let key = change.key();
        let old = match self.above.get(&key) {
            Some(above) => above.as_ref(),
            None => self.below.get(&key),
        };
        let table = key.table().name();
        let refuse = |code, text: &str| Err(Refusal::new(code, format!("{table}: {text}")));
        let (op, back, wanted, left) = match (change, old) {
            (Change::Insert(_), Some(_)) => {
                return refuse(
                    Code::AlreadyExists,
                    "an entry with this key exists; modify it",
                );
            }
            (Change::Modify(_) | Change::Delete(_), None) => {
                return refuse(Code::NotFound, "no entry has this key; insert it");
            }
            (Change::Insert(entry), None) => (Op::Insert, Op::Delete, entry, Some(entry.clone())),
            (Change::Modify(entry), Some(_)) => {
                (Op::Modify, Op::Modify, entry, Some(entry.clone()))
            }
            (Change::Delete(_), Some(old)) => (Op::Delete, Op::Insert, old, None),
        };
        let apply = self.update(op, wanted)?;
        let undo = match old {
            Some(old) => self.update(back, old)?,
            None => self.update(back, wanted)?,
        };
        self.above.insert(key, left);
        Ok(Planned { apply, undo })
    }

    fn update(&self, op: Op, entry: &Entry) -> Result<Option<Update>, Refusal> {
        Ok(match convert::entry(entry, self.uplink)? {
            Home::Engine(entry) => Some(Update { op, entry }),
            Home::Agent => None,
        })
    }
}
