//! The most recent denials and revocations.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::record::DropRecord;

/// Bounded; the oldest record makes room. Memory is taken when it is made.
#[derive(Debug)]
pub(crate) struct Ring {
    records: Box<[Option<DropRecord>]>,
    next: usize,
}

impl Ring {
    pub(crate) fn new(capacity: usize) -> Self {
        let mut records = Vec::new();
        records.resize_with(capacity, || None);
        Self {
            records: records.into_boxed_slice(),
            next: 0,
        }
    }

    pub(crate) fn push(&mut self, record: DropRecord) {
        if let Some(slot) = self.records.get_mut(self.next) {
            *slot = Some(record);
            self.next = (self.next + 1) % self.records.len();
        }
    }

    /// Newest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &DropRecord> {
        let (newer, older) = self.records.split_at(self.next);
        newer.iter().rev().chain(older.iter().rev()).flatten()
    }
}
