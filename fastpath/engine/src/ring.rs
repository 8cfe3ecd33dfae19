//! The most recent records, each kind in a ring of its own: what one tells much of
//! leaves the others theirs.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::record::{DropRecord, Event};

/// All of them.
#[derive(Debug)]
pub(crate) struct Records {
    drops: Ring,
    allowed: Ring,
    audited: Ring,
}

impl Records {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            drops: Ring::new(capacity),
            allowed: Ring::new(capacity),
            audited: Ring::new(capacity),
        }
    }

    pub(crate) fn push(&mut self, record: DropRecord) {
        match record.event {
            Event::Denied(_) | Event::Revoked => self.drops.push(record),
            Event::Allowed => self.allowed.push(record),
            Event::WouldDrop => self.audited.push(record),
        }
    }

    /// Denials and revocations, newest first.
    pub(crate) fn drops(&self) -> impl Iterator<Item = &DropRecord> {
        self.drops.iter()
    }

    /// What rules with a log have let pass, newest first.
    pub(crate) fn allowed(&self) -> impl Iterator<Item = &DropRecord> {
        self.allowed.iter()
    }

    /// What lists in audit would have refused, newest first.
    pub(crate) fn audited(&self) -> impl Iterator<Item = &DropRecord> {
        self.audited.iter()
    }
}

/// Bounded; the oldest record makes room. Memory is taken when it is made.
#[derive(Debug)]
struct Ring {
    records: Box<[Option<DropRecord>]>,
    next: usize,
}

impl Ring {
    fn new(capacity: usize) -> Self {
        let mut records = Vec::new();
        records.resize_with(capacity, || None);
        Self {
            records: records.into_boxed_slice(),
            next: 0,
        }
    }

    fn push(&mut self, record: DropRecord) {
        if let Some(slot) = self.records.get_mut(self.next) {
            *slot = Some(record);
            self.next = (self.next + 1) % self.records.len();
        }
    }

    /// Newest first.
    fn iter(&self) -> impl Iterator<Item = &DropRecord> {
        let (newer, older) = self.records.split_at(self.next);
        newer.iter().rev().chain(older.iter().rev()).flatten()
    }
}
