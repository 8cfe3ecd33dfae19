//! One answer out of those of all lcores.

use std::cmp::Reverse;

use penstock_engine::nic::Table;

use super::{Drops, Numbers};

impl Numbers {
    /// Counters summed up. A table that every lcore has the whole of counts once: the
    /// flow table alone is divided between them.
    #[must_use]
    pub fn merge(all: &[Self]) -> Option<Self> {
        let (first, others) = all.split_first()?;
        let mut sum = first.clone();
        for other in others {
            sum.add(other);
        }
        Some(sum)
    }

    fn add(&mut self, other: &Self) {
        let Self {
            counters,
            lost,
            handed,
            outbox_overflows,
            ports,
            tables,
            generation,
            fenced,
            rejudging,
            pending_writes,
        } = other;
        self.counters.merge(counters);
        self.lost.tx_full += lost.tx_full;
        self.lost.handover_full += lost.handover_full;
        self.lost.no_buffer += lost.no_buffer;
        self.lost.copies += lost.copies;
        self.handed.given += handed.given;
        self.handed.taken += handed.taken;
        self.handed.sent += handed.sent;
        self.outbox_overflows += outbox_overflows;
        for (number, counters) in ports {
            match self.ports.iter_mut().find(|(n, _)| n == number) {
                Some((_, sum)) => sum.merge(counters),
                // A port that came between two answers.
                None => self.ports.push((*number, *counters)),
            }
        }
        for (device, table, used) in tables {
            if *table == Table::Flow
                && let Some((_, _, sum)) = self
                    .tables
                    .iter_mut()
                    .find(|(d, t, _)| d == device && t == table)
            {
                *sum += used;
            }
        }
        // A change is fenced by all lcores alike.
        self.fenced.regions = self.fenced.regions.max(fenced.regions);
        self.fenced.since = self.fenced.since.max(fenced.since);
        self.fenced.connections += fenced.connections;
        self.rejudging |= rejudging;
        for ((_, sum), (_, more)) in self.pending_writes.iter_mut().zip(pending_writes) {
            *sum += more;
        }
        // In force is what is in force everywhere.
        self.generation = self.generation.min(*generation);
    }
}

impl Drops {
    /// Counters summed up, and the newest `limit` records of all.
    #[must_use]
    pub fn merge(all: Vec<Self>, limit: usize) -> Option<Self> {
        let mut all = all.into_iter();
        let mut sum = all.next()?;
        for other in all {
            // Every reason is there, in the same order.
            for ((_, count), (_, more)) in sum.counters.iter_mut().zip(other.counters) {
                *count += more;
            }
            sum.records.extend(other.records);
            sum.now = sum.now.max(other.now);
        }
        sum.records.sort_by_key(|record| Reverse(record.at));
        sum.records.truncate(limit);
        Some(sum)
    }
}
