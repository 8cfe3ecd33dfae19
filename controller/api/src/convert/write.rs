//! Documents as messages.

use penstock_policies::document;

use crate::v1;

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
        document::Spec::SecurityGroup(document::SecurityGroup { rules, directions }) => {
            Spec::SecurityGroup(v1::SecurityGroup {
                rules: rules.iter().map(write_rule).collect(),
                directions: directions
                    .iter()
                    .map(|d| write_direction(Some(*d)).into())
                    .collect(),
            })
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

fn write_rule(rule: &document::Rule) -> v1::Rule {
    let document::Rule {
        name,
        direction,
        protocol,
        ports,
        icmp_type,
        icmp_code,
        peers,
    } = rule;
    v1::Rule {
        name: name.clone(),
        direction: write_direction(*direction).into(),
        protocol: write_protocol(*protocol).into(),
        ports: ports
            .iter()
            .map(|document::PortRange { first, last }| v1::PortRange {
                first: *first,
                last: *last,
            })
            .collect(),
        icmp_type: *icmp_type,
        icmp_code: *icmp_code,
        peers: peers
            .iter()
            .map(
                |document::Peer {
                     cidr,
                     security_group,
                 }| v1::Peer {
                    // Validation refuses a peer of both, which the schema cannot say.
                    peer: match (cidr, security_group) {
                        (Some(document::Cidr { prefix, except }), _) => {
                            Some(v1::peer::Peer::Cidr(v1::Cidr {
                                prefix: prefix.clone(),
                                except: except.clone(),
                            }))
                        }
                        (None, Some(name)) => Some(v1::peer::Peer::SecurityGroup(name.clone())),
                        (None, None) => None,
                    },
                },
            )
            .collect(),
    }
}

const fn write_direction(direction: Option<document::Direction>) -> v1::Direction {
    match direction {
        None => v1::Direction::Unspecified,
        Some(document::Direction::Ingress) => v1::Direction::Ingress,
        Some(document::Direction::Egress) => v1::Direction::Egress,
    }
}

/// A document's protocol in the schema.
#[must_use]
pub const fn write_protocol(protocol: Option<document::Protocol>) -> v1::Protocol {
    match protocol {
        None => v1::Protocol::Unspecified,
        Some(document::Protocol::Any) => v1::Protocol::Any,
        Some(document::Protocol::Tcp) => v1::Protocol::Tcp,
        Some(document::Protocol::Udp) => v1::Protocol::Udp,
        Some(document::Protocol::Icmp) => v1::Protocol::Icmp,
        Some(document::Protocol::Icmpv6) => v1::Protocol::Icmpv6,
    }
}
