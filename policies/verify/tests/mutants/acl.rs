//! Static rules.

use penstock_flow::Addr;
use penstock_verify::{Acl, AclAction, Limits, Row, Ternary};

use crate::{Bed, addr};

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;

const fn one<T: Copy>(value: T, mask: T) -> Ternary<T> {
    Ternary { value, mask }
}

/// A row that matches everything of a direction.
fn row(action: AclAction, direction: u8) -> Acl {
    Acl {
        priority: 100,
        direction: one(direction, 1),
        vni: Ternary::default(),
        port: Ternary::default(),
        src: Ternary::default(),
        dst: Ternary::default(),
        proto: Ternary::default(),
        sport: (0, u16::MAX),
        dport: (0, u16::MAX),
        action,
    }
}

fn prefix(text: &str, len: u8) -> Ternary<u128> {
    let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
    let Addr(value) = addr(text);
    one(value & mask, mask)
}

/// What a port sends with a protocol to some ports.
fn leaving(bed: &Bed, port: &str, action: AclAction, proto: u8, dport: (u16, u16)) -> Acl {
    Acl {
        port: one(bed.id(port), u32::MAX),
        proto: one(proto, u8::MAX),
        // What may be a reply of a server is left out.
        sport: (20_000, u16::MAX),
        dport,
        ..row(action, 0)
    }
}

/// What comes for an address of VPC x.
fn arriving(dst: &str, action: AclAction, proto: u8, dport: (u16, u16)) -> Acl {
    Acl {
        vni: one(10, 0xff_ffff),
        dst: prefix(dst, 128),
        proto: one(proto, u8::MAX),
        sport: (20_000, u16::MAX),
        dport,
        ..row(action, 1)
    }
}

/// RoCEv2 between p1 and what is at `peer`, either way.
fn rdma(bed: &Bed, peer: (&str, u8)) -> Acl {
    Acl {
        dst: prefix(peer.0, peer.1),
        sport: (0, u16::MAX),
        ..leaving(bed, "x/p1", AclAction::Allow, UDP, (4791, 4791))
    }
}

/// Drops of bulk, but for 10.0.0.20.
fn bulk(bed: &Bed, hole_priority: u32) -> Vec<Acl> {
    let drop = leaving(bed, "x/p1", AclAction::Drop, UDP, (9000, 9100));
    let drop = Acl {
        dst: prefix("10.0.0.0", 120),
        ..drop
    };
    let ask = Acl {
        priority: hole_priority,
        dst: prefix("10.0.0.20", 128),
        action: AclAction::Ask,
        ..drop
    };
    vec![drop, ask]
}

type Rows = fn(&Bed) -> Vec<Acl>;
use AclAction::{Allow, Ask, Drop};

#[rustfmt::skip]
const RIGHT: &[(&str, Rows)] = &[
    ("a denied service", |b| vec![leaving(b, "x/p1", Drop, TCP, (445, 445))]),
    ("the same, arriving", |_| vec![arriving("10.0.0.10", Drop, TCP, (445, 445))]),
    ("a denied service with a hole", |b| bulk(b, 200)),
    ("what no rule allows", |b| vec![leaving(b, "x/p1", Drop, TCP, (6000, 6999))]),
    ("what the receiver on this NIC denies", |b| vec![Acl {
        dst: prefix("10.0.0.11", 128), ..leaving(b, "x/p1", Drop, UDP, (4000, 4000))
    }]),
    ("RoCE both ways", |b| vec![rdma(b, ("10.0.0.16", 124))]),
    ("asking is always right", |_| vec![row(Ask, 0), row(Ask, 1)]),
    ("an odd mask that only meets single addresses", |b| vec![Acl {
        src: one(1, 1), ..leaving(b, "x/p2", Drop, TCP, (445, 445))
    }]),
    ("one that is covered", |b| vec![
        leaving(b, "x/p1", Drop, TCP, (0, u16::MAX)),
        Acl { priority: 300, action: Ask, ..leaving(b, "x/p1", Ask, TCP, (0, u16::MAX)) },
    ]),
];

#[rustfmt::skip]
const PLANTED: &[(&str, &str, Rows)] = &[
    ("a drop of an allowed new flow", "drops what may open a connection", |b| vec![leaving(b, "x/p1", Drop, TCP, (443, 443))]),
    ("an arriving one", "drops what may open a connection", |_| vec![arriving("10.0.0.10", Drop, TCP, (80, 80))]),
    ("a range that is one too long", "drops what may open a connection", |b| vec![leaving(b, "x/p1", Drop, TCP, (443, 445))]),
    ("a drop of a possible reply", "drops what may be a reply", |b| vec![Acl { sport: (0, u16::MAX), ..leaving(b, "x/p1", Drop, TCP, (445, 445)) }]),
    ("of exactly one", "drops what may be a reply", |b| vec![Acl { sport: (80, 80), ..leaving(b, "x/p1", Drop, TCP, (445, 445)) }]),
    ("of an echo's reply", "drops what may be a reply", |b| vec![leaving(b, "x/p1", Drop, ICMP, (0, 255))]),
    ("a drop of what is rejected", "is to be told", |b| vec![leaving(b, "x/p1", Drop, TCP, (23, 23))]),
    ("a drop of what is logged", "drops what is to be logged", |b| vec![leaving(b, "x/p1", Drop, TCP, (135, 135))]),
    ("no hole", "drops what may open a connection", |b| bulk(b, 200).into_iter().take(1).collect()),
    ("the hole below", "drops what may open a connection", |b| bulk(b, 50)),
    ("the hole beside", "a row of equal priority", |b| bulk(b, 100)),
    ("a prefix that is too long a way", "drops what may open a connection", |b| {
        bulk(b, 200).into_iter().map(|acl| if acl.action == Drop { Acl { dst: prefix("10.0.0.0", 119), ..acl } } else { acl }).collect()
    }),
    ("the wrong direction", "drops what may open a connection", |b| vec![Acl {
        direction: one(0, 1), vni: one(10, 0xff_ffff), dst: Ternary::default(), src: prefix("10.0.0.10", 128),
        ..leaving(b, "x/p1", Drop, TCP, (443, 443))
    }]),
    ("both directions", "drops what may open a connection", |_| vec![Acl {
        direction: Ternary::default(), dst: Ternary::default(), ..arriving("10.0.0.10", Drop, TCP, (80, 80))
    }]),
    ("every VPC", "drops what may open a connection", |b| vec![Acl { port: Ternary::default(), ..leaving(b, "x/p1", Drop, TCP, (445, 445)) }]),
    ("every protocol", "drops what may open a connection", |b| vec![Acl { proto: Ternary::default(), ..leaving(b, "x/p1", Drop, TCP, (9000, 9000)) }]),
    ("of a policy that persists", "a connection that persists", |b| vec![leaving(b, "y/q1", Drop, TCP, (7000, 7000))]),
    ("of a default beside one that persists", "a connection that persists", |b| vec![leaving(b, "y/q1", Drop, TCP, (7001, 7001))]),
    ("an allow of what is denied", "allows what is refused", |b| vec![leaving(b, "x/p1", Allow, TCP, (445, 445))]),
    ("an allow of what needs a connection", "allows what needs a connection", |b| vec![leaving(b, "x/p1", Allow, TCP, (443, 443))]),
    ("an allow of what is logged", "allows what is to be logged", |b| vec![leaving(b, "x/p1", Allow, UDP, (514, 514))]),
    ("an allow of what audit would stop", "allows what is to be logged", |b| vec![leaving(b, "x/p1", Allow, UDP, (5000, 5000))]),
    ("an allow without its reverse", "has no stateless way back", |b| vec![leaving(b, "x/p1", Allow, UDP, (4000, 4000))]),
    ("a prefix that is one bit short", "allows what is refused", |b| vec![rdma(b, ("10.0.0.0", 123))]),
    ("an allow that the receiver here refuses", "allows what is refused at tenants/a/vpcs/x/ports/p2", |b| vec![rdma(b, ("10.0.0.11", 128))]),
    ("an allow from another VPC", "allows what needs a connection", |_| vec![Acl { vni: one(12, 0xff_ffff), ..arriving("10.0.0.10", Allow, UDP, (4791, 4791)) }]),
    ("two that disagree", "a row of equal priority", |b| vec![
        leaving(b, "x/p1", Drop, TCP, (445, 445)),
        leaving(b, "x/p1", Ask, TCP, (440, 450)),
    ]),
    ("a mask that is no prefix", "is no prefix", |b| vec![Acl { dst: one(1, 1), ..leaving(b, "x/p1", Drop, TCP, (445, 445)) }]),
];

fn planted(rows: Rows) -> (Bed, penstock_verify::Report) {
    let mut bed = Bed::new();
    for acl in rows(&bed) {
        bed.rows(1).push(Row::Acl(acl));
    }
    let report = bed.proof();
    (bed, report)
}

#[test]
fn what_is_right_is_proved() {
    for (name, rows) in RIGHT {
        let (_, report) = planted(*rows);
        assert!(
            report.is_proved(),
            "{name}: {:#?} {:?}",
            report.violations,
            report.unproved
        );
    }
}

#[test]
fn every_planted_bug_is_found() {
    for (name, told, rows) in PLANTED {
        let (bed, report) = planted(*rows);
        let mut all: Vec<String> = report.violations.iter().map(ToString::to_string).collect();
        all.extend(report.unproved.iter().map(ToString::to_string));
        assert!(all.iter().any(|it| it.contains(told)), "{name}: {all:#?}");
        assert!(!report.is_proved(), "{name}");
        let shown = report.violations.iter().all(|it| it.packet.is_some());
        assert!(shown, "{name}: {all:#?}");
        // The rest of the network is as it was.
        let node = penstock_policies::model::NodeName::parse("nodes/two").expect("a name");
        let other = penstock_verify::node(
            &bed.model,
            &bed.ids,
            &node,
            &bed.hosts[&node],
            Limits::default(),
        );
        assert!(other.is_proved(), "{name}");
    }
    assert!(PLANTED.len() >= 20);
}
