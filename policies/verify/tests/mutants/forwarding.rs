//! Tables that forward.

use penstock_flow::{Addr, Mac, Prefix};
use penstock_policies::model::VpcName;
use penstock_verify::{Bind, Destination, Hop, Limits, Row, reach};

use crate::{Bed, addr};

type Plant = fn(&mut Bed);

fn edit(bed: &mut Bed, nic: u32, mut change: impl FnMut(&mut Row) -> bool) {
    let done = bed
        .rows(nic)
        .iter_mut()
        .filter_map(|row| change(row).then_some(()))
        .count();
    assert!(done > 0, "nothing was planted");
}

fn remove(bed: &mut Bed, nic: u32, which: impl Fn(&Row) -> bool) {
    let before = bed.rows(nic).len();
    bed.rows(nic).retain(|row| !which(row));
    assert!(bed.rows(nic).len() < before, "nothing was planted");
}

fn add(bed: &mut Bed, nic: u32, row: Row) {
    bed.rows(nic).push(row);
}

/// Changes the next hop of a port.
fn hop(bed: &mut Bed, nic: u32, port: &str, change: impl Fn(&mut Hop)) {
    let of = bed.id(port);
    edit(bed, nic, |row| match row {
        Row::Nexthop { id, hop } if *id == of => {
            change(hop);
            true
        }
        _ => false,
    });
}

fn map(bed: &mut Bed, nic: u32, vni: u32, prefix: (&str, u8), port: &str) {
    let dst = Prefix::new(addr(prefix.0), prefix.1).expect("a prefix");
    let nexthop = bed.id(port);
    add(bed, nic, Row::Mapping { vni, dst, nexthop });
}

fn bind(bed: &mut Bed, nic: u32, of: &str, change: impl Fn(&mut u32, &mut u32)) {
    let of = bed.id(of);
    edit(bed, nic, |row| match row {
        Row::Vport {
            bind: Bind::Port { port, vni },
            ..
        } if *port == of => {
            change(port, vni);
            true
        }
        _ => false,
    });
}

/// The bug, what is told, whether packets leak.
#[rustfmt::skip]
const PLANTED: &[(&str, &str, bool, Plant)] = &[
    ("a port in another VPC", "the VNI is 10, not 12", true, |b| bind(b, 1, "x/p1", |_, vni| *vni = 12)),
    ("two ports swapped", "ports/p1 is there", false, |b| {
        let (one, two) = (b.id("x/p1"), b.id("x/p2"));
        edit(b, 1, |row| match row {
            Row::Vport { bind: Bind::Port { port, .. }, .. } if *port == one || *port == two => {
                *port = if *port == one { two } else { one };
                true
            }
            _ => false,
        });
    }),
    ("a port where none is", "no port of this NIC is there", false, |b| {
        let port = b.id("x/p1");
        add(b, 1, Row::Vport { device_port: 99, vlan: 0, bind: Bind::Port { port, vni: 10 } });
    }),
    ("a port on the uplink", "no port of this NIC is there", false, |b| {
        let port = b.id("x/p1");
        add(b, 1, Row::Vport { device_port: 1, vlan: 0, bind: Bind::Port { port, vni: 10 } });
    }),
    ("a port of the other NIC", "no port of this NIC is there", false, |b| {
        let port = b.id("x/p3");
        let device_port = b.device_port("nodes/one", port);
        add(b, 1, Row::Vport { device_port, vlan: 0, bind: Bind::Port { port, vni: 10 } });
    }),
    ("a port with the wrong tag", "no port of this NIC is there", false, |b| edit(b, 3, |row| match row {
        Row::Vport { vlan, .. } if *vlan == 7 => { *vlan = 9; true }
        _ => false,
    })),
    ("a second uplink", "the uplink of this NIC is not there", false, |b| {
        add(b, 1, Row::Vport { device_port: 3, vlan: 0, bind: Bind::Uplink });
    }),
    ("a front end", "no front-end network", false, |b| {
        add(b, 1, Row::Vport { device_port: 77, vlan: 0, bind: Bind::FrontEnd });
    }),
    ("no binding", "what tenants/a/vpcs/x/ports/p1 sends", false, |b| {
        let of = b.id("x/p1");
        remove(b, 1, |row| matches!(row, Row::Vport { bind: Bind::Port { port, .. }, .. } if *port == of));
    }),
    ("another port's address", "ports/p1 does not have 10.0.0.11", false, |b| {
        let port = b.id("x/p1");
        add(b, 1, Row::SpoofGuard { port, mac: Mac([2, 0, 0, 0, 10, 1]), ip: addr("10.0.0.11") });
    }),
    ("another port's MAC", "the MAC is 02:00:00:00:0a:01", false, |b| {
        let port = b.id("x/p1");
        add(b, 1, Row::SpoofGuard { port, mac: Mac([2, 0, 0, 0, 10, 2]), ip: addr("10.0.0.10") });
    }),
    ("a guard of a port that is gone", "no port has id 4000", false, |b| {
        add(b, 1, Row::SpoofGuard { port: 4000, mac: Mac([2, 0, 0, 0, 10, 2]), ip: addr("10.0.0.10") });
    }),
    ("a guard of a port elsewhere", "ports/p4 is not on this NIC", false, |b| {
        let port = b.id("x/p4");
        add(b, 1, Row::SpoofGuard { port, mac: Mac([2, 0, 0, 0, 10, 4]), ip: addr("10.0.0.20") });
    }),
    ("a missing guard", "what tenants/a/vpcs/x/ports/p1 sends from fd00::10", false, |b| {
        remove(b, 1, |row| matches!(row, Row::SpoofGuard { ip, .. } if *ip == addr("fd00::10")));
    }),
    ("a tunnel from nowhere", "no NIC at 198.51.100.1", false, |b| {
        add(b, 1, Row::Underlay { src_vtep: addr("198.51.100.1"), dst_vtep: addr("192.0.2.1"), vni: 10, decap: 10 });
    }),
    ("a tunnel from a NIC without the VPC", "no NIC at 192.0.2.2", false, |b| {
        add(b, 1, Row::Underlay { src_vtep: addr("192.0.2.2"), dst_vtep: addr("192.0.2.1"), vni: 12, decap: 12 });
    }),
    ("a tunnel from itself", "no NIC at 192.0.2.1", false, |b| {
        add(b, 1, Row::Underlay { src_vtep: addr("192.0.2.1"), dst_vtep: addr("192.0.2.1"), vni: 10, decap: 10 });
    }),
    ("a tunnel of a VPC elsewhere", "tenants/b/vpcs/x has no port on this NIC", false, |b| {
        add(b, 2, Row::Underlay { src_vtep: addr("192.0.2.1"), dst_vtep: addr("192.0.2.2"), vni: 12, decap: 12 });
    }),
    ("a tunnel to another VTEP", "this NIC's VTEP is 192.0.2.1", false, |b| {
        add(b, 1, Row::Underlay { src_vtep: addr("192.0.2.3"), dst_vtep: addr("192.0.2.2"), vni: 10, decap: 10 });
    }),
    ("a VNI that is none", "no VPC has VNI 99", false, |b| {
        add(b, 1, Row::Underlay { src_vtep: addr("192.0.2.3"), dst_vtep: addr("192.0.2.1"), vni: 99, decap: 10 });
    }),
    ("decapsulation into another VPC", "the VNI is 10, not 12", true, |b| edit(b, 1, |row| match row {
        Row::Underlay { vni: 10, decap, .. } => { *decap = 12; true }
        _ => false,
    })),
    ("a missing tunnel", "what comes from 192.0.2.3 for tenants/a/vpcs/x", false, |b| {
        remove(b, 1, |row| matches!(row, Row::Underlay { vni: 10, src_vtep, .. } if *src_vtep == addr("192.0.2.3")));
    }),
    ("/127 instead of /128", "10.0.0.21 is sent to tenants/a/vpcs/x/ports/p4; it belongs to nobody", false, |b| {
        let to = b.id("x/p4");
        edit(b, 1, |row| match row {
            Row::Mapping { dst, nexthop, .. } if *nexthop == to => {
                *dst = Prefix::new(dst.addr(), 127).expect("a prefix");
                true
            }
            _ => false,
        });
    }),
    ("a prefix one off", "10.0.0.13 is sent to", false, |b| map(b, 1, 10, ("10.0.0.13", 128), "x/p3")),
    ("a whole subnet", "is sent to tenants/a/vpcs/x/ports/p4", false, |b| map(b, 1, 10, ("10.0.0.0", 120), "x/p4")),
    ("everything", "is sent to tenants/a/vpcs/x/ports/p1", false, |b| {
        let nexthop = b.id("x/p1");
        add(b, 1, Row::Mapping { vni: 10, dst: Prefix::new(Addr(0), 0).expect("a prefix"), nexthop });
    }),
    ("an address of another port", "it belongs to tenants/a/vpcs/x/ports/p4", false, |b| {
        let (from, to) = (b.id("x/p4"), b.id("x/p3"));
        edit(b, 1, |row| match row {
            Row::Mapping { nexthop, .. } if *nexthop == from => { *nexthop = to; true }
            _ => false,
        });
    }),
    ("into another VPC with the same address", "it belongs to tenants/a/vpcs/x/ports/p1", true, |b| {
        let (from, to) = (b.id("x/p1"), b.id("b/x/r1"));
        edit(b, 1, |row| match row {
            Row::Mapping { vni: 10, nexthop, .. } if *nexthop == from => { *nexthop = to; true }
            _ => false,
        });
    }),
    ("an unknown VPC's mapping", "no VPC has VNI 99", false, |b| map(b, 1, 99, ("10.0.0.10", 128), "x/p1")),
    ("a mapping of a VPC elsewhere", "tenants/b/vpcs/x has no port on this NIC", false, |b| map(b, 2, 12, ("10.0.0.10", 128), "b/x/r1")),
    ("a mapping to a port that is gone", "no port has id 4000", false, |b| {
        add(b, 1, Row::Mapping { vni: 10, dst: Prefix::new(addr("10.0.0.99"), 128).expect("a prefix"), nexthop: 4000 });
    }),
    ("a missing mapping", "what is sent to 10.0.0.20 of tenants/a/vpcs/x/ports/p4", false, |b| {
        remove(b, 1, |row| matches!(row, Row::Mapping { vni: 10, dst, .. } if dst.addr() == addr("10.0.0.20")));
    }),
    ("a key twice", "another row has the same key", false, |b| map(b, 1, 10, ("10.0.0.20", 128), "x/p4")),
    ("a next hop of a port that is gone", "no port has id 4000", false, |b| {
        add(b, 1, Row::Nexthop { id: 4000, hop: Hop::ToPort { device_port: 3, vlan: 0, mac: Mac([2, 0, 0, 0, 10, 1]) } });
    }),
    ("a next hop that does not concern the NIC", "ports/r1 concerns no VPC of this NIC", false, |b| {
        let (id, own) = (b.id("b/x/r1"), b.id("x/p3"));
        let hop = b.rows(2).iter().find_map(|row| match row {
            Row::Nexthop { id, hop } if *id != own => Some(*hop),
            _ => None,
        });
        add(b, 2, Row::Nexthop { id, hop: hop.expect("a next hop") });
    }),
    ("a dangling mapping", "what is sent to tenants/a/vpcs/x/ports/p4", false, |b| {
        let of = b.id("x/p4");
        remove(b, 1, |row| matches!(row, Row::Nexthop { id, .. } if *id == of));
    }),
    ("the wrong interface", "is at device port", true, |b| {
        let r1 = b.id("b/x/r1");
        let other = b.device_port("nodes/one", r1);
        hop(b, 1, "x/p1", |hop| if let Hop::ToPort { device_port, .. } = hop { *device_port = other });
    }),
    ("the wrong VLAN", "the VLAN is 7, not 8", false, |b| {
        hop(b, 3, "x/p4", |hop| if let Hop::ToPort { vlan, .. } = hop { *vlan = 8 });
    }),
    ("no VLAN", "the VLAN is 7, not 0", true, |b| {
        hop(b, 3, "x/p4", |hop| if let Hop::ToPort { vlan, .. } = hop { *vlan = 0 });
    }),
    ("the wrong MAC", "the MAC is 02:00:00:00:0a:01", false, |b| {
        hop(b, 1, "x/p1", |hop| if let Hop::ToPort { mac, .. } = hop { mac.0[5] = 9 });
    }),
    ("the wrong VTEP", "is behind VTEP 192.0.2.3, not 192.0.2.2", false, |b| {
        hop(b, 1, "x/p4", |hop| if let Hop::ToVtep { dst_vtep, .. } = hop { *dst_vtep = addr("192.0.2.2") });
    }),
    ("a VTEP of nobody", "not 198.51.100.1", true, |b| {
        hop(b, 1, "x/p4", |hop| if let Hop::ToVtep { dst_vtep, .. } = hop { *dst_vtep = addr("198.51.100.1") });
    }),
    ("another NIC's VTEP as source", "this NIC's VTEP is 192.0.2.1, not 192.0.2.2", false, |b| {
        hop(b, 1, "x/p4", |hop| if let Hop::ToVtep { src_vtep, .. } = hop { *src_vtep = addr("192.0.2.2") });
    }),
    ("the wrong VNI on the wire", "the VNI is 10, not 12", true, |b| {
        let (from, to) = (b.id("x/p3"), b.id("x/p4"));
        // Who receives 10.0.0.11 there is another tenant.
        edit(b, 1, |row| match row {
            Row::Mapping { vni: 10, dst, nexthop } if dst.addr() == addr("10.0.0.11") => {
                assert!(*nexthop != from);
                *nexthop = to;
                true
            }
            _ => false,
        });
        hop(b, 1, "x/p4", |hop| if let Hop::ToVtep { vni, .. } = hop { *vni = 12 });
    }),
    ("the wrong MTU", "the MTU is 1550, not 1650", false, |b| {
        hop(b, 1, "x/p4", |hop| if let Hop::ToVtep { mtu, .. } = hop { *mtu = 1650 });
    }),
    ("the MTU of one end only", "the MTU is 1550, not 1551", false, |b| {
        hop(b, 3, "x/p1", |hop| if let Hop::ToVtep { mtu, .. } = hop { *mtu = 1551 });
    }),
    ("by another NIC's uplink", "the uplink is device port Some(1), not 2", true, |b| {
        hop(b, 1, "x/p4", |hop| if let Hop::ToVtep { device_port, .. } = hop { *device_port = 2 });
    }),
    ("a made-up source MAC", "the MAC is 00:00:00:00:00:00", false, |b| {
        hop(b, 1, "x/p4", |hop| if let Hop::ToVtep { src_mac, .. } = hop { src_mac.0[0] = 2 });
    }),
    ("a neighbour that the worker has not found", "the MAC is 00:00:00:00:00:00", false, |b| {
        hop(b, 1, "x/p4", |hop| if let Hop::ToVtep { dst_mac, .. } = hop { dst_mac.0[0] = 2 });
    }),
    ("a tunnel to a port that is here", "ports/p1 is on this NIC", false, |b| {
        let of = b.id("x/p4");
        let to = b.rows(1).iter().find_map(|row| match row {
            Row::Nexthop { id, hop } if *id == of => Some(*hop),
            _ => None,
        });
        hop(b, 1, "x/p1", |hop| *hop = to.expect("a next hop"));
    }),
    ("a port that is elsewhere", "ports/p4 is on another NIC", false, |b| {
        let to = b.id("x/p1");
        let to = b.device_port("nodes/one", to);
        hop(b, 1, "x/p4", |hop| *hop = Hop::ToPort { device_port: to, vlan: 0, mac: Mac([2, 0, 0, 0, 10, 4]) });
    }),
    ("out by the front end", "no front-end network", true, |b| {
        hop(b, 1, "x/p1", |hop| *hop = Hop::ToFrontEnd { device_port: 77 });
    }),
];

#[test]
fn what_is_right_is_proved() {
    let bed = Bed::new();
    let report = bed.proof();
    assert!(report.is_proved(), "{report:#?}");
    assert!(report.gaps.is_empty(), "{:#?}", report.gaps);
    assert!(report.nics == 3 && report.rows > 40, "{report:?}");
    let reach = reach(&bed.model, &bed.ids, &bed.hosts, Limits::default());
    assert_eq!(reach.unproved, None);
    assert_eq!(reach.leaks().count(), 0, "{:#?}", reach.pairs);
    // Each VPC reaches itself, and nothing else.
    let pairs: Vec<_> = reach.pairs.keys().collect();
    assert_eq!(pairs.len(), 3, "{pairs:?}");
    assert!(
        pairs
            .iter()
            .all(|(from, to)| *to == Destination::Vpc(from.clone())),
        "{pairs:?}"
    );
}

#[test]
fn every_planted_bug_is_found() {
    for (name, told, leaks, plant) in PLANTED {
        let mut bed = Bed::new();
        plant(&mut bed);
        let report = bed.proof();
        let all: Vec<String> = report
            .violations
            .iter()
            .map(ToString::to_string)
            .chain(report.gaps.iter().map(ToString::to_string))
            .collect();
        assert!(all.iter().any(|it| it.contains(told)), "{name}: {all:#?}");
        let reach = reach(&bed.model, &bed.ids, &bed.hosts, Limits::default());
        let paths: Vec<String> = reach.leaks().map(ToString::to_string).collect();
        assert_eq!(!paths.is_empty(), *leaks, "{name}: {paths:#?}");
        // A leak always breaks a rule of its NIC's own: nodes prove their own tables.
        assert!(!leaks || !report.is_proved(), "{name}");
    }
    assert!(PLANTED.len() >= 30);
}

#[test]
fn a_leak_is_shown_as_a_packet_and_its_way() {
    let mut bed = Bed::new();
    bind(&mut bed, 1, "x/p1", |_, vni| *vni = 12);
    let reach = reach(&bed.model, &bed.ids, &bed.hosts, Limits::default());
    let [a, b] =
        ["tenants/a/vpcs/x", "tenants/b/vpcs/x"].map(|n| VpcName::parse(n).expect("a name"));
    let path = reach.between(&a, &b).expect("a packet");
    let text = path.to_string();
    assert!(
        text.starts_with("tenants/a/vpcs/x/ports/p1 sends 10.0.0.10 -> 10.0.0.1"),
        "{text}"
    );
    assert!(
        text.ends_with("gets it") && text.contains("of vni 12"),
        "{text}"
    );
    assert!(
        path.port.as_ref().is_some_and(|port| port.vpc() == b),
        "{text}"
    );
}

#[test]
fn what_costs_too_much_is_not_proved() {
    let bed = Bed::new();
    let limits = Limits {
        cells: 5,
        ..Limits::default()
    };
    let report = penstock_verify::nodes(&bed.model, &bed.ids, &bed.hosts, limits);
    assert!(!report.is_proved() && report.violations.is_empty());
    assert_eq!(
        report.first().as_deref(),
        Some("not proved: more than 5 cells")
    );
    assert!(
        reach(&bed.model, &bed.ids, &bed.hosts, limits)
            .unproved
            .is_some()
    );
}
