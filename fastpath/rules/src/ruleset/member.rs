//! Who has an address.

use alloc::sync::Arc;
use alloc::vec::Vec;

use penstock_flow::Mac;

use crate::model::{Endpoint, GroupId, PortId};

/// Who has an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Answers ARP and ND.
    pub mac: Mac,
    /// Whose address it is.
    pub port: PortId,
    groups: Groups,
}

/// Groups, ascending: a few stand where the member is found, for a judgement would
/// have to wait for them.
#[derive(Clone, Debug)]
pub(super) enum Groups {
    Few(u8, [GroupId; FEW]),
    Many(Arc<[GroupId]>),
}

const FEW: usize = 3;

impl Member {
    pub(super) fn new(endpoint: &Endpoint, groups: &[GroupId]) -> Self {
        let mut few = [0; FEW];
        let groups = match few.get_mut(..groups.len()) {
            Some(place) => {
                place.copy_from_slice(groups);
                // There are three at most.
                Groups::Few(groups.len() as u8, few)
            }
            None => Groups::Many(Arc::from(groups)),
        };
        Self {
            mac: endpoint.mac,
            port: endpoint.port,
            groups,
        }
    }

    /// Its groups, ascending.
    #[must_use]
    pub fn groups(&self) -> &[GroupId] {
        self.groups.all()
    }

    pub(super) const fn shared_groups(&self) -> &Groups {
        &self.groups
    }

    pub(super) fn endpoint(&self) -> Endpoint {
        Endpoint {
            mac: self.mac,
            port: self.port,
            groups: Vec::from(self.groups()),
        }
    }
}

impl Groups {
    #[inline]
    pub(super) fn all(&self) -> &[GroupId] {
        match self {
            Self::Few(len, groups) => groups.get(..usize::from(*len)).unwrap_or(&[]),
            Self::Many(groups) => groups,
        }
    }
}

impl PartialEq for Groups {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Few(a, these), Self::Few(b, those)) => (a, these) == (b, those),
            (Self::Many(these), Self::Many(those)) => Arc::ptr_eq(these, those) || these == those,
            _ => false,
        }
    }
}

impl Eq for Groups {}
