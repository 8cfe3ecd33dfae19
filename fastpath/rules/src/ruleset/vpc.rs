//! What the lists of one VPC share.

use alloc::vec::Vec;

use hashbrown::HashMap;
use penstock_flow::Prefix;

use super::Ladder;
use crate::holes::Holes;
use crate::model::{Direction, ListId, SetId, Vpc};
use crate::places::{Edit, Places};
use crate::shards::Shards;
use crate::tags::{self, Tag};

/// A VPC, compiled.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    pub(crate) vpc: Vpc,
    /// How many objects belong to it.
    pub(super) uses: u64,
    /// Where the CIDRs and sets lie that its lists name.
    pub(crate) places: Places,
    /// Each CIDR that its lists name, with how often.
    cidrs: Shards<(Prefix, Holes), (Tag, u64)>,
    next_cidr: u64,
    /// How often its lists name a set.
    sets: HashMap<SetId, u64, foldhash::fast::FixedState>,
    /// The lists that apply to every port, ascending.
    pub(super) wide: Vec<ListId>,
    pub(super) ingress: Ladder,
    pub(super) egress: Ladder,
}

impl Network {
    pub(super) fn new(vpc: Vpc) -> Self {
        Self {
            vpc,
            uses: 0,
            places: Places::default(),
            cidrs: Shards::default(),
            next_cidr: 0,
            sets: HashMap::default(),
            wide: Vec::new(),
            ingress: Ladder::default(),
            egress: Ladder::default(),
        }
    }

    /// The lists that apply to every port.
    #[inline]
    pub(crate) const fn ladder(&self, direction: Direction) -> &Ladder {
        match direction {
            Direction::Ingress => &self.ingress,
            Direction::Egress => &self.egress,
        }
    }

    /// A list names a CIDR: its tag, which is a new one where nobody named it before.
    pub(super) fn name_cidr(
        &mut self,
        prefix: Prefix,
        except: &[Prefix],
        edits: &mut Vec<Edit>,
    ) -> Tag {
        let key = (prefix, Holes::new(prefix, except));
        if let Some((tag, uses)) = self.cidrs.get_mut(&key) {
            *uses += 1;
            return *tag;
        }
        let tag = tags::cidr(self.next_cidr, !key.1.is_empty());
        self.next_cidr += 1;
        if !key.1.is_empty() {
            self.places.set_holes(tag, Some(key.1.clone()));
        }
        self.cidrs.insert(key, (tag, 1));
        let add = true;
        edits.push(Edit { prefix, tag, add });
        tag
    }

    /// A list that named a CIDR is gone.
    pub(super) fn forget_cidr(&mut self, prefix: Prefix, except: &[Prefix], edits: &mut Vec<Edit>) {
        let key = (prefix, Holes::new(prefix, except));
        let Some((tag, uses)) = self.cidrs.get_mut(&key) else {
            return;
        };
        *uses -= 1;
        if *uses > 0 {
            return;
        }
        let tag = *tag;
        self.cidrs.remove(&key);
        self.places.set_holes(tag, None);
        let add = false;
        edits.push(Edit { prefix, tag, add });
    }

    /// A list names a set once more; whether it is the first to do so.
    pub(super) fn name_set(&mut self, set: SetId) -> bool {
        let uses = self.sets.entry(set).or_default();
        *uses += 1;
        *uses == 1
    }

    /// A list names a set no more; whether it was the last to do so.
    pub(super) fn forget_set(&mut self, set: SetId) -> bool {
        let Some(uses) = self.sets.get_mut(&set) else {
            return false;
        };
        *uses -= 1;
        let last = *uses == 0;
        if last {
            self.sets.remove(&set);
        }
        last
    }

    /// Whether its lists name a set.
    pub(super) fn names_set(&self, set: SetId) -> bool {
        self.sets.contains_key(&set)
    }
}
