//! Lists as they come and go: what they name, and what they name it by.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::apply::Change;
use super::{Network, Placed};
use crate::error::CompileError;
use crate::model::{Applies, GroupId, List, ListId, Peer, SetId, Vni};
use crate::program::{Program, named};
use crate::service;
use crate::tags;

/// Rules in a list: their ranks are below the rank that means none.
const RULES: usize = 65_535;

impl Change<'_> {
    /// A list comes, or is another one now.
    pub(super) fn put_list(&mut self, id: ListId, list: List) -> Result<(), CompileError> {
        self.check_list(&list)?;
        let list = Arc::new(list);
        let (vni, rules) = (list.vni, list.rules.len());
        let edits = self.edits.entry(vni).or_default();
        let network = self.next.vpcs.get_mut(&vni).map(Arc::make_mut);
        let network = network.ok_or_else(|| CompileError::UnknownVpc {
            what: format!("list {}", list.name),
            vni,
        })?;
        let program = Program::new(id, Arc::clone(&list), |peer| match peer {
            Peer::Cidr { prefix, except } => network.name_cidr(*prefix, except, edits),
            Peer::Group(group) => tags::group(*group),
            Peer::Set(set) => tags::set(*set),
        });
        self.work.lists += 1;
        self.work.services += program.services();
        self.count(&list, 1);
        let slot = self.next.lists.get(&id).copied();
        let before = slot.and_then(|slot| self.next.programs.get(slot).cloned());
        let counters = match &before {
            Some(before) if before.program.list.rules.len() == rules => before.counters,
            _ => {
                self.next.counters += rules;
                self.next.counters - rules
            }
        };
        let placed = Placed {
            program: Arc::new(program),
            counters,
        };
        match slot {
            Some(slot) => self.next.programs.replace(slot, placed),
            None => {
                let slot = self.next.programs.add(placed);
                self.next.lists.insert(id, slot);
            }
        }
        let before = before.map(|before| Arc::clone(&before.program.list));
        if let Some(before) = &before {
            self.forget(before);
        }
        if before
            .as_ref()
            .is_none_or(|before| !same_shape(before, &list))
        {
            if let Some(before) = &before {
                self.unapply(id, before);
            }
            self.reapply(id, &list);
        }
        Ok(())
    }

    pub(super) fn remove_list(&mut self, id: ListId) -> Result<(), CompileError> {
        let slot = self.next.lists.remove(&id);
        let placed = slot.and_then(|slot| self.next.programs.get(slot).cloned());
        let (Some(slot), Some(placed)) = (slot, placed) else {
            return Err(CompileError::NotHere {
                what: format!("list {id}"),
            });
        };
        self.next.programs.free(slot);
        self.forget(&placed.program.list);
        self.unapply(id, &placed.program.list);
        Ok(())
    }

    fn check_list(&self, list: &List) -> Result<(), CompileError> {
        let rules = list.rules.len();
        if rules > RULES {
            return Err(CompileError::TooManyRules {
                list: list.name.clone(),
                rules,
            });
        }
        let network = self.network(list.vni, &|| format!("list {}", list.name))?;
        if let Applies::Groups(groups) = &list.applies {
            for group in groups {
                self.member_group(*group, list.vni, &|| format!("list {}", list.name))?;
            }
        }
        for rule in &list.rules {
            service::check(rule, list.tier)?;
            for peer in rule.peers.named() {
                let what = || format!("rule {}", rule.name);
                match peer {
                    Peer::Cidr { .. } => {}
                    Peer::Group(id) => self.peer_group(*id, list.vni, network, &what)?,
                    Peer::Set(id) => self.peer_set(*id, list.vni, network, &what)?,
                }
            }
        }
        Ok(())
    }

    fn peer_group(
        &self,
        group: GroupId,
        vni: Vni,
        network: &Network,
        what: &dyn Fn() -> String,
    ) -> Result<(), CompileError> {
        let found = self.next.groups.get(&group).map(|g| g.it.vni);
        match found {
            Some(of) if of == vni || network.vpc.peers.contains(&of) => Ok(()),
            _ => Err(CompileError::UnknownGroup {
                what: what(),
                group,
            }),
        }
    }

    fn peer_set(
        &self,
        set: SetId,
        vni: Vni,
        network: &Network,
        what: &dyn Fn() -> String,
    ) -> Result<(), CompileError> {
        let found = self.next.sets.get(&set).map(|s| s.it.vni);
        match found {
            Some(of) if of == vni || network.vpc.peers.contains(&of) => Ok(()),
            _ => Err(CompileError::UnknownSet { what: what(), set }),
        }
    }

    /// Counts what a list names, once more or once less.
    fn count(&mut self, list: &List, by: i64) {
        *self.vpc_uses.entry(list.vni).or_default() += by;
        if let Applies::Groups(groups) = &list.applies {
            for group in groups {
                *self.group_uses.entry(*group).or_default() += by;
            }
        }
        let peers: Vec<&Peer> = list.rules.iter().flat_map(|r| r.peers.named()).collect();
        for peer in peers.into_iter().filter(|peer| named(peer).is_some()) {
            match peer {
                Peer::Group(id) => *self.group_uses.entry(*id).or_default() += by,
                Peer::Set(id) => {
                    *self.set_uses.entry(*id).or_default() += by;
                    let network = self.next.vpcs.get_mut(&list.vni).map(Arc::make_mut);
                    let turned = network.is_some_and(|network| {
                        if by > 0 {
                            network.name_set(*id)
                        } else {
                            network.forget_set(*id)
                        }
                    });
                    if turned {
                        self.touched_sets.insert((list.vni, *id));
                    }
                }
                Peer::Cidr { .. } => {}
            }
        }
    }

    /// A list that is gone, or replaced.
    fn forget(&mut self, list: &List) {
        self.count(list, -1);
        let edits = self.edits.entry(list.vni).or_default();
        let Some(network) = self.next.vpcs.get_mut(&list.vni).map(Arc::make_mut) else {
            return;
        };
        for peer in list.rules.iter().flat_map(|rule| rule.peers.named()) {
            if let Peer::Cidr { prefix, except } = peer {
                network.forget_cidr(*prefix, except, edits);
            }
        }
    }

    fn reapply(&mut self, id: ListId, list: &List) {
        self.applied(id, list, |lists| {
            if let Err(at) = lists.binary_search(&id) {
                lists.insert(at, id);
            }
        });
    }

    fn unapply(&mut self, id: ListId, list: &List) {
        self.applied(id, list, |lists| lists.retain(|other| *other != id));
    }

    fn applied(&mut self, _: ListId, list: &List, edit: impl Fn(&mut Vec<ListId>)) {
        match &list.applies {
            Applies::Vpc => {
                self.widened.insert(list.vni);
                if let Some(network) = self.next.vpcs.get_mut(&list.vni) {
                    edit(&mut Arc::make_mut(network).wide);
                }
            }
            Applies::Groups(groups) => {
                for group in groups {
                    self.regrouped.insert(*group);
                    if let Some(named) = self.next.groups.get_mut(group) {
                        edit(&mut Arc::make_mut(named).applied);
                    }
                }
            }
        }
    }
}

/// Whether ports' ladders are the same with one as with the other.
fn same_shape(a: &List, b: &List) -> bool {
    let shape = |list: &List| {
        (
            list.tier,
            list.priority,
            list.audit,
            list.selects_ingress,
            list.selects_egress,
        )
    };
    shape(a) == shape(b) && a.applies == b.applies && a.name == b.name
}
