//! What is declared: one node, one VPC, its ports and groups.

use penstock_api::v1;
use penstock_api::v1::resource::Spec;
use penstock_flow::Mac;

use crate::frames::{
    CLIENTS, ENDS, FORBIDDEN, SERVER_IP, SERVER_MAC, client_ip, client_mac, client_vlan,
};
use crate::ports;

/// The node's name.
pub(super) const NODE: &str = "node-1";
const VPC: &str = "tenants/bench/vpcs/main";
const TRUSTED: &str = "trusted";
const CLIENT: &str = "client";
const SERVICE: &str = "service";

/// All resources, for a worker at this address.
pub(super) fn everything(worker: &str) -> Vec<v1::Resource> {
    let mut resources = vec![
        resource("tenants/bench", Spec::Tenant(v1::Tenant::default())),
        resource(
            VPC,
            Spec::Vpc(v1::Vpc {
                vni: 1001,
                cidrs: vec!["10.1.0.0/16".to_owned()],
                default_action: v1::Action::Deny.into(),
            }),
        ),
        resource(
            &format!("{VPC}/subnets/s"),
            Spec::Subnet(v1::Subnet {
                cidrs: vec!["10.1.0.0/16".to_owned()],
                mtu: 0,
            }),
        ),
        resource(
            &format!("nodes/{NODE}"),
            Spec::Node(v1::Node {
                worker_address: worker.to_owned(),
                nics: vec![v1::Nic {
                    device_id: 1,
                    vtep: "192.0.2.1".to_owned(),
                    underlay_mtu: 1600,
                }],
            }),
        ),
        group(TRUSTED, v1::Direction::Egress, vec![]),
        group(
            CLIENT,
            v1::Direction::Egress,
            vec![rule("out", v1::Direction::Egress, None)],
        ),
        service(None),
        port(
            "server",
            ports::SERVER,
            0,
            SERVER_MAC,
            SERVER_IP.to_string(),
            &[SERVICE],
        ),
    ];
    resources.extend((0..ENDS).map(|c| client(c, is_member(c))));
    resources
}

/// The declaration with which a client may speak to the server, or may not.
#[must_use]
pub fn permission(of: u32, allowed: bool) -> v1::Resource {
    if is_member(of) {
        client(of, allowed)
    } else {
        service((!allowed).then_some(of))
    }
}

/// By membership, and not by a rule.
const fn is_member(client: u32) -> bool {
    client.is_multiple_of(2) && client != FORBIDDEN
}

/// By a rule of its own.
const fn has_rule(client: u32) -> bool {
    !client.is_multiple_of(2) && client < CLIENTS
}

fn client(client: u32, trusted: bool) -> v1::Resource {
    let groups: &[&str] = if trusted {
        &[CLIENT, TRUSTED]
    } else {
        &[CLIENT]
    };
    port(
        &format!("c{client}"),
        ports::CLIENTS,
        client_vlan(client),
        client_mac(client),
        client_ip(client).to_string(),
        groups,
    )
}

/// The server's group, without the rule of one client.
fn service(without: Option<u32>) -> v1::Resource {
    let members = v1::peer::Peer::SecurityGroup(TRUSTED.to_owned());
    let mut rules = vec![rule("trusted", v1::Direction::Ingress, Some(members))];
    let own = (0..CLIENTS).filter(|c| has_rule(*c) && Some(*c) != without);
    rules.extend(own.map(|c| {
        let peer = v1::peer::Peer::Cidr(v1::Cidr {
            prefix: format!("{}/32", client_ip(c)),
            except: vec![],
        });
        rule(&format!("c{c}"), v1::Direction::Ingress, Some(peer))
    }));
    group(SERVICE, v1::Direction::Ingress, rules)
}

fn rule(name: &str, direction: v1::Direction, peer: Option<v1::peer::Peer>) -> v1::Rule {
    v1::Rule {
        name: name.to_owned(),
        direction: direction.into(),
        protocol: v1::Protocol::Udp.into(),
        peers: peer
            .map(|peer| v1::Peer { peer: Some(peer) })
            .into_iter()
            .collect(),
        ..Default::default()
    }
}

fn group(name: &str, direction: v1::Direction, rules: Vec<v1::Rule>) -> v1::Resource {
    let group = v1::SecurityGroup {
        rules,
        directions: vec![direction.into()],
        ..Default::default()
    };
    resource(
        &format!("{VPC}/securityGroups/{name}"),
        Spec::SecurityGroup(group),
    )
}

fn port(
    name: &str,
    attachment: &str,
    vlan: u32,
    mac: Mac,
    ip: String,
    groups: &[&str],
) -> v1::Resource {
    let port = v1::Port {
        subnet: "s".to_owned(),
        node: NODE.to_owned(),
        nic: 1,
        attachment: attachment.to_owned(),
        vlan,
        mac: mac.to_string(),
        ips: vec![ip],
        security_groups: groups.iter().map(|&g| g.to_owned()).collect(),
        ..Default::default()
    };
    resource(&format!("{VPC}/ports/{name}"), Spec::Port(port))
}

fn resource(name: &str, spec: Spec) -> v1::Resource {
    v1::Resource {
        name: name.to_owned(),
        spec: Some(spec),
        ..Default::default()
    }
}
