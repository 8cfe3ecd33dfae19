//! Policy updates and connections, with few values in each field, so that they meet.

use std::net::Ipv4Addr;

use penstock_slowpath_api::v1;

use crate::host::Choices;

/// Interfaces that the host has at first; "vz" it never has.
pub(crate) const INTERFACES: [&str; 4] = ["va", "vb", "vc", "vz"];

const VNIS: [u32; 4] = [7, 7, 8, 0];
const IDS: [u32; 6] = [1, 1, 2, 2, 3, 0];
const PRIORITIES: [u32; 4] = [10, 20, 1000, 70_000];

fn ip(c: &mut Choices<'_>) -> Vec<u8> {
    let v4 = |last| {
        Ipv4Addr::new(10, 0, 0, last)
            .to_ipv6_mapped()
            .octets()
            .to_vec()
    };
    match c.byte() % 16 {
        0..8 => v4(1 + c.byte() % 4),
        8..12 => {
            let mut v6 = vec![0xfd, 0];
            v6.extend([0; 13]);
            v6.push(c.byte() % 4);
            v6
        }
        12 | 13 => v4(254),
        14 => c.some().to_vec(),
        _ => vec![0; 16],
    }
}

fn prefix(c: &mut Choices<'_>) -> v1::Prefix {
    v1::Prefix {
        address: match c.byte() % 4 {
            0..3 => Ipv4Addr::new(10, 0, 0, 0)
                .to_ipv6_mapped()
                .octets()
                .to_vec(),
            _ => ip(c),
        },
        length: c.of(&[120, 120, 120, 128, 96, 0, 129]),
    }
}

fn rule(c: &mut Choices<'_>) -> v1::Rule {
    let peer = |c: &mut Choices<'_>| match c.byte() % 4 {
        0 => v1::peer::Peer::Group(c.of(&IDS)),
        1 => v1::peer::Peer::PrefixSet(c.of(&IDS)),
        _ => v1::peer::Peer::Cidr(v1::Cidr {
            prefix: Some(prefix(c)),
            except: (0..c.byte() % 2).map(|_| prefix(c)).collect(),
        }),
    };
    v1::Rule {
        name: format!("g/rules/{}", c.byte() % 4),
        ingress: c.rarely(2),
        action: c.of(&[4, 4, 4, 1, 2, 3, 0, 9]),
        priority: c.of(&PRIORITIES),
        protocol: match c.byte() % 8 {
            0 | 1 => None,
            2 => Some(v1::rule::Protocol::Roce(!c.rarely(4))),
            _ => Some(v1::rule::Protocol::Number(c.of(&[6, 17, 1, 132, 300]))),
        },
        source_ports: few(c, 1, |c| v1::PortRange {
            first: c.of(&[1024, 0]),
            last: c.of(&[1024, 65_535]),
        }),
        ports: (0..c.byte() % 3)
            .map(|_| v1::PortRange {
                first: c.of(&[80, 1, 0, 70_000]),
                last: c.of(&[80, 90, 0, 70_000]),
            })
            .collect(),
        icmp_type: c.of(&[None, None, None, Some(8), Some(256)]),
        icmp_code: c.of(&[None, None, None, Some(0)]),
        peers: (!c.rarely(3)).then(|| v1::Peers {
            any: few(c, 2, |c| v1::Peer {
                peer: (!c.rarely(8)).then(|| peer(c)),
            }),
        }),
        stateless: c.rarely(4),
        log: c.rarely(4),
    }
}

fn list(c: &mut Choices<'_>) -> v1::List {
    v1::List {
        id: c.of(&IDS),
        vni: c.of(&VNIS),
        name: format!("l{}", c.byte() % 3),
        tier: c.of(&[2, 2, 2, 1, 3, 0]),
        priority: c.of(&PRIORITIES),
        applies: match c.byte() % 4 {
            0 => Some(v1::list::Applies::Vpc(!c.rarely(4))),
            1 if c.rarely(4) => None,
            _ => Some(v1::list::Applies::Groups(v1::Groups {
                ids: few(c, 2, |c| c.of(&IDS)),
            })),
        },
        selects_ingress: c.rarely(2),
        selects_egress: c.rarely(2),
        audit: c.rarely(4),
        on_change: c.of(&[1, 1, 2, 3, 0]),
        rules: few(c, 3, rule),
    }
}

fn mac(c: &mut Choices<'_>) -> Vec<u8> {
    match c.byte() % 8 {
        0..7 => vec![2, 0, 0, 0, 0, c.byte() % 4],
        _ => c.some().to_vec(),
    }
}

fn few<T>(c: &mut Choices<'_>, most: u8, one: impl Fn(&mut Choices<'_>) -> T) -> Vec<T> {
    (0..c.byte() % (most + 1)).map(|_| one(c)).collect()
}

/// A snapshot or a delta that leads from `current` on, unless chosen otherwise.
pub(crate) fn update(c: &mut Choices<'_>, current: u64) -> v1::PolicyUpdate {
    let delta = current > 0 && c.rarely(2);
    let base = if c.rarely(8) {
        u64::from(c.byte())
    } else {
        current
    };
    let generation = match c.byte() % 8 {
        0..6 => current.saturating_add(1),
        6 => current,
        _ => u64::from(c.byte()),
    };
    let update = v1::PolicyUpdate {
        generation,
        base_generation: if delta { base } else { 0 },
        vpcs: few(c, 2, |c| v1::Vpc {
            vni: c.of(&VNIS),
            name: "v".into(),
            default_allow: c.rarely(2),
            peers: few(c, 1, |c| c.of(&VNIS)),
        }),
        subnets: few(c, 2, |c| v1::Subnet {
            id: c.of(&IDS),
            vni: c.of(&VNIS),
            name: "s".into(),
            prefixes: few(c, 2, prefix),
            gateways: few(c, 2, ip),
            mtu: c.of(&[1450, 1500, 0, 70_000]),
        }),
        groups: few(c, 2, |c| v1::Group {
            id: c.of(&IDS),
            vni: c.of(&VNIS),
            name: "g".into(),
        }),
        prefix_sets: few(c, 1, |c| v1::PrefixSet {
            id: c.of(&IDS),
            vni: c.of(&VNIS),
            name: "s".into(),
            prefixes: few(c, 2, prefix),
        }),
        lists: few(c, 2, list),
        ports: few(c, 3, |c| v1::Port {
            id: c.of(&IDS),
            vni: c.of(&VNIS),
            name: format!("p{}", c.byte() % 3),
            subnet: c.of(&IDS),
            device_id: c.of(&[1, 1, 2, 3]),
            attachment: c.of(&INTERFACES).into(),
            vlan: c.of(&[0, 0, 0, 5, 4095]),
            mac: mac(c),
            ips: few(c, 2, ip),
            groups: few(c, 2, |c| c.of(&IDS)),
        }),
        endpoints: few(c, 3, |c| v1::Endpoint {
            key: (!c.rarely(16)).then(|| key(c)),
            mac: mac(c),
            port_id: c.of(&IDS),
            groups: few(c, 2, |c| c.of(&IDS)),
        }),
        vteps: few(c, 2, |c| v1::Vtep {
            address: ip(c),
            node: "n".into(),
        }),
        ..Default::default()
    };
    let update = if delta { deletions(c, update) } else { update };
    if c.rarely(8) {
        c.damage(update)
    } else {
        update
    }
}

fn key(c: &mut Choices<'_>) -> v1::EndpointKey {
    v1::EndpointKey {
        vni: c.of(&VNIS),
        ip: ip(c),
    }
}

fn deletions(c: &mut Choices<'_>, update: v1::PolicyUpdate) -> v1::PolicyUpdate {
    v1::PolicyUpdate {
        deleted_vpcs: few(c, 1, |c| c.of(&VNIS)),
        deleted_subnets: few(c, 1, |c| c.of(&IDS)),
        deleted_groups: few(c, 1, |c| c.of(&IDS)),
        deleted_prefix_sets: few(c, 1, |c| c.of(&IDS)),
        deleted_lists: few(c, 1, |c| c.of(&IDS)),
        deleted_ports: few(c, 1, |c| c.of(&IDS)),
        deleted_endpoints: few(c, 1, key),
        deleted_vteps: few(c, 1, ip),
        ..update
    }
}

/// A policy that is good: two ports of one VPC, everything between them allowed.
pub(crate) fn good(generation: u64) -> v1::PolicyUpdate {
    let v4 = |last| {
        Ipv4Addr::new(10, 0, 0, last)
            .to_ipv6_mapped()
            .octets()
            .to_vec()
    };
    let ports = [1_u8, 2].map(|i| v1::Port {
        id: i.into(),
        vni: 7,
        name: format!("p{i}"),
        subnet: 1,
        device_id: 1,
        attachment: INTERFACES[usize::from(i) - 1].into(),
        mac: vec![2, 0, 0, 0, 0, i],
        ips: vec![v4(i)],
        ..Default::default()
    });
    let endpoints = [1_u8, 2].map(|i| v1::Endpoint {
        key: Some(v1::EndpointKey { vni: 7, ip: v4(i) }),
        mac: vec![2, 0, 0, 0, 0, i],
        port_id: i.into(),
        ..Default::default()
    });
    v1::PolicyUpdate {
        generation,
        vpcs: vec![v1::Vpc {
            vni: 7,
            name: "v".into(),
            default_allow: true,
            peers: vec![],
        }],
        subnets: vec![v1::Subnet {
            id: 1,
            vni: 7,
            name: "s".into(),
            prefixes: vec![v1::Prefix {
                address: v4(0),
                length: 120,
            }],
            gateways: vec![v4(254)],
            mtu: 1450,
        }],
        ports: ports.to_vec(),
        endpoints: endpoints.to_vec(),
        ..Default::default()
    }
}

/// A connection as another worker would hand it over.
pub(crate) fn connection(c: &mut Choices<'_>) -> v1::FlowState {
    let side = |c: &mut Choices<'_>| v1::TcpSide {
        next: c.of(&[1000, 0, u32::MAX]),
        acked: c.of(&[1000, 0, u32::MAX]),
        window: c.of(&[65_535, 0, u32::MAX]),
        window_scale: c.of(&[None, Some(7), Some(14), Some(15)]),
        unseen: c.rarely(2),
        fin: c.rarely(4),
        fin_acked: c.rarely(4),
        ..Default::default()
    };
    let tracker = match c.byte() % 4 {
        0..2 => Some(v1::flow_state::Tracker::Tcp(v1::TcpState {
            phase: c.of(&[5, 1, 2, 3, 4, 6, 7, 8, 0]),
            opener: Some(side(c)),
            answerer: Some(side(c)),
            probed: c.rarely(4),
        })),
        2 => Some(v1::flow_state::Tracker::Replied(c.rarely(2))),
        _ => None,
    };
    let state = v1::FlowState {
        port_id: c.of(&IDS),
        vni: c.of(&VNIS),
        key: Some(v1::FlowKey {
            source_ip: ip(c),
            destination_ip: ip(c),
            protocol: c.of(&[6, 17, 1, 300]),
            source_port: c.of(&[1024, 1025, 70_000]),
            destination_port: c.of(&[80, 81, 70_000]),
        }),
        ingress: c.rarely(2),
        peer_port_id: c.of(&[0, 1, 2]),
        tracker,
        idle_ns: c.of(&[0, 1_000_000_000, u64::MAX]),
        slow_packets: c.of(&[3, u64::MAX]),
        rule: "r".into(),
        persists: false,
        ..Default::default()
    };
    if c.rarely(8) { c.damage(state) } else { state }
}
