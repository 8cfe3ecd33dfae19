//! From the model to the wire schema: the snapshot that leads to a policy.

use penstock_flow::{Addr, Prefix};
use penstock_rules::model::{Direction, Group, Peer, Policy, Port, Rule, Subnet, Vpc};
use penstock_slowpath_api::v1;

/// The snapshot of `policy`; [`decode::snapshot`](super::decode::snapshot) undoes it.
#[must_use]
pub fn snapshot(policy: &Policy) -> v1::PolicyUpdate {
    let Policy {
        generation,
        vpcs,
        subnets,
        groups,
        ports,
        endpoints,
        vteps,
    } = policy;
    v1::PolicyUpdate {
        generation: *generation,
        vpcs: vpcs.iter().map(|(id, v)| vpc(*id, v)).collect(),
        subnets: subnets.iter().map(|(id, s)| subnet(*id, s)).collect(),
        groups: groups.iter().map(|(id, g)| group(*id, g)).collect(),
        ports: ports.iter().map(|(id, p)| port(*id, p)).collect(),
        endpoints: endpoints
            .iter()
            .map(|((vni, ip), e)| v1::Endpoint {
                key: Some(v1::EndpointKey {
                    vni: *vni,
                    ip: bytes(*ip),
                }),
                mac: e.mac.0.to_vec(),
                port_id: e.port,
                groups: e.groups.clone(),
            })
            .collect(),
        vteps: vteps
            .iter()
            .map(|(address, node)| v1::Vtep {
                address: bytes(*address),
                node: node.clone(),
            })
            .collect(),
        ..v1::PolicyUpdate::default()
    }
}

/// Sixteen bytes in network order.
#[must_use]
pub fn bytes(addr: Addr) -> Vec<u8> {
    addr.octets().to_vec()
}

fn vpc(vni: u32, vpc: &Vpc) -> v1::Vpc {
    v1::Vpc {
        vni,
        name: vpc.name.clone(),
        default_allow: vpc.default_allow,
    }
}

fn subnet(id: u32, subnet: &Subnet) -> v1::Subnet {
    v1::Subnet {
        id,
        vni: subnet.vni,
        name: subnet.name.clone(),
        prefixes: subnet.prefixes.iter().map(|p| prefix(*p)).collect(),
        gateways: subnet.gateways.iter().map(|a| bytes(*a)).collect(),
        mtu: subnet.mtu.into(),
    }
}

fn prefix(prefix: Prefix) -> v1::Prefix {
    v1::Prefix {
        address: bytes(prefix.addr()),
        length: prefix.len().into(),
    }
}

fn group(id: u32, group: &Group) -> v1::Group {
    v1::Group {
        id,
        vni: group.vni,
        name: group.name.clone(),
        selects_ingress: group.selects_ingress,
        selects_egress: group.selects_egress,
        rules: group.rules.iter().map(rule).collect(),
    }
}

fn rule(rule: &Rule) -> v1::Rule {
    v1::Rule {
        name: rule.name.clone(),
        ingress: rule.direction == Direction::Ingress,
        protocol: rule.protocol.map(u32::from),
        ports: rule
            .ports
            .iter()
            .map(|(first, last)| v1::PortRange {
                first: (*first).into(),
                last: (*last).into(),
            })
            .collect(),
        icmp_type: rule.icmp_type.map(u32::from),
        icmp_code: rule.icmp_code.map(u32::from),
        peers: rule.peers.iter().map(peer).collect(),
    }
}

fn peer(peer: &Peer) -> v1::Peer {
    let peer = match peer {
        Peer::Group(id) => v1::peer::Peer::Group(*id),
        Peer::Cidr { prefix: p, except } => v1::peer::Peer::Cidr(v1::Cidr {
            prefix: Some(prefix(*p)),
            except: except.iter().map(|p| prefix(*p)).collect(),
        }),
    };
    v1::Peer { peer: Some(peer) }
}

fn port(id: u32, port: &Port) -> v1::Port {
    v1::Port {
        id,
        vni: port.vni,
        name: port.name.clone(),
        subnet: port.subnet,
        device_id: port.device_id,
        attachment: port.attachment.clone(),
        vlan: port.vlan.into(),
        mac: port.mac.0.to_vec(),
        ips: port.ips.iter().map(|a| bytes(*a)).collect(),
        groups: port.groups.clone(),
    }
}
