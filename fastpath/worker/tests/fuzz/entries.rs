//! Entries of all tables, with few values in each field, so that they meet.

use p4runtime::pipeline::{Entry, acl, flow, mapping, nexthop, spoof_guard, underlay, vport};
use p4runtime::{Bits, Field, Lpm, Priority, Range, Ternary};

use crate::host::Choices;

const DEVICE_PORTS: [u32; 8] = [17, 18, 1, 2, 63, 64, 0, u32::MAX];
const IDS: [u32; 5] = [1, 2, 3, 0, u32::MAX];
const VNIS: [u32; 4] = [7, 8, 0, 0xff_ffff];
const MACS: [[u8; 6]; 4] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], [0; 6], [0xff; 6]];
const IPS: [u128; 6] = [
    0xffff_0a00_0001,
    0xffff_0a00_0002,
    0xffff_c000_0201,
    0xfd00 << 112 | 1,
    0,
    u128::MAX,
];

fn vpc(c: &mut Choices<'_>) -> Bits<24> {
    Bits::truncate(c.of(&VNIS).into())
}

fn mac(c: &mut Choices<'_>) -> Bits<48> {
    c.of(&MACS).into()
}

fn vlan(c: &mut Choices<'_>) -> Bits<12> {
    Bits::truncate(c.of(&[0, 1, 4094, 4095]))
}

fn ternary<T: Field>(c: &mut Choices<'_>, value: T) -> Ternary<T> {
    if c.rarely(2) {
        Ternary::exact(value)
    } else {
        Ternary::any()
    }
}

/// Any entry at all.
pub(crate) fn entry(c: &mut Choices<'_>) -> Entry {
    match c.byte() % 8 {
        0 => vport::Entry {
            key: vport::Key {
                device_port: c.of(&DEVICE_PORTS),
                vlan: vlan(c),
            },
            action: match c.byte() % 8 {
                0..6 => vport::Action::SetPort {
                    port_id: c.of(&IDS),
                    vpc: vpc(c),
                },
                6 => vport::Action::SetUplink,
                _ => vport::Action::SetFrontEnd { vpc: vpc(c) },
            },
            meter: None,
        }
        .into(),
        1 => underlay::Entry {
            key: underlay::Key {
                src_vtep: c.of(&IPS),
                dst_vtep: c.of(&IPS),
                vni: vpc(c),
            },
            action: underlay::Action::Decap { vpc: vpc(c) },
        }
        .into(),
        2 => spoof_guard::Entry {
            key: spoof_guard::Key {
                port_id: c.of(&IDS),
                src_mac: mac(c),
                src_ip: c.of(&IPS),
            },
            action: spoof_guard::Action::Pass,
        }
        .into(),
        3 => acl_entry(c),
        4 | 5 => mapping::Entry {
            key: mapping::Key {
                vpc: vpc(c),
                dst: Lpm::new(c.of(&IPS), c.of(&[128, 120, 96, 0, 64])).expect("a prefix"),
            },
            action: mapping::Action::SetNexthop {
                nexthop_id: c.of(&IDS),
            },
        }
        .into(),
        6 => nexthop::Entry {
            key: nexthop::Key {
                nexthop_id: c.of(&IDS),
            },
            action: hop(c),
        }
        .into(),
        _ => flow::Entry {
            key: flow::Key {
                ingress: c.of(&IDS),
                vpc: vpc(c),
                src: c.of(&IPS),
                dst: c.of(&IPS),
                proto: c.of(&[6, 17]),
                sport: 80,
                dport: 81,
            },
            action: flow::Action::Forward { nexthop_id: 1 },
            idle_timeout_ns: 0,
        }
        .into(),
    }
}

fn hop(c: &mut Choices<'_>) -> nexthop::Action {
    match c.byte() % 8 {
        0..4 => nexthop::Action::ToPort {
            device_port: c.of(&DEVICE_PORTS),
            vlan: vlan(c),
            dst_mac: mac(c),
        },
        4..7 => nexthop::Action::ToVtep {
            src_vtep: c.of(&IPS),
            dst_vtep: c.of(&IPS),
            src_mac: mac(c),
            dst_mac: mac(c),
            vni: vpc(c),
            mtu: c.of(&[1500, 0, u16::MAX]),
            device_port: c.of(&DEVICE_PORTS),
        },
        _ => nexthop::Action::ToFrontEnd {
            device_port: c.of(&DEVICE_PORTS),
            src_mac: mac(c),
            dst_mac: mac(c),
        },
    }
}

fn acl_entry(c: &mut Choices<'_>) -> Entry {
    let (vni, port, src, dst) = (vpc(c), c.of(&IDS), c.of(&IPS), c.of(&IPS));
    acl::Entry {
        key: acl::Key {
            priority: Priority::new(c.of(&[1, 2, 3])).expect("a priority"),
            direction: Ternary::any(),
            vpc: ternary(c, vni),
            port_id: ternary(c, port),
            src: ternary(c, src),
            dst: ternary(c, dst),
            proto: ternary(c, 17),
            sport: Range::any(),
            dport: Range::new(c.of(&[0, 80]), c.of(&[80, u16::MAX])).expect("a range"),
        },
        action: match c.byte() % 3 {
            0 => acl::Action::AclDrop,
            1 => acl::Action::AclAllow,
            _ => acl::Action::AclAsk,
        },
    }
    .into()
}
