//! A small node: two ports, an uplink, a front-end, and rules for the cases.

use p4runtime::pipeline::{
    Entry, acl, drops, fence, flow, mapping, nexthop, rdma_pair, rdma_qp, spoof_guard, underlay,
    vport,
};
use p4runtime::reason::Drop;
use p4runtime::{Bits, Lpm, Meter, Priority, Range, Ternary};

use crate::frames::v4;

pub const VPC: u32 = 7;
pub const VNI: u32 = 0x0a_bc07;

/// Device ports.
pub const ONE: u32 = 1;
pub const TWO: u32 = 2;
pub const UPLINK: u32 = 3;
pub const FRONT_END: u32 = 4;
pub const NOBODY: u32 = 5;
/// Like port A, but with a meter that lets nothing through.
pub const LIMITED: u32 = 6;

/// Port ids.
pub const PORT_A: u32 = 101;
pub const PORT_B: u32 = 102;

pub const VLAN_B: u16 = 20;

pub const MAC_A: [u8; 6] = [2, 0, 0, 0, 0, 0xa];
pub const MAC_B: [u8; 6] = [2, 0, 0, 0, 0, 0xb];
pub const GATEWAY: [u8; 6] = [2, 0, 0x5e, 0, 0, 1];
pub const MAC_HERE: [u8; 6] = [6, 0, 0, 0, 0, 1];
pub const MAC_THERE: [u8; 6] = [6, 0, 0, 0, 0, 2];
pub const MAC_FRONT: [u8; 6] = [6, 0, 0, 0, 0, 3];
pub const MAC_BEHIND: [u8; 6] = [6, 0, 0, 0, 0, 4];

pub const A: u128 = v4_const(1);
pub const B: u128 = v4_const(2);
/// Behind the IPv4 VTEP.
pub const R: u128 = v4_const(9);
/// Behind the front-end.
pub const F: u128 = v4_const(99);
pub const A6: u128 = 0xfd00_0000_0000_0000_0000_0000_0000_0001;
pub const B6: u128 = 0xfd00_0000_0000_0000_0000_0000_0000_0002;
/// Behind the IPv6 VTEP.
pub const R6: u128 = 0xfd00_0000_0000_0000_0000_0000_0000_0009;

pub const HERE: u128 = 0xffff_c000_0201;
pub const THERE: u128 = 0xffff_c000_0202;
pub const HERE6: u128 = 0x2001_0db8_0000_0000_0000_0000_0000_0001;
pub const THERE6: u128 = 0x2001_0db8_0000_0000_0000_0000_0000_0002;

/// 10.0.0.x
const fn v4_const(last: u8) -> u128 {
    0xffff_0a00_0000 | last as u128
}

pub const MTU: u16 = 300;

/// Next hops.
pub const HOP_A: u32 = 1;
pub const HOP_B: u32 = 2;
pub const HOP_R: u32 = 3;
pub const HOP_R6: u32 = 4;
pub const HOP_F: u32 = 5;
pub const HOP_BAD: u32 = 6;
pub const HOP_MISSING: u32 = 7;

fn vpc() -> Bits<24> {
    Bits::truncate(VPC.into())
}

pub fn all() -> Vec<Entry> {
    let mut entries = Vec::new();
    attach(&mut entries);
    connections(&mut entries);
    policy(&mut entries);
    route(&mut entries);
    for reason in Drop::ALL {
        let key = drops::Key {
            reason: reason.number(),
        };
        let action = drops::Action::CountDrop;
        entries.push(drops::Entry { key, action }.into());
    }
    entries
}

fn attach(entries: &mut Vec<Entry>) {
    let port = |port_id| vport::Action::SetPort {
        port_id,
        vpc: vpc(),
    };
    for (device_port, vlan, action) in [
        (ONE, 0, port(PORT_A)),
        (TWO, VLAN_B, port(PORT_B)),
        (UPLINK, 0, vport::Action::SetUplink),
        (FRONT_END, 0, vport::Action::SetFrontEnd { vpc: vpc() }),
        (LIMITED, 0, port(PORT_A)),
    ] {
        let key = vport::Key {
            device_port,
            vlan: Bits::truncate(vlan.into()),
        };
        entries.push(
            vport::Entry {
                key,
                action,
                meter: (device_port == LIMITED).then_some(Meter {
                    committed_rate: 1,
                    committed_burst: 1,
                    peak_rate: 1,
                    peak_burst: 1,
                }),
            }
            .into(),
        );
    }
    for (src_vtep, dst_vtep) in [(THERE, HERE), (THERE6, HERE6)] {
        let key = underlay::Key {
            src_vtep,
            dst_vtep,
            vni: Bits::truncate(VNI.into()),
        };
        let action = underlay::Action::Decap { vpc: vpc() };
        entries.push(underlay::Entry { key, action }.into());
    }
    for (port_id, mac, addresses) in [(PORT_A, MAC_A, [A, A6]), (PORT_B, MAC_B, [B, B6])] {
        for src_ip in addresses {
            let key = spoof_guard::Key {
                port_id,
                src_mac: Bits::from(mac),
                src_ip,
            };
            let action = spoof_guard::Action::Pass;
            entries.push(spoof_guard::Entry { key, action }.into());
        }
    }
}

/// Ports of flows that `flow` knows.
pub const KNOWN: u16 = 1000;
pub const DENIED: u16 = 1001;
pub const TO_NOWHERE: u16 = 1002;
pub const TO_BAD_EGRESS: u16 = 1003;
pub const UNDECIDED: u16 = 1004;
pub const ECHO: u16 = 77;
pub const QP: u32 = 0x11;
/// Protocols that `fence` is about.
pub const FENCED: u8 = 200;
pub const SHUT: u8 = 201;

fn connections(entries: &mut Vec<Entry>) {
    let mut known = |ingress, src, dst, proto, sport, dport, action| {
        let key = flow::Key {
            ingress,
            vpc: vpc(),
            src,
            dst,
            proto,
            sport,
            dport,
        };
        entries.push(
            flow::Entry {
                key,
                action,
                idle_timeout_ns: 60_000_000_000,
            }
            .into(),
        );
    };
    let to = |nexthop_id| flow::Action::Forward { nexthop_id };
    known(PORT_A, A, B, 6, KNOWN, 80, to(HOP_B));
    known(PORT_B, B, A, 6, 80, KNOWN, to(HOP_A));
    known(PORT_A, A, R, 6, KNOWN, 80, to(HOP_R));
    known(PORT_A, A, R, 17, KNOWN, 80, to(HOP_R));
    known(PORT_B, B6, R6, 17, KNOWN, 80, to(HOP_R6));
    known(PORT_A, A, F, 17, KNOWN, 80, to(HOP_F));
    known(PORT_A, A, R, 1, ECHO, 0x0800, to(HOP_R));
    known(PORT_A, A, R, 1, ECHO + 2, 0x0000, to(HOP_R));
    known(PORT_A, A, R, 1, 0, 13 << 8, to(HOP_R));
    known(PORT_A, A6, R6, 58, ECHO, 128 << 8, to(HOP_R6));
    known(PORT_A, A6, R6, 58, ECHO, 129 << 8, to(HOP_R6));
    known(PORT_A, A, B, 132, KNOWN, 80, to(HOP_B));
    known(PORT_A, A, B, 47, 0, 0, to(HOP_B));
    known(0, R, A, 6, 80, KNOWN, to(HOP_A));
    known(0, R, A, 47, 0, 0, to(HOP_A));
    known(0, R, B, 17, 80, KNOWN, to(HOP_B));
    known(0, R6, B6, 17, 80, KNOWN, to(HOP_B));
    known(0, R, F, 17, 80, KNOWN, to(HOP_F));
    known(0, R, R, 17, 80, KNOWN, to(HOP_R));
    known(PORT_A, A, B, 6, DENIED, 80, flow::Action::Deny);
    known(PORT_A, A, B, 6, TO_NOWHERE, 80, to(HOP_MISSING));
    known(PORT_A, A, B, 6, TO_BAD_EGRESS, 80, to(HOP_BAD));
    known(PORT_A, A, B, 6, UNDECIDED, 80, to(0));

    let key = rdma_qp::Key {
        ingress: PORT_A,
        vpc: vpc(),
        src: A,
        dst: R,
        dest_qp: Bits::truncate(QP.into()),
    };
    let action = rdma_qp::Action::Forward { nexthop_id: HOP_R };
    entries.push(rdma_qp::Entry { key, action }.into());
    let key = rdma_pair::Key {
        ingress: PORT_A,
        vpc: vpc(),
        src: A,
        dst: B,
    };
    let action = rdma_pair::Action::Forward { nexthop_id: HOP_B };
    entries.push(rdma_pair::Entry { key, action }.into());

    let mut fenced = |rank, proto, action| {
        let key = fence::Key {
            priority: Priority::from_rank(rank).unwrap(),
            vpc: Ternary::exact(vpc()),
            port_id: Ternary::any(),
            src: Ternary::any(),
            dst: Ternary::prefix(v4([10, 0, 0, 0]), 120).unwrap(),
            proto: Ternary::exact(proto),
        };
        entries.push(fence::Entry { key, action }.into());
    };
    fenced(0, FENCED, fence::Action::FenceAsk);
    fenced(1, SHUT, fence::Action::FenceDrop);
}

/// Destination ports that `acl` is about.
pub const OPEN: u16 = 2000;
pub const CLOSED: u16 = 2100;
pub const ASKED: u16 = 2200;

fn policy(entries: &mut Vec<Entry>) {
    // The first has the last word on port CLOSED, whatever the second says.
    for (rank, direction, low, high, action) in [
        (0, 0_u8, CLOSED, CLOSED, acl::Action::AclDrop),
        (1, 0, OPEN, CLOSED, acl::Action::AclAllow),
        (2, 0, ASKED, ASKED + 9, acl::Action::AclAsk),
        (3, 1, OPEN, OPEN, acl::Action::AclAllow),
    ] {
        let key = acl::Key {
            priority: Priority::from_rank(rank).unwrap(),
            direction: Ternary::exact(Bits::from(direction == 1)),
            vpc: Ternary::exact(vpc()),
            port_id: Ternary::any(),
            src: Ternary::any(),
            dst: Ternary::any(),
            proto: Ternary::exact(17),
            sport: Range::any(),
            dport: Range::new(low, high).unwrap(),
        };
        entries.push(acl::Entry { key, action }.into());
    }
}

fn route(entries: &mut Vec<Entry>) {
    for (dst, nexthop_id) in [
        (Lpm::exact(A), HOP_A),
        (Lpm::exact(B), HOP_B),
        (Lpm::new(v4([10, 0, 0, 8]), 125).unwrap(), HOP_R),
        (Lpm::new(v4([10, 0, 1, 0]), 120).unwrap(), HOP_MISSING),
    ] {
        let key = mapping::Key { vpc: vpc(), dst };
        let action = mapping::Action::SetNexthop { nexthop_id };
        entries.push(mapping::Entry { key, action }.into());
    }
    let to_port = |device_port, vlan: u16, mac: [u8; 6]| nexthop::Action::ToPort {
        device_port,
        vlan: Bits::truncate(vlan.into()),
        dst_mac: Bits::from(mac),
    };
    let to_vtep = |src_vtep, dst_vtep| nexthop::Action::ToVtep {
        src_vtep,
        dst_vtep,
        src_mac: Bits::from(MAC_HERE),
        dst_mac: Bits::from(MAC_THERE),
        vni: Bits::truncate(VNI.into()),
        mtu: MTU,
        device_port: UPLINK,
    };
    let to_front_end = nexthop::Action::ToFrontEnd {
        device_port: FRONT_END,
        src_mac: Bits::from(MAC_FRONT),
        dst_mac: Bits::from(MAC_BEHIND),
    };
    for (nexthop_id, action) in [
        (HOP_A, to_port(ONE, 0, MAC_A)),
        (HOP_B, to_port(TWO, VLAN_B, MAC_B)),
        (HOP_R, to_vtep(HERE, THERE)),
        (HOP_R6, to_vtep(HERE6, THERE6)),
        (HOP_F, to_front_end),
        (HOP_BAD, to_port(600, 0, MAC_A)),
    ] {
        let key = nexthop::Key { nexthop_id };
        entries.push(nexthop::Entry { key, action }.into());
    }
}
