//! Numbers that go from one VPC to another.
//!
//! Nodes do not change at the same moment. Were a VPC to get in one request the VNI that
//! another gives up there, packets on the wire between a node that has changed and one
//! that has not would be taken for the other VPC's, maybe another tenant's.

use std::collections::BTreeMap;
use std::sync::Arc;

use penstock_api::v1::resource::Spec;
use penstock_policies::model::Model;

use crate::validated::Problem;
use crate::world::Row;

/// VPCs among `changed` that take a VNI which in `before` is another's.
pub(super) fn taken_over(before: &Model, changed: &[Arc<Row>]) -> Vec<Problem> {
    let vpcs: Vec<_> = changed
        .iter()
        .filter_map(|row| match &row.resource.spec {
            Some(Spec::Vpc(vpc)) => Some((row.name(), vpc.vni)),
            _ => None,
        })
        .collect();
    if vpcs.is_empty() {
        return Vec::new();
    }
    let owners: BTreeMap<u32, &str> = before
        .vpcs
        .iter()
        .map(|(name, vpc)| (vpc.vni, name.as_str()))
        .collect();
    let taken = vpcs.into_iter().filter_map(|(name, vni)| {
        let owner = owners.get(&vni).filter(|owner| **owner != name)?;
        Some(Problem {
            name: name.to_owned(),
            field: "spec.vni".to_owned(),
            message: format!(
                "{vni} is {owner}'s until now, and nodes do not change at the same moment; \
                 give that VPC its new number first, wait until it is Programmed, then apply this"
            ),
        })
    });
    taken.collect()
}
