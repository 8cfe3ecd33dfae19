//! Policies and packets of the size in question, the same in every run.

use penstock_flow::tuple::proto;
use penstock_flow::{Addr, Mac, Prefix};
use penstock_rules::Query;
use penstock_rules::model::{
    Direction, Endpoint, Group, List, Peer, Peers, Policy, Port, PrefixSet, Protocol, Rule, Subnet,
    Vni, Vpc,
};

const VNI: Vni = 7;
/// Rules speak of ports below.
const PORTS: u64 = 1024;

/// Numbers without a pattern that matters (`SplitMix64`).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn id(&mut self, from: u32, n: u32) -> u32 {
        from + (self.next() % u64::from(n)) as u32
    }

    /// Somewhere in 10.0.0.0/8.
    fn addr(&mut self) -> Addr {
        Addr::from_v4((0x0a00_0000 | self.next() as u32 & 0xff_ffff).to_be_bytes())
    }

    /// From a /21 to a single address: of 100 000, an address is in about two.
    fn prefix(&mut self) -> Prefix {
        let bits = self.below(12) as u32;
        let addr = Addr(self.addr().0 >> bits << bits);
        let len = u8::try_from(128 - bits).unwrap_or(128);
        Prefix::new(addr, len).unwrap_or_else(|| unreachable!("no bits are left beyond"))
    }
}

fn base() -> Policy {
    let mut policy = Policy {
        generation: 1,
        ..Policy::default()
    };
    policy.vpcs.insert(
        VNI,
        Vpc {
            name: "tenants/t/vpcs/v".to_owned(),
            default_allow: false,
            peers: [].into(),
        },
    );
    policy.subnets.insert(
        1,
        Subnet {
            name: "tenants/t/vpcs/v/subnets/s".to_owned(),
            vni: VNI,
            prefixes: Vec::new(),
            gateways: Vec::new(),
            mtu: 1500,
        },
    );
    policy
}

fn group_name(id: u32) -> String {
    format!("tenants/t/vpcs/v/securityGroups/group-{id:04}")
}

fn put_group(policy: &mut Policy, id: u32) {
    let name = group_name(id);
    policy.groups.insert(id, Group { name, vni: VNI });
}

/// The list of a group, of so many rules about peers as `peers` makes them.
fn put_list(
    policy: &mut Policy,
    random: &mut Random,
    id: u32,
    rules: u32,
    peers: impl Fn(&mut Random) -> Peers,
) {
    let rules = (0..rules)
        .map(|i| {
            let first = random.below(PORTS) as u16;
            let udp = random.below(3) == 0;
            let direction = if random.below(4) == 0 {
                Direction::Egress
            } else {
                Direction::Ingress
            };
            Rule {
                protocol: Some(Protocol::Number(if udp { proto::UDP } else { proto::TCP })),
                ports: vec![(first, first + random.below(8) as u16)],
                peers: peers(random),
                ..Rule::allow(format!("{}/rules/rule-{i:04}", group_name(id)), direction)
            }
        })
        .collect();
    let list = List {
        selects_ingress: true,
        selects_egress: true,
        rules,
        ..List::of_group(group_name(id), VNI, id)
    };
    policy.lists.insert(id, list);
}

fn put_port(policy: &mut Policy, id: u32, groups: Vec<u32>) {
    let port = Port {
        name: format!("tenants/t/vpcs/v/ports/port-{id:05}"),
        vni: VNI,
        subnet: 1,
        device_id: 1,
        attachment: format!("vf{id}"),
        vlan: 0,
        mac: Mac::GATEWAY,
        ips: Vec::new(),
        groups,
    };
    policy.ports.insert(id, port);
}

fn put_endpoint(policy: &mut Policy, addr: Addr, groups: Vec<u32>) {
    let endpoint = Endpoint {
        mac: Mac::GATEWAY,
        port: 1,
        groups,
    };
    policy.endpoints.insert((VNI, addr), endpoint);
}

fn some(random: &mut Random, from: u32, n: u32, count: usize) -> Vec<u32> {
    let mut ids: Vec<u32> = (0..count).map(|_| random.id(from, n)).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// The address of the `i`th endpoint, below 65 536: 10.1.0.0/16.
fn endpoint_addr(i: u32) -> Addr {
    Addr::from_v4((0x0a01_0000 | i).to_be_bytes())
}

/// Groups 1 to 10 are the port's; 100 to 599 are peers; sets 1000 to 1019.
pub(crate) fn ten_by_thousand() -> Policy {
    let mut policy = base();
    let random = &mut Random(1);
    (1..=10)
        .chain(100..600)
        .for_each(|id| put_group(&mut policy, id));
    for id in 1000..1020 {
        let mut prefixes: Vec<Prefix> = (0..4_500).map(|_| random.prefix()).collect();
        prefixes.sort_unstable();
        prefixes.dedup();
        let name = format!("tenants/t/vpcs/v/prefixSets/set-{id}");
        let set = PrefixSet {
            name,
            vni: VNI,
            prefixes,
        };
        policy.sets.insert(id, set);
    }
    for i in 0..65_536 {
        let groups = some(random, 100, 500, 2);
        put_endpoint(&mut policy, endpoint_addr(i), groups);
    }
    for id in 1..=10 {
        put_list(&mut policy, random, id, 1000, |random| {
            let peers = match random.below(20) {
                0 => return Peers::Everyone,
                1..8 => vec![Peer::Group(random.id(100, 500))],
                8..12 => vec![Peer::Set(random.id(1000, 20))],
                // Two and a half of them a rule make 10 000.
                _ => (0..2 + random.below(2))
                    .map(|_| Peer::Cidr {
                        prefix: random.prefix(),
                        except: Vec::new(),
                    })
                    .collect(),
            };
            Peers::Any(peers)
        });
    }
    put_port(&mut policy, 1, (1..=10).collect());
    policy
}

/// New connections of everyone to port 1.
pub(crate) fn packets(count: usize) -> Vec<Query> {
    let random = &mut Random(2);
    (0..count)
        .map(|_| Query {
            direction: Direction::Ingress,
            port: 1,
            peer: if random.below(2) == 0 {
                endpoint_addr(random.below(65_536) as u32)
            } else {
                random.addr()
            },
            proto: if random.below(3) == 0 {
                proto::UDP
            } else {
                proto::TCP
            },
            sport: random.next() as u16,
            dport: random.below(PORTS) as u16,
        })
        .collect()
}

/// So many groups of so many rules, and a port in the first.
pub(crate) fn groups_of_rules(groups: u32, rules: u32) -> Policy {
    let mut policy = base();
    let random = &mut Random(3);
    (1..=groups).for_each(|id| put_group(&mut policy, id));
    for id in 1..=groups {
        put_list(&mut policy, random, id, rules, |random| {
            Peers::Any(vec![match random.below(2) {
                0 => Peer::Group(random.id(1, groups)),
                _ => Peer::Cidr {
                    prefix: random.prefix(),
                    except: Vec::new(),
                },
            }])
        });
    }
    put_port(&mut policy, 1, vec![1]);
    policy
}

/// 20 000 ports, each with an address and in four of 500 groups of 20 rules.
pub(crate) fn ports_and_groups() -> Policy {
    let mut policy = base();
    let random = &mut Random(4);
    (1..=500).for_each(|id| put_group(&mut policy, id));
    for id in 1..=500 {
        put_list(&mut policy, random, id, 20, |random| {
            Peers::Any(vec![match random.below(2) {
                0 => Peer::Group(random.id(1, 500)),
                _ => Peer::Cidr {
                    prefix: random.prefix(),
                    except: Vec::new(),
                },
            }])
        });
    }
    for id in 1..=20_000 {
        let groups = some(random, 1, 500, 4);
        put_endpoint(&mut policy, endpoint_addr(id), groups.clone());
        put_port(&mut policy, 100_000 + id, groups);
    }
    policy
}
