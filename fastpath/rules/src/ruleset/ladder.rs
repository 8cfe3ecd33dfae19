//! The lists that speak of a port in one direction, in the order in which they
//! are asked.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::model::{Direction, Tier};
use crate::program::Program;
use crate::shards::Slot;

/// Lists by tier: admin and baseline by (priority, name), tenant by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ladder {
    slots: Box<[Slot]>,
    /// Where the tenant tier begins, and where it ends.
    tenant: u32,
    baseline: u32,
    /// Some are in audit.
    pub(crate) audit: bool,
}

impl Ladder {
    /// Of these lists, those that speak in a direction.
    pub(crate) fn new<'a>(
        lists: impl Iterator<Item = (Slot, &'a Program)>,
        direction: Direction,
    ) -> Self {
        let mut lists: Vec<(Slot, &Program)> = lists
            .filter(|(_, program)| program.list.speaks(direction))
            .collect();
        lists.sort_by(|(_, a), (_, b)| key(a).cmp(&key(b)));
        // A list may apply to several groups of a port.
        lists.dedup_by_key(|(slot, _)| *slot);
        let before = |tier| {
            let lists = lists.iter().filter(|(_, p)| p.list.tier < tier);
            u32::try_from(lists.count()).unwrap_or(u32::MAX)
        };
        Self {
            tenant: before(Tier::Tenant),
            baseline: before(Tier::Baseline),
            audit: lists.iter().any(|(_, program)| program.list.audit),
            slots: lists.iter().map(|(slot, _)| *slot).collect(),
        }
    }

    #[inline]
    pub(crate) fn tier(&self, tier: Tier) -> &[Slot] {
        let (tenant, baseline) = (self.tenant as usize, self.baseline as usize);
        let range = match tier {
            Tier::Admin => 0..tenant,
            Tier::Tenant => tenant..baseline,
            Tier::Baseline => baseline..self.slots.len(),
        };
        self.slots.get(range).unwrap_or(&[])
    }

    pub(crate) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}

/// What a list is ordered by.
fn key(program: &Program) -> (Tier, u16, &str, u32) {
    let list = &program.list;
    let priority = match list.tier {
        Tier::Tenant => 0,
        Tier::Admin | Tier::Baseline => list.priority,
    };
    // Names are unique; ids keep the order strict were they not.
    (list.tier, priority, &list.name, program.id)
}
