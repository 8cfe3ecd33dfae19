//! What follows from what was put in place.

use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

use hashbrown::HashSet;
use penstock_flow::Prefix;

use super::apply::Change;
use super::{Compiled, Ladder, Ruleset};
use crate::error::CompileError;
use crate::model::{Direction, GroupId, ListId, PortId, SetId, Vni};
use crate::places::Edit;
use crate::program::Program;
use crate::shards::Slot;
use crate::tags;

impl Change<'_> {
    /// What goes is named no more.
    pub(super) fn settle_uses(
        &mut self,
        gone_groups: &[GroupId],
        gone_sets: &[SetId],
    ) -> Result<(), CompileError> {
        for (id, by) in &self.group_uses {
            if let Some(named) = self.next.groups.get_mut(id).filter(|_| *by != 0) {
                let named = Arc::make_mut(named);
                named.uses = named.uses.saturating_add_signed(*by);
            }
        }
        for (id, by) in &self.set_uses {
            if let Some(named) = self.next.sets.get_mut(id).filter(|_| *by != 0) {
                let named = Arc::make_mut(named);
                named.uses = named.uses.saturating_add_signed(*by);
            }
        }
        for id in gone_groups {
            let Some(group) = self.next.groups.remove(id) else {
                return Err(CompileError::NotHere {
                    what: format!("group {id}"),
                });
            };
            *self.vpc_uses.entry(group.it.vni).or_default() -= 1;
            if group.uses > 0 {
                return Err(CompileError::StillNamed {
                    what: format!("group {}", group.it.name),
                });
            }
        }
        for id in gone_sets {
            let Some(set) = self.next.sets.remove(id) else {
                return Err(CompileError::NotHere {
                    what: format!("prefix set {id}"),
                });
            };
            *self.vpc_uses.entry(set.it.vni).or_default() -= 1;
            if set.uses > 0 {
                return Err(CompileError::StillNamed {
                    what: format!("prefix set {}", set.it.name),
                });
            }
        }
        Ok(())
    }

    /// VPCs that go are empty.
    pub(super) fn settle_vpcs(&mut self, gone: &[Vni]) -> Result<(), CompileError> {
        for (vni, by) in &self.vpc_uses {
            if let Some(network) = self.next.vpcs.get_mut(vni).filter(|_| *by != 0) {
                let network = Arc::make_mut(network);
                network.uses = network.uses.saturating_add_signed(*by);
            }
        }
        for vni in gone {
            let Some(network) = self.next.vpcs.remove(vni) else {
                return Err(CompileError::NotHere {
                    what: format!("VPC {vni}"),
                });
            };
            // One that is peered goes by way of a new start.
            if network.uses > 0 {
                return Err(CompileError::StillNamed {
                    what: format!("VPC {}", network.vpc.name),
                });
            }
        }
        Ok(())
    }

    /// Prefixes get and lose their tags.
    pub(super) fn settle_places(&mut self) {
        for (vni, set) in core::mem::take(&mut self.touched_sets) {
            let before = named_prefixes(self.old, vni, set);
            let after = named_prefixes(&self.next, vni, set);
            let edits = self.edits.entry(vni).or_default();
            let tag = tags::set(set);
            let edit = |add| {
                move |prefix: &Prefix| Edit {
                    prefix: *prefix,
                    tag,
                    add,
                }
            };
            edits.extend(missing(before, after).map(edit(false)));
            edits.extend(missing(after, before).map(edit(true)));
        }
        for (vni, edits) in core::mem::take(&mut self.edits) {
            if edits.is_empty() {
                continue;
            }
            self.work.prefixes += edits.len();
            if let Some(network) = self.next.vpcs.get_mut(&vni) {
                Arc::make_mut(network).places.edit(&edits);
            }
        }
    }

    /// Ladders of VPCs and ports to which other lists apply; `touched` ports are
    /// new or have other groups.
    pub(super) fn settle_ladders(&mut self, touched: Vec<PortId>) {
        for vni in core::mem::take(&mut self.widened) {
            let Some(network) = self.next.network(vni) else {
                continue;
            };
            let ladder = |way| Ladder::new(programs(&self.next, network.wide.iter().copied()), way);
            let (ingress, egress) = (ladder(Direction::Ingress), ladder(Direction::Egress));
            if let Some(network) = self.next.vpcs.get_mut(&vni).map(Arc::make_mut) {
                network.ingress = ingress;
                network.egress = egress;
            }
        }
        let mut ports: HashSet<PortId, foldhash::fast::FixedState> = touched.into_iter().collect();
        if !self.regrouped.is_empty() && self.old.ports.len() > 0 {
            let regrouped = |port: &Compiled| {
                let mut groups = port.port.groups.iter();
                groups.any(|group| self.regrouped.contains(group))
            };
            let found = self.next.ports.iter().filter(|(_, port)| regrouped(port));
            ports.extend(found.map(|(id, _)| *id));
        }
        self.work.ports += ports.len();
        for id in ports {
            let Some(port) = self.next.compiled(id) else {
                continue;
            };
            let lists = || {
                let groups = port.port.groups.iter();
                let groups = groups.filter_map(|group| self.next.groups.get(group));
                programs(&self.next, groups.flat_map(|g| g.applied.iter().copied()))
            };
            let ingress = Ladder::new(lists(), Direction::Ingress);
            let egress = Ladder::new(lists(), Direction::Egress);
            if let Some(port) = self.next.ports.get_mut(&id).map(Arc::make_mut) {
                port.ingress = ingress;
                port.egress = egress;
            }
        }
    }

    /// Counters that lists have left behind are given away again, when they are many.
    pub(super) fn settle_counters(&mut self) {
        if self.next.counters == self.old.counters {
            return;
        }
        let lengths = self.next.lists().map(|(_, list)| list.rules.len());
        let used: usize = lengths.sum();
        if self.next.counters <= 2 * used + 1024 {
            return;
        }
        self.next.counters = 0;
        let slots: Vec<Slot> = self.next.lists.iter().map(|(_, slot)| *slot).collect();
        for slot in slots {
            if let Some(mut placed) = self.next.programs.get(slot).cloned() {
                placed.counters = self.next.counters;
                self.next.counters += placed.program.list.rules.len();
                self.next.programs.replace(slot, placed);
            }
        }
    }
}

/// The programs of lists, with their places.
fn programs(
    ruleset: &Ruleset,
    lists: impl Iterator<Item = ListId>,
) -> impl Iterator<Item = (Slot, &Program)> {
    lists.filter_map(|id| {
        let slot = *ruleset.lists.get(&id)?;
        Some((slot, ruleset.program(slot)?))
    })
}

/// A set's prefixes, where a VPC's lists name it.
fn named_prefixes(ruleset: &Ruleset, vni: Vni, set: SetId) -> &[Prefix] {
    let network = ruleset.network(vni);
    let is_named = network.is_some_and(|network| network.names_set(set));
    let set = ruleset.set(set).filter(|_| is_named);
    set.map_or(&[], |set| &set.prefixes)
}

/// What of `these` is not in `those`. Both ascend.
fn missing<'a>(these: &'a [Prefix], those: &'a [Prefix]) -> impl Iterator<Item = &'a Prefix> {
    let mut those = those.iter().peekable();
    these.iter().filter(move |prefix| {
        while those.next_if(|other| other < prefix).is_some() {}
        those.peek() != Some(prefix)
    })
}
