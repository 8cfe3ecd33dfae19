//! A judgement allocates nothing, however many tags its peer has.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;

use penstock_flow::{Addr, Mac, Prefix};
use penstock_rules::model::{
    Applies, Direction, Endpoint, Group, List, Peer, Peers, Policy, Port, PrefixSet, Rule, Subnet,
    Tier, Vpc,
};
use penstock_rules::{Query, Ruleset};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: hands everything to the system's allocator, unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|n| n.set(n.get() + 1));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        ALLOCATIONS.with(|n| n.set(n.get() + 1));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static GLOBAL: Counting = Counting;

/// 10.0.0.9 is in two groups and `sets` sets, of which the last is named by the
/// only rules that allow it anything, one of them in audit.
fn policy(sets: u32) -> Policy {
    let addr = Addr::from_v4([10, 0, 0, 9]);
    let mut policy = Policy {
        generation: 1,
        ..Policy::default()
    };
    let (name, peers) = (String::from("v"), [].into());
    let vpc = Vpc {
        name,
        default_allow: false,
        peers,
    };
    policy.vpcs.insert(7, vpc);
    let subnet = Subnet {
        name: "s".into(),
        vni: 7,
        prefixes: vec![],
        gateways: vec![],
        mtu: 1500,
    };
    policy.subnets.insert(1, subnet);
    policy.groups = [1, 2]
        .map(|id| {
            (
                id,
                Group {
                    name: format!("g{id}"),
                    vni: 7,
                },
            )
        })
        .into();
    for id in 0..sets {
        let len = 96 + (id % 33) as u8;
        let prefix = Prefix::new(Addr(addr.0 >> (128 - len) << (128 - len)), len);
        let prefixes = prefix.into_iter().collect();
        let name = format!("s{id}");
        policy.sets.insert(
            100 + id,
            PrefixSet {
                name,
                vni: 7,
                prefixes,
            },
        );
    }
    let rule = |id: u32| Rule {
        peers: Peers::Any(vec![Peer::Set(100 + id)]),
        source_ports: if id.is_multiple_of(2) {
            vec![(1, 9)]
        } else {
            vec![]
        },
        protocol: Some(penstock_rules::model::Protocol::Number(6)),
        ..Rule::allow(format!("r{id}"), Direction::Ingress)
    };
    for (id, tier, audit) in [
        (1, Tier::Admin, true),
        (2, Tier::Tenant, false),
        (3, Tier::Baseline, true),
    ] {
        let list = List {
            tier,
            audit,
            applies: Applies::Vpc,
            selects_ingress: true,
            rules: (0..sets).map(rule).collect(),
            ..List::of_group(format!("l{id}"), 7, 1)
        };
        policy.lists.insert(id, list);
    }
    let port = Port {
        name: "p".into(),
        vni: 7,
        subnet: 1,
        device_id: 1,
        attachment: "p".into(),
        vlan: 0,
        mac: Mac::GATEWAY,
        ips: vec![],
        groups: vec![1],
    };
    policy.ports = BTreeMap::from([(1, port)]);
    let (mac, groups) = (Mac::GATEWAY, vec![1, 2]);
    policy.endpoints.insert(
        (7, addr),
        Endpoint {
            mac,
            port: 1,
            groups,
        },
    );
    policy
}

#[test]
fn a_judgement_allocates_nothing() {
    // Few tags are kept at hand; 300 are not.
    for sets in [1, 20, 300] {
        let ruleset = Ruleset::compile(policy(sets)).expect("a sound policy");
        let query = |dport, sport| Query {
            direction: Direction::Ingress,
            port: 1,
            peer: Addr::from_v4([10, 0, 0, 9]),
            proto: 6,
            sport,
            dport,
        };
        let before = ALLOCATIONS.with(Cell::get);
        let mut allowed = 0;
        for (dport, sport) in [(80, 5), (80, 10), (4791, 5)] {
            allowed += u32::from(ruleset.judge(&query(dport, sport)).allow());
        }
        assert_eq!(ALLOCATIONS.with(Cell::get), before, "{sets} sets");
        assert_eq!(allowed, if sets == 1 { 2 } else { 3 });
    }
}
