//! A model by chance.

use std::collections::{BTreeMap, BTreeSet};

use penstock_flow::{Addr, Mac, Prefix};
use penstock_policies::explain::Direction;
use penstock_policies::model::{
    AppliesTo, Group, GroupName, Mode, Model, Nic, Node, NodeName, OnChange, Peering, PeeringName,
    Policy, PolicyName, Port, PortName, PrefixSet, PrefixSetName, Selector, Subnet, SubnetName,
    Tenant, TenantName, Term, Test, Tier, Vpc, VpcName,
};

use super::Random;
use super::rules::rules;

/// Two tenants with two VPCs each: two have the same addresses, one is peered with
/// another in force, and one waits for its peer.
///
/// # Panics
/// Never: its names are well formed.
#[must_use]
pub fn model(random: &mut Random) -> Model {
    let mut model = Model::default();
    for node in ["nodes/one", "nodes/two"] {
        let name = NodeName::parse(node).expect("a name");
        model.nodes.insert(name, self::node(node));
    }
    // (VPC, VNI, third octet).
    let vpcs = [
        ("tenants/a/vpcs/x", 10, 0),
        ("tenants/a/vpcs/y", 11, 1),
        ("tenants/b/vpcs/x", 12, 0),
        ("tenants/b/vpcs/z", 13, 2),
    ];
    for (name, vni, net) in vpcs {
        let vpc = VpcName::parse(name).expect("a name");
        let tenant = TenantName::parse(&name[..9]).expect("a name");
        let display_name = String::new();
        model.tenants.insert(tenant, Tenant { display_name });
        let cidrs = vec![v4(net, 0, 24), v6(net, 0, 112)];
        let declared = Vpc {
            vni,
            cidrs: cidrs.clone(),
            default_allow: random.once_in(3),
        };
        model.vpcs.insert(vpc, declared);
        let subnet = SubnetName::parse(&format!("{name}/subnets/s")).expect("a name");
        model.subnets.insert(subnet, Subnet { cidrs, mtu: 1500 });
    }
    let mut peer = |from: &str, to: &str| {
        let name = PeeringName::parse(&format!("{from}/peerings/p")).expect("a name");
        let peer = VpcName::parse(to).expect("a name");
        model.peerings.insert(name, Peering { peer });
    };
    peer("tenants/a/vpcs/x", "tenants/a/vpcs/y");
    peer("tenants/a/vpcs/y", "tenants/a/vpcs/x");
    peer("tenants/b/vpcs/z", "tenants/b/vpcs/x");
    let [x, y] =
        ["tenants/a/vpcs/x", "tenants/a/vpcs/y"].map(|name| VpcName::parse(name).expect("a name"));
    model.peered.insert(x.clone(), BTreeSet::from([y.clone()]));
    model.peered.insert(y, BTreeSet::from([x]));
    for (vpc, _, net) in vpcs {
        groups_and_ports(random, &mut model, vpc, net);
    }
    // Rules may speak of everything that is there by now.
    let groups: Vec<GroupName> = model.groups.keys().cloned().collect();
    for name in groups {
        let mut declared = group(random, &name.vpc());
        declared.rules = rules(
            random,
            &model,
            &name.vpc(),
            Tier::Tenant,
            &declared.directions,
        );
        model.groups.insert(name, declared);
    }
    for (vpc, ..) in vpcs {
        let home = VpcName::parse(vpc).expect("a name");
        for i in 0..random.up_to(5) {
            let name = PolicyName::parse(&format!("{vpc}/policies/p{i}")).expect("a name");
            let declared = policy(random, &model, &home);
            model.policies.insert(name, declared);
        }
    }
    model
}

fn node(name: &str) -> Node {
    let last = name.len() as u8;
    let nic = Nic {
        vtep: Addr::from_v4([192, 0, 2, last + u8::from(name == "nodes/two")]),
        underlay_mtu: 1600,
    };
    Node {
        worker_address: format!("{}:1", name.replace('/', "-")),
        nics: BTreeMap::from([(1, nic)]),
    }
}

fn groups_and_ports(random: &mut Random, model: &mut Model, vpc: &str, net: u8) {
    let mut groups = Vec::new();
    for i in 0..3 {
        let name = GroupName::parse(&format!("{vpc}/securityGroups/g{i}")).expect("a name");
        groups.push(name.clone());
        model
            .groups
            .insert(name.clone(), group(random, &name.vpc()));
    }
    for i in 0..4 {
        let name = PrefixSetName::parse(&format!("{vpc}/prefixSets/s{i}")).expect("a name");
        let prefixes = (0..=random.up_to(5)).map(|_| prefix(random)).collect();
        model.prefix_sets.insert(name, PrefixSet { prefixes });
    }
    for i in 1..=5_u8 {
        let name = PortName::parse(&format!("{vpc}/ports/p{i}")).expect("a name");
        // Near each other: prefixes of /28 to /32 tell them apart.
        let host = 4 * i + random.up_to(1) as u8;
        let mut ips = vec![Addr(v4(net, host, 32).addr().0)];
        if random.once_in(2) {
            ips.push(Addr(v6(net, host, 128).addr().0));
        }
        let node = *random.pick(&["nodes/one", "nodes/two"]);
        let port = Port {
            subnet: SubnetName::parse(&format!("{vpc}/subnets/s")).expect("a name"),
            node: NodeName::parse(node).expect("a name"),
            nic: 1,
            attachment: format!("{}{i}", vpc.replace(['/', 's'], "")),
            vlan: 0,
            mac: Mac([2, 0, 0, net, 0, i]),
            ips,
            groups: random.some(&groups, 2).into_iter().collect(),
            labels: labels(random),
        };
        model.ports.insert(name, port);
    }
}

/// Without rules yet.
fn group(random: &mut Random, vpc: &VpcName) -> Group {
    Group {
        directions: directions(random),
        selector: random.once_in(3).then(|| selector(random, vpc)),
        mode: mode(random),
        on_change: OnChange::default(),
        rules: Vec::new(),
    }
}

fn policy(random: &mut Random, model: &Model, home: &VpcName) -> Policy {
    let tier = *random.pick(&[Tier::Admin, Tier::Tenant, Tier::Baseline]);
    let directions = if tier == Tier::Tenant {
        directions(random)
    } else {
        BTreeSet::new()
    };
    let groups: Vec<_> = model
        .groups
        .keys()
        .filter(|n| n.vpc() == *home)
        .cloned()
        .collect();
    let ports: Vec<_> = model
        .ports
        .keys()
        .filter(|n| n.vpc() == *home)
        .cloned()
        .collect();
    let applies_to = if random.once_in(3) {
        AppliesTo::Vpc
    } else {
        AppliesTo::Some {
            groups: random.some(&groups, 1).into_iter().collect(),
            ports: BTreeSet::from([random.pick(&ports).clone()]),
            selector: random.once_in(2).then(|| selector(random, home)),
        }
    };
    Policy {
        tier,
        priority: if tier == Tier::Tenant {
            1000
        } else {
            random.up_to(2) as u16
        },
        applies_to,
        mode: mode(random),
        on_change: OnChange::default(),
        rules: rules(random, model, home, tier, &directions),
        directions,
    }
}

fn mode(random: &mut Random) -> Mode {
    if random.once_in(5) {
        Mode::Audit
    } else {
        Mode::Enforce
    }
}

fn directions(random: &mut Random) -> BTreeSet<Direction> {
    match random.below(4) {
        0 => BTreeSet::from([Direction::Ingress]),
        1 => BTreeSet::from([Direction::Egress]),
        _ => BTreeSet::from([Direction::Ingress, Direction::Egress]),
    }
}

fn labels(random: &mut Random) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    for key in ["app", "zone"] {
        if !random.once_in(3) {
            labels.insert(key.to_owned(), (*random.pick(&["a", "b"])).to_owned());
        }
    }
    labels
}

/// Ports of a VPC by their labels.
pub(super) fn selector(random: &mut Random, vpc: &VpcName) -> Selector {
    let terms: Vec<Term> = (0..=random.up_to(1))
        .map(|_| {
            let values = BTreeSet::from([(*random.pick(&["a", "b", "c"])).to_owned()]);
            Term {
                key: (*random.pick(&["app", "zone"])).to_owned(),
                test: match random.below(4) {
                    0 => Test::NotIn(values),
                    1 => Test::Exists,
                    2 => Test::DoesNotExist,
                    _ => Test::In(values),
                },
            }
        })
        .collect();
    Selector::new(vpc.clone(), terms)
}

/// Somewhere among the VPCs' addresses, or around all of them.
pub(super) fn prefix(random: &mut Random) -> Prefix {
    let (net, host) = (random.up_to(3) as u8, random.below(32) as u8);
    let is_v4 = !random.once_in(4);
    match (random.below(8), is_v4) {
        (0, true) => v4(0, 0, 0),
        (0, false) => v6(0, 0, 0),
        (1, true) => v4(net, host, 22),
        (1, false) => v6(net, host, 96),
        (_, true) => v4(net, host, 24 + random.up_to(8) as u8),
        (_, false) => v6(net, host, 112 + random.up_to(16) as u8),
    }
}

/// In `10.0.NET.HOST/LEN`.
pub(super) fn v4(net: u8, host: u8, len: u8) -> Prefix {
    cut(Addr::from_v4([10, 0, net, host]), 96 + len)
}

/// In `fd00::NET:HOST/LEN`.
pub(super) fn v6(net: u8, host: u8, len: u8) -> Prefix {
    let mut octets = [0; 16];
    octets[0] = 0xfd;
    octets[13] = net;
    octets[15] = host;
    cut(Addr::from_octets(octets), len)
}

/// The prefix of this length around an address.
fn cut(addr: Addr, len: u8) -> Prefix {
    let host_bits = 128 - u32::from(len);
    let mask = u128::MAX.checked_shl(host_bits).unwrap_or(0);
    Prefix::new(Addr(addr.0 & mask), len).expect("a length up to 128")
}
