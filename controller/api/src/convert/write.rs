//! Documents as messages.

use penstock_policies::document;

use crate::v1;

mod policy;

pub use policy::write_protocol;
use policy::{write_group, write_policy};

/// A document as a message for Apply.
#[must_use]
pub fn from_document(resource: &document::Resource) -> v1::Resource {
    let document::Resource { name, spec, etag } = resource;
    v1::Resource {
        name: name.clone(),
        spec: Some(write_spec(spec)),
        metadata: (!etag.is_empty()).then(|| v1::Metadata {
            etag: etag.clone(),
            ..v1::Metadata::default()
        }),
        status: None,
    }
}

fn write_spec(spec: &document::Spec) -> v1::resource::Spec {
    use v1::resource::Spec;
    match spec {
        document::Spec::Tenant(document::Tenant { display_name }) => Spec::Tenant(v1::Tenant {
            display_name: display_name.clone(),
        }),
        document::Spec::Vpc(document::Vpc {
            vni,
            cidrs,
            default_action,
        }) => Spec::Vpc(v1::Vpc {
            vni: *vni,
            cidrs: cidrs.clone(),
            default_action: match default_action {
                None => v1::Action::Unspecified,
                Some(document::Action::Allow) => v1::Action::Allow,
                Some(document::Action::Deny) => v1::Action::Deny,
            }
            .into(),
        }),
        document::Spec::Subnet(document::Subnet { cidrs, mtu }) => Spec::Subnet(v1::Subnet {
            cidrs: cidrs.clone(),
            mtu: *mtu,
        }),
        document::Spec::Port(document::Port {
            subnet,
            node,
            nic,
            attachment,
            vlan,
            mac,
            ips,
            security_groups,
            labels,
        }) => Spec::Port(v1::Port {
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
        document::Spec::SecurityGroup(group) => Spec::SecurityGroup(write_group(group)),
        document::Spec::Policy(policy) => Spec::Policy(write_policy(policy)),
        document::Spec::PrefixSet(document::PrefixSet { prefixes }) => {
            Spec::PrefixSet(v1::PrefixSet {
                prefixes: prefixes.clone(),
            })
        }
        document::Spec::Peering(document::Peering { peer }) => {
            Spec::Peering(v1::Peering { peer: peer.clone() })
        }
        document::Spec::Node(document::Node {
            worker_address,
            nics,
        }) => Spec::Node(v1::Node {
            worker_address: worker_address.clone(),
            nics: nics
                .iter()
                .map(
                    |document::Nic {
                         device_id,
                         vtep,
                         underlay_mtu,
                     }| v1::Nic {
                        device_id: *device_id,
                        vtep: vtep.clone(),
                        underlay_mtu: *underlay_mtu,
                    },
                )
                .collect(),
        }),
    }
}
