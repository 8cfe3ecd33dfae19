//! What is compiled anew, and what is not.

use std::collections::BTreeMap;
use std::sync::Arc;

use penstock_api::v1;
use penstock_daemon::plan::{NodePlan, Plan};
use penstock_daemon::registry::Registry;
use penstock_daemon::store::Memory;
use penstock_daemon::world::World;
use penstock_policies::nic::{self, Interfaces, Program};
use proptest::prelude::*;

use crate::samples::{ground, group, node, port, subnet, vpc, with_port};

fn in_vpc(mut port: v1::Resource, vpc: &str) -> v1::Resource {
    port = with_port(port, |it| {
        it.security_groups.clear();
        it.attachment.push('o');
    });
    port.name = port.name.replace("vpcs/main", vpc);
    port
}

fn registry() -> Registry {
    let registry = Registry::open(Arc::new(Memory::default())).unwrap();
    let mut resources = ground();
    resources.push(vpc("tenants/blue/vpcs/other", 7002));
    resources.push(subnet(
        "tenants/blue/vpcs/other/subnets/front",
        "10.1.0.0/16",
    ));
    for number in 1..=3 {
        resources.push(node(
            &format!("n{number}"),
            number,
            &format!("h{number}:1"),
            1,
        ));
    }
    resources.push(port(1, "n1"));
    resources.push(port(2, "n2"));
    resources.push(in_vpc(port(3, "n2"), "vpcs/other"));
    resources.push(in_vpc(port(4, "n3"), "vpcs/other"));
    apply(&registry, resources);
    registry
}

fn apply(registry: &Registry, resources: Vec<v1::Resource>) -> Arc<World> {
    let request = v1::ApplyRequest {
        resources,
        ..Default::default()
    };
    registry.apply(request).unwrap();
    registry.hub().world()
}

/// A node's tables if every interface is there.
fn tables(plan: &NodePlan) -> BTreeMap<u32, Program> {
    let names = &plan.names;
    let interfaces = Interfaces {
        ports: names.ports.keys().map(|id| (*id, 1000 + id)).collect(),
        uplinks: [(1, 501)].into(),
    };
    nic::programs(&names.model, &names.ids, &plan.node, &interfaces).unwrap()
}

fn revisions(plan: &Plan) -> Vec<u64> {
    plan.nodes.values().map(|node| node.revision).collect()
}

#[test]
fn a_change_compiles_only_the_nodes_of_its_vpc() {
    let registry = registry();
    let world = registry.hub().world();
    let plan = Plan::of(&world, None).unwrap();
    assert_eq!(revisions(&plan), [1, 1, 1]);

    let next = apply(&registry, vec![group("web", &[81])]);
    let second = Plan::of(&next, Some((&world, &plan))).unwrap();
    assert_eq!(revisions(&second), [2, 2, 1]);
    assert!(Arc::ptr_eq(
        &second.nodes["nodes/n3"].policy,
        &plan.nodes["nodes/n3"].policy
    ));
    // A first port of the VPC on another node: tunnels of all three.
    let third_world = apply(&registry, vec![port(5, "n3")]);
    let third = Plan::of(&third_world, Some((&next, &second))).unwrap();
    assert_eq!(revisions(&third), [3, 3, 3]);
    // A tenant concerns nobody, a node everybody.
    let world4 = apply(&registry, vec![crate::samples::tenant("red")]);
    let fourth = Plan::of(&world4, Some((&third_world, &third))).unwrap();
    assert_eq!(revisions(&fourth), [3, 3, 3]);
    let world5 = apply(&registry, vec![node("n4", 4, "h4:1", 1)]);
    let fifth = Plan::of(&world5, Some((&world4, &fourth))).unwrap();
    assert_eq!(revisions(&fifth), [5, 5, 5, 5]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Step by step equals all at once.
    #[test]
    fn kept_plans_equal_fresh_ones(
        steps in prop::collection::vec((0_u8..5, 1_u16..8, 0_u8..3, any::<bool>()), 1..20)
    ) {
        let registry = registry();
        let mut world = registry.hub().world();
        let mut plan = Plan::of(&world, None).unwrap();
        for (what, number, at, other) in steps {
            let place = |it: v1::Resource| if other { in_vpc(it, "vpcs/other") } else { it };
            let resource = place(port(number, &format!("n{}", at + 1)));
            let next = match what {
                0 | 1 => apply(&registry, vec![resource]),
                2 => {
                    let request = v1::DeleteRequest {
                        names: vec![resource.name],
                        allow_missing: true,
                        ..Default::default()
                    };
                    registry.delete(&request).unwrap();
                    registry.hub().world()
                }
                3 => apply(&registry, vec![group("web", &[number.into()])]),
                _ => apply(&registry, vec![node(&format!("n{}", at + 1), at + 10 + u8::try_from(number).unwrap() * 4, &format!("x{at}:{number}"), 1)]),
            };
            let before = plan;
            plan = Plan::of(&next, Some((&world, &before))).unwrap();
            world = next;
            // A node whose revision stays needs no look at its tables.
            for (name, node) in &plan.nodes {
                if let Some(old) = before.nodes.get(name)
                    && old.revision == node.revision
                {
                    prop_assert_eq!(tables(old), tables(node), "{}", name);
                }
            }
            let fresh = Plan::of(&world, None).unwrap();
            prop_assert_eq!(plan.nodes.len(), fresh.nodes.len());
            for (kept, fresh) in plan.nodes.values().zip(fresh.nodes.values()) {
                prop_assert_eq!(&kept.policy, &fresh.policy);
                prop_assert_eq!(&kept.vpcs, &fresh.vpcs);
                prop_assert_eq!(&kept.address, &fresh.address);
            }
        }
    }
}
