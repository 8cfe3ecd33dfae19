//! A policy of one VPC with two ports, as messages.

use std::net::Ipv4Addr;

use penstock_slowpath_api::v1;

pub(crate) const VNI: u32 = 7;
pub(crate) const MAC: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 0xa], [2, 0, 0, 0, 0, 0xb]];
pub(crate) const IP: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
/// Host interfaces of port 1 and port 2.
pub(crate) const INTERFACE: [&str; 2] = ["va", "vb"];

pub(crate) fn bytes(ip: Ipv4Addr) -> Vec<u8> {
    ip.to_ipv6_mapped().octets().to_vec()
}

pub(crate) fn bits(ip: Ipv4Addr) -> u128 {
    ip.to_ipv6_mapped().to_bits()
}

/// An ingress rule for everyone.
pub(crate) fn allow(name: &str, protocol: u32, ports: &[u32]) -> v1::Rule {
    v1::Rule {
        name: format!("g/rules/{name}"),
        ingress: true,
        action: v1::Action::Allow.into(),
        protocol: Some(v1::rule::Protocol::Number(protocol)),
        ports: ports
            .iter()
            .map(|port| v1::PortRange {
                first: *port,
                last: *port,
            })
            .collect(),
        ..Default::default()
    }
}

/// The group of both ports.
pub(crate) fn group() -> v1::Group {
    v1::Group {
        id: 1,
        vni: VNI,
        name: "g".into(),
    }
}

/// Its list: ingress is closed but for `rules`, egress is open.
pub(crate) fn list(rules: Vec<v1::Rule>) -> v1::List {
    v1::List {
        id: 1,
        vni: VNI,
        name: "g".into(),
        tier: v1::Tier::Tenant.into(),
        priority: 1000,
        applies: Some(v1::list::Applies::Groups(v1::Groups { ids: vec![1] })),
        selects_ingress: true,
        selects_egress: false,
        audit: false,
        on_change: v1::OnChange::Reevaluate.into(),
        rules,
    }
}

/// The whole policy.
pub(crate) fn snapshot(generation: u64, rules: Vec<v1::Rule>) -> v1::PolicyUpdate {
    let ports = [0, 1].map(|i| v1::Port {
        id: i as u32 + 1,
        vni: VNI,
        name: format!("ports/{}", INTERFACE[i]),
        subnet: 1,
        device_id: 1,
        attachment: INTERFACE[i].into(),
        vlan: 0,
        mac: MAC[i].to_vec(),
        ips: vec![bytes(IP[i])],
        groups: vec![1],
    });
    let endpoints = [0, 1].map(|i| v1::Endpoint {
        key: Some(v1::EndpointKey {
            vni: VNI,
            ip: bytes(IP[i]),
        }),
        mac: MAC[i].to_vec(),
        port_id: i as u32 + 1,
        groups: vec![1],
    });
    v1::PolicyUpdate {
        generation,
        vpcs: vec![v1::Vpc {
            vni: VNI,
            name: "tenants/t/vpcs/v".into(),
            default_allow: true,
            peers: vec![],
        }],
        subnets: vec![v1::Subnet {
            id: 1,
            vni: VNI,
            name: "subnets/s".into(),
            prefixes: vec![v1::Prefix {
                address: bytes(Ipv4Addr::new(10, 0, 0, 0)),
                length: 96 + 24,
            }],
            gateways: vec![bytes(Ipv4Addr::new(10, 0, 0, 254))],
            mtu: 1450,
        }],
        groups: vec![group()],
        lists: vec![list(rules)],
        ports: ports.to_vec(),
        endpoints: endpoints.to_vec(),
        ..Default::default()
    }
}

/// The same policy with other rules.
pub(crate) fn delta(generation: u64, base: u64, rules: Vec<v1::Rule>) -> v1::PolicyUpdate {
    v1::PolicyUpdate {
        generation,
        base_generation: base,
        lists: vec![list(rules)],
        ..Default::default()
    }
}
