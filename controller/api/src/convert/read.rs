//! Messages as documents.

use penstock_policies::document;

use super::Invalid;
use crate::v1;

mod policy;

use policy::{read_group, read_policy};

/// A declared resource as a document. Metadata but the etag and the status are
/// the server's own, and are not part of it.
///
/// # Errors
/// Every enum value that is not in the schema, an absent spec, a peer of none.
pub fn to_document(resource: &v1::Resource) -> Result<document::Resource, Vec<Invalid>> {
    let v1::Resource {
        name,
        spec,
        metadata,
        status: _,
    } = resource;
    let etag = metadata.as_ref().map_or_else(String::new, |metadata| {
        let v1::Metadata {
            uid: _,
            generation: _,
            etag,
            create_time: _,
            update_time: _,
        } = metadata;
        etag.clone()
    });
    let mut wrong = Vec::new();
    let spec = spec.as_ref().map(|spec| read_spec(spec, &mut wrong));
    match spec {
        Some(spec) if wrong.is_empty() => Ok(document::Resource {
            name: name.clone(),
            spec,
            etag,
        }),
        Some(_) => Err(wrong),
        None => Err(vec![Invalid {
            field: "spec".to_owned(),
            message: "is missing".to_owned(),
            suggestion: "set one of tenant, vpc, subnet, port, security_group, policy, prefix_set, peering, node".to_owned(),
        }]),
    }
}

fn read_spec(spec: &v1::resource::Spec, wrong: &mut Vec<Invalid>) -> document::Spec {
    use v1::resource::Spec;
    match spec {
        Spec::Tenant(v1::Tenant { display_name }) => document::Spec::Tenant(document::Tenant {
            display_name: display_name.clone(),
        }),
        Spec::Vpc(v1::Vpc {
            vni,
            cidrs,
            default_action,
        }) => document::Spec::Vpc(document::Vpc {
            vni: *vni,
            cidrs: cidrs.clone(),
            default_action: match v1::Action::try_from(*default_action) {
                Ok(v1::Action::Unspecified) => None,
                Ok(v1::Action::Allow) => Some(document::Action::Allow),
                Ok(v1::Action::Deny) => Some(document::Action::Deny),
                Ok(v1::Action::Reject | v1::Action::Pass) | Err(_) => unknown(
                    wrong,
                    "spec.defaultAction",
                    *default_action,
                    document::Action::ALL,
                    document::Action::word,
                ),
            },
        }),
        Spec::Subnet(v1::Subnet { cidrs, mtu }) => document::Spec::Subnet(document::Subnet {
            cidrs: cidrs.clone(),
            mtu: *mtu,
        }),
        Spec::Port(v1::Port {
            subnet,
            node,
            nic,
            attachment,
            vlan,
            mac,
            ips,
            security_groups,
            labels,
        }) => document::Spec::Port(document::Port {
            subnet: subnet.clone(),
            node: node.clone(),
            nic: *nic,
            attachment: attachment.clone(),
            vlan: *vlan,
            mac: mac.clone(),
            ips: ips.clone(),
            security_groups: security_groups.clone(),
            labels: labels.iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
        }),
        Spec::SecurityGroup(group) => document::Spec::SecurityGroup(read_group(group, wrong)),
        Spec::Policy(policy) => document::Spec::Policy(read_policy(policy, wrong)),
        Spec::PrefixSet(v1::PrefixSet { prefixes }) => {
            document::Spec::PrefixSet(document::PrefixSet {
                prefixes: prefixes.clone(),
            })
        }
        Spec::Peering(v1::Peering { peer }) => {
            document::Spec::Peering(document::Peering { peer: peer.clone() })
        }
        Spec::Node(v1::Node {
            worker_address,
            nics,
        }) => document::Spec::Node(document::Node {
            worker_address: worker_address.clone(),
            nics: nics
                .iter()
                .map(
                    |v1::Nic {
                         device_id,
                         vtep,
                         underlay_mtu,
                     }| document::Nic {
                        device_id: *device_id,
                        vtep: vtep.clone(),
                        underlay_mtu: *underlay_mtu,
                    },
                )
                .collect(),
        }),
    }
}

/// A value that this version of the schema does not have.
fn unknown<T: Copy>(
    wrong: &mut Vec<Invalid>,
    field: &str,
    value: i32,
    all: &[T],
    word: fn(T) -> &'static str,
) -> Option<T> {
    let words: Vec<_> = all.iter().map(|v| word(*v)).collect();
    wrong.push(Invalid {
        field: field.to_owned(),
        message: format!("{value} is no value of this field"),
        suggestion: format!("use one of {}", words.join(", ")),
    });
    None
}
