//! What a node judges by, and the stream that keeps it up to date.

use penstock_rules::model::Policy;

mod link;

pub(crate) use link::{Link, LinkError};

/// Whether two policies say the same, whatever their generations.
pub(crate) fn same(old: &Policy, new: &Policy) -> bool {
    let Policy {
        generation: _,
        vpcs,
        subnets,
        groups,
        sets,
        lists,
        ports,
        endpoints,
        vteps,
    } = old;
    *vpcs == new.vpcs
        && *subnets == new.subnets
        && *groups == new.groups
        && *sets == new.sets
        && *lists == new.lists
        && *ports == new.ports
        && *endpoints == new.endpoints
        && *vteps == new.vteps
}
