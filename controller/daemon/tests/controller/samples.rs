//! Resources to declare.

use penstock_api::v1;
use penstock_api::v1::resource::Spec;

pub const VPC: &str = "tenants/blue/vpcs/main";

fn resource(name: &str, spec: Spec) -> v1::Resource {
    v1::Resource {
        name: name.to_owned(),
        spec: Some(spec),
        metadata: None,
        status: None,
    }
}

pub fn tenant(name: &str) -> v1::Resource {
    let tenant = v1::Tenant {
        display_name: name.to_owned(),
    };
    resource(&format!("tenants/{name}"), Spec::Tenant(tenant))
}

pub fn vpc(name: &str, vni: u32) -> v1::Resource {
    let vpc = v1::Vpc {
        vni,
        cidrs: vec!["10.0.0.0/8".to_owned(), "fd00::/16".to_owned()],
        default_action: v1::Action::Deny.into(),
    };
    resource(name, Spec::Vpc(vpc))
}

pub fn subnet(name: &str, cidr: &str) -> v1::Resource {
    let subnet = v1::Subnet {
        cidrs: vec![cidr.to_owned()],
        mtu: 0,
    };
    resource(name, Spec::Subnet(subnet))
}

/// A node with NICs 1 to `nics`.
pub fn node(name: &str, number: u8, address: &str, nics: u8) -> v1::Resource {
    let nics = (1..=nics)
        .map(|device_id| v1::Nic {
            device_id: device_id.into(),
            vtep: vtep(number, device_id),
            underlay_mtu: 0,
        })
        .collect();
    let node = v1::Node {
        worker_address: address.to_owned(),
        nics,
    };
    resource(&format!("nodes/{name}"), Spec::Node(node))
}

pub fn vtep(node: u8, device_id: u8) -> String {
    format!("192.168.{device_id}.{node}")
}

/// A port in the subnet `VPC/subnets/front`, in the group `web`.
pub fn port(number: u16, node: &str) -> v1::Resource {
    let [high, low] = number.to_be_bytes();
    let port = v1::Port {
        subnet: "front".to_owned(),
        node: node.to_owned(),
        attachment: format!("veth{number}"),
        mac: format!("02:00:00:00:{high:02x}:{low:02x}"),
        ips: vec![ip(number)],
        security_groups: vec!["web".to_owned()],
        ..Default::default()
    };
    resource(&port_name(number), Spec::Port(port))
}

/// The address of [`port`]: the first ones of a subnet are not for ports.
pub fn ip(number: u16) -> String {
    let [high, low] = (number + 10).to_be_bytes();
    format!("10.1.{high}.{low}")
}

pub fn port_name(number: u16) -> String {
    format!("{VPC}/ports/p{number}")
}

pub fn with_port(mut resource: v1::Resource, change: impl FnOnce(&mut v1::Port)) -> v1::Resource {
    let Some(Spec::Port(port)) = &mut resource.spec else {
        panic!("not a port");
    };
    change(port);
    resource
}

/// Allows TCP to `ports` from members of itself.
pub fn group(name: &str, ports: &[u32]) -> v1::Resource {
    let rule = v1::Rule {
        name: "in".to_owned(),
        direction: v1::Direction::Ingress.into(),
        protocol: v1::Protocol::Tcp.into(),
        ports: ports
            .iter()
            .map(|port| v1::PortRange {
                first: *port,
                last: *port,
            })
            .collect(),
        peers: vec![v1::Peer {
            peer: Some(v1::peer::Peer::SecurityGroup(name.to_owned())),
        }],
        ..Default::default()
    };
    let out = v1::Rule {
        name: "out".to_owned(),
        direction: v1::Direction::Egress.into(),
        ..Default::default()
    };
    let group = v1::SecurityGroup {
        rules: vec![rule, out],
        ..Default::default()
    };
    let name = format!("{VPC}/securityGroups/{name}");
    resource(&name, Spec::SecurityGroup(group))
}

/// Tenant, VPC, subnet and group for [`port`].
pub fn ground() -> Vec<v1::Resource> {
    vec![
        tenant("blue"),
        vpc(VPC, 7001),
        subnet(&format!("{VPC}/subnets/front"), "10.1.0.0/16"),
        group("web", &[80]),
    ]
}
