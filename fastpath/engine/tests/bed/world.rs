//! Who is where: two tenants with the same addresses, on two nodes.

use std::collections::{BTreeMap, BTreeSet};

use penstock_engine::nic::{Entry, Hop};
use penstock_flow::{Addr, Mac, Prefix};
use penstock_rules::model::{
    Applies, Direction, Endpoint, Group, List, Peer, Peers, Policy, Port, Protocol, Rule, Subnet,
    Vpc,
};

pub(crate) const BLUE: u32 = 100;
pub(crate) const RED: u32 = 200;
pub(crate) const GROUP: u32 = 7;

/// A tenant's port.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) name: &'static str,
    pub(crate) id: u32,
    pub(crate) node: usize,
    pub(crate) vni: u32,
    pub(crate) subnet: u32,
    pub(crate) vlan: u16,
    pub(crate) mac: Mac,
    pub(crate) ips: Vec<Addr>,
}

impl Place {
    pub(crate) fn device_port(&self) -> u32 {
        // b and e share one, told apart by their VLANs.
        if self.vlan == 0 { 10 + self.id } else { 50 }
    }

    pub(crate) fn ip(&self, v6: bool) -> Addr {
        self.ips[usize::from(v6)]
    }
}

pub(crate) fn addr(s: &str) -> Addr {
    s.parse::<std::net::IpAddr>().expect("an address").into()
}

pub(crate) fn vtep(node: usize) -> Addr {
    Addr::from_v4([192, 0, 2, 1 + node as u8])
}

pub(crate) fn vtep6(node: usize) -> Addr {
    addr(&format!("2001:db8::{}", 1 + node))
}

pub(crate) fn uplink_mac(node: usize) -> Mac {
    Mac([0x02, 0xaa, 0, 0, 0, node as u8])
}

pub(crate) const UPLINK: u32 = 1;
pub(crate) const DEVICE: u32 = 1;
/// Next hop of a remote node.
pub(crate) fn hop_to(node: usize) -> u32 {
    1000 + node as u32
}

fn place(id: u32, name: &'static str, node: usize, vni: u32, subnet: u32, host: u8) -> Place {
    let net = subnet % 10;
    Place {
        name,
        id,
        node,
        vni,
        subnet,
        vlan: match name {
            "b" => 11,
            "e" => 12,
            _ => 0,
        },
        mac: Mac([0x02, 0x11, 0, vni as u8, subnet as u8, host]),
        ips: vec![
            Addr::from_v4([10, 0, net as u8, host]),
            addr(&format!("fd00:{net}::{host}")),
        ],
    }
}

/// a and b: one subnet, one node. c: that subnet, the other node. d, e: another
/// subnet. x, y: another tenant, with the addresses of a and c.
pub(crate) fn places() -> Vec<Place> {
    vec![
        place(1, "a", 0, BLUE, 1, 10),
        place(2, "b", 0, BLUE, 1, 11),
        place(3, "c", 1, BLUE, 1, 12),
        place(4, "d", 1, BLUE, 2, 10),
        place(5, "e", 0, BLUE, 2, 11),
        place(6, "x", 0, RED, 21, 10),
        place(7, "y", 1, RED, 21, 12),
    ]
}

fn prefix(s: &str, len: u8) -> Prefix {
    Prefix::new(addr(s), len).expect("a prefix")
}

pub(crate) fn gateway(subnet: u32, v6: bool) -> Addr {
    let net = subnet % 10;
    if v6 {
        addr(&format!("fd00:{net}::1"))
    } else {
        Addr::from_v4([10, 0, net as u8, 1])
    }
}

/// A rule of the group `GROUP`.
pub(crate) fn rule(
    name: &str,
    direction: Direction,
    protocol: Option<u8>,
    ports: &[(u16, u16)],
    peers: Vec<Peer>,
) -> Rule {
    Rule {
        protocol: protocol.map(Protocol::Number),
        ports: ports.to_vec(),
        peers: if peers.is_empty() {
            Peers::Everyone
        } else {
            Peers::Any(peers)
        },
        ..Rule::allow(format!("group/rules/{name}"), direction)
    }
}

/// A group's list, for [`put_group`].
pub(crate) fn group(vni: u32, ingress: bool, egress: bool, rules: Vec<Rule>) -> List {
    List {
        selects_ingress: ingress,
        selects_egress: egress,
        rules,
        ..List::of_group("group".into(), vni, 0)
    }
}

/// Puts a group into a policy, with its list under the same id.
pub(crate) fn put_group(policy: &mut Policy, id: u32, list: List) {
    let group = Group {
        name: list.name.clone(),
        vni: list.vni,
    };
    policy.groups.insert(id, group);
    let applies = Applies::Groups(vec![id]);
    policy.lists.insert(id, List { applies, ..list });
}

/// What the controller tells `node`; nothing is closed.
pub(crate) fn policy(node: usize, places: &[Place]) -> Policy {
    let mut policy = Policy {
        generation: 1,
        ..Policy::default()
    };
    for (vni, name) in [(BLUE, "blue"), (RED, "red")] {
        policy.vpcs.insert(
            vni,
            Vpc {
                name: name.into(),
                default_allow: true,
                peers: BTreeSet::new(),
            },
        );
    }
    for (id, vni) in [(1, BLUE), (2, BLUE), (21, RED)] {
        let net = id % 10;
        policy.subnets.insert(
            id,
            Subnet {
                name: format!("subnet{id}"),
                vni,
                prefixes: vec![
                    prefix(&format!("10.0.{net}.0"), 120),
                    prefix(&format!("fd00:{net}::"), 64),
                ],
                gateways: vec![gateway(id, false), gateway(id, true)],
                mtu: 1450,
            },
        );
    }
    for p in places {
        if p.node == node {
            policy.ports.insert(
                p.id,
                Port {
                    name: p.name.into(),
                    vni: p.vni,
                    subnet: p.subnet,
                    device_id: DEVICE,
                    attachment: p.name.into(),
                    vlan: p.vlan,
                    mac: p.mac,
                    ips: p.ips.clone(),
                    groups: vec![],
                },
            );
        }
        for ip in &p.ips {
            policy.endpoints.insert(
                (p.vni, *ip),
                Endpoint {
                    mac: p.mac,
                    port: p.id,
                    groups: vec![],
                },
            );
        }
    }
    policy.vteps = (0..2)
        .filter(|n| *n != node)
        .map(|n| (vtep(n), format!("node{n}")))
        .collect::<BTreeMap<_, _>>();
    policy
}

/// The tables that the controller writes for `node`.
pub(crate) fn entries(node: usize, places: &[Place], vtep: fn(usize) -> Addr) -> Vec<Entry> {
    let mut entries = Vec::new();
    for other in (0..2).filter(|n| *n != node) {
        for vni in [BLUE, RED] {
            entries.push(Entry::Underlay {
                src_vtep: vtep(other),
                dst_vtep: vtep(node),
                vni,
                decap_vni: vni,
            });
        }
    }
    for p in places {
        if p.node == node {
            entries.push(Entry::Vport {
                device_port: p.device_port(),
                vlan: p.vlan,
                port_id: p.id,
                vni: p.vni,
            });
            entries.push(Entry::Nexthop {
                id: p.id,
                hop: Hop::ToPort {
                    device_port: p.device_port(),
                    vlan: p.vlan,
                    dst_mac: p.mac,
                },
            });
            for ip in &p.ips {
                entries.push(Entry::SpoofGuard {
                    port_id: p.id,
                    mac: p.mac,
                    ip: *ip,
                });
            }
        } else {
            // One for each VPC: it names the VNI.
            let id = hop_to(p.node) + p.vni;
            let hop = Hop::ToVtep {
                src_vtep: vtep(node),
                dst_vtep: vtep(p.node),
                src_mac: uplink_mac(node),
                dst_mac: Mac::default(),
                vni: p.vni,
                mtu: 1450,
                device_port: UPLINK,
            };
            let entry = Entry::Nexthop { id, hop };
            if !entries.contains(&entry) {
                entries.push(entry);
            }
        }
        for ip in &p.ips {
            entries.push(Entry::Mapping {
                vni: p.vni,
                dst: Prefix::new(*ip, 128).expect("a host"),
                nexthop: if p.node == node {
                    p.id
                } else {
                    hop_to(p.node) + p.vni
                },
            });
        }
    }
    entries
}
