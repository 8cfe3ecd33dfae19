//! Numbers for names: the data plane knows ports, subnets, groups, policies and
//! prefix sets by `u32`.

use std::collections::BTreeMap;

use crate::anonymous;
use crate::model::{GroupName, Model, PolicyName, PortName, PrefixSetName, SubnetName};

/// Which number each name has. Whoever keeps it keeps the promise that a
/// number is never given twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ids {
    /// Ports.
    pub ports: BTreeMap<PortName, u32>,
    /// Subnets.
    pub subnets: BTreeMap<SubnetName, u32>,
    /// Security groups.
    pub groups: BTreeMap<GroupName, u32>,
    /// Policies. A group and a policy never share a number.
    pub policies: BTreeMap<PolicyName, u32>,
    /// Prefix sets.
    pub prefix_sets: BTreeMap<PrefixSetName, u32>,
    /// Groups without a resource of their own, by [`crate::anonymous`]'s text. A
    /// named group never has the number of one.
    pub anonymous: BTreeMap<String, u32>,
    /// The last number that was given.
    pub last: u32,
}

/// Every number has been given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("all 4294967295 ids have been given; rebuild the id store")]
pub struct OutOfIds;

impl Ids {
    /// Forgets names that the model does not have, and numbers the new ones.
    ///
    /// # Errors
    /// If no number is left.
    pub fn assign(&mut self, model: &Model) -> Result<(), OutOfIds> {
        let Self {
            ports,
            subnets,
            groups,
            policies,
            prefix_sets,
            anonymous,
            last,
        } = self;
        renew(ports, model.ports.keys(), last)?;
        renew(subnets, model.subnets.keys(), last)?;
        renew(groups, model.groups.keys(), last)?;
        renew(policies, model.policies.keys(), last)?;
        renew(prefix_sets, model.prefix_sets.keys(), last)?;
        renew(anonymous, anonymous::of(model).keys(), last)
    }
}

fn renew<'a, K: Clone + Ord + 'a>(
    ids: &mut BTreeMap<K, u32>,
    names: impl Iterator<Item = &'a K>,
    last: &mut u32,
) -> Result<(), OutOfIds> {
    let mut kept = BTreeMap::new();
    for name in names {
        let id = match ids.remove(name) {
            Some(id) => id,
            None => {
                *last = last.checked_add(1).ok_or(OutOfIds)?;
                *last
            }
        };
        kept.insert(name.clone(), id);
    }
    *ids = kept;
    Ok(())
}
