//! Messages as documents.

use penstock_policies::document;

use super::Invalid;
use crate::v1;

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
            suggestion: "set one of tenant, vpc, subnet, port, security_group, node".to_owned(),
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
                Err(e) => unknown(
                    wrong,
                    "spec.defaultAction",
                    e.0,
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
        Spec::SecurityGroup(v1::SecurityGroup { rules, directions }) => {
            document::Spec::SecurityGroup(document::SecurityGroup {
                rules: rules
                    .iter()
                    .enumerate()
                    .map(|(i, rule)| read_rule(rule, &format!("spec.rules[{i}]"), wrong))
                    .collect(),
                directions: directions
                    .iter()
                    .enumerate()
                    .filter_map(|(i, way)| {
                        let field = format!("spec.directions[{i}]");
                        let found = direction(*way, &field, wrong);
                        // In a list, leaving a value out is no way to ask for a default.
                        if *way == 0 {
                            unknown(
                                wrong,
                                &field,
                                0,
                                document::Direction::ALL,
                                document::Direction::word,
                            )
                        } else {
                            found
                        }
                    })
                    .collect(),
            })
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

fn read_rule(rule: &v1::Rule, path: &str, wrong: &mut Vec<Invalid>) -> document::Rule {
    let v1::Rule {
        name,
        direction: way,
        protocol,
        ports,
        icmp_type,
        icmp_code,
        peers,
    } = rule;
    document::Rule {
        name: name.clone(),
        direction: direction(*way, &format!("{path}.direction"), wrong),
        protocol: match v1::Protocol::try_from(*protocol) {
            Ok(v1::Protocol::Unspecified) => None,
            Ok(v1::Protocol::Any) => Some(document::Protocol::Any),
            Ok(v1::Protocol::Tcp) => Some(document::Protocol::Tcp),
            Ok(v1::Protocol::Udp) => Some(document::Protocol::Udp),
            Ok(v1::Protocol::Icmp) => Some(document::Protocol::Icmp),
            Ok(v1::Protocol::Icmpv6) => Some(document::Protocol::Icmpv6),
            Err(e) => {
                let field = format!("{path}.protocol");
                unknown(
                    wrong,
                    &field,
                    e.0,
                    document::Protocol::ALL,
                    document::Protocol::word,
                )
            }
        },
        ports: ports
            .iter()
            .map(|v1::PortRange { first, last }| document::PortRange {
                first: *first,
                last: *last,
            })
            .collect(),
        icmp_type: *icmp_type,
        icmp_code: *icmp_code,
        // A peer of none is refused by validation, with the rest.
        peers: peers
            .iter()
            .map(|v1::Peer { peer }| read_peer(peer.as_ref()))
            .collect(),
    }
}

fn read_peer(peer: Option<&v1::peer::Peer>) -> document::Peer {
    match peer {
        None => document::Peer::default(),
        Some(v1::peer::Peer::Cidr(v1::Cidr { prefix, except })) => document::Peer {
            cidr: Some(document::Cidr {
                prefix: prefix.clone(),
                except: except.clone(),
            }),
            security_group: None,
        },
        Some(v1::peer::Peer::SecurityGroup(name)) => document::Peer {
            cidr: None,
            security_group: Some(name.clone()),
        },
    }
}

fn direction(value: i32, field: &str, wrong: &mut Vec<Invalid>) -> Option<document::Direction> {
    match v1::Direction::try_from(value) {
        Ok(v1::Direction::Unspecified) => None,
        Ok(v1::Direction::Ingress) => Some(document::Direction::Ingress),
        Ok(v1::Direction::Egress) => Some(document::Direction::Egress),
        Err(e) => unknown(
            wrong,
            field,
            e.0,
            document::Direction::ALL,
            document::Direction::word,
        ),
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
