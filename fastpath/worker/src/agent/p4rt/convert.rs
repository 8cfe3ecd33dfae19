//! Between the P4 program's typed entries and the engine's.
//!
//! The two say the same in different words; whatever cannot be said in the engine's is
//! refused here, never dropped on the way.

use p4runtime::batch::Refusal;
use p4runtime::pipeline::{self, acl, fence, flow, mapping, nexthop, spoof_guard, underlay, vport};
use p4runtime::{Bits, Field, Priority, Range, Ternary, v1};
use penstock_engine::counters::Traffic;
use penstock_engine::nic::{
    self, AclAction, AclKey, Entry, FenceKey, FlowAction, FlowEntry, Hop, TableError,
};
use penstock_flow::{Addr, Mac, Prefix};
use tonic::Code;

/// Where an entry is kept, beside the agent's own tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// In the engine's tables.
    Engine(Entry),
    /// Nowhere else: it states what the engine knows from its configuration.
    Agent,
}

/// What the soft NIC makes of an entry. `uplink` is the NIC's own device port.
///
/// # Errors
/// The soft NIC cannot do what the entry says.
pub fn entry(entry: &pipeline::Entry, uplink: u32) -> Result<Home, Refusal> {
    use pipeline::Entry as P;
    Ok(Home::Engine(match entry {
        P::Vport(vport::Entry { key, action, meter }) => {
            if meter.is_some() {
                return unimplemented(
                    "vport: meter_config: the soft NIC has no meters; leave it out",
                );
            }
            match action {
                // So an entry is either the engine's or the agent's, whatever it changes to.
                vport::Action::SetPort { .. } if key.device_port == uplink => {
                    return Err(Refusal::new(
                        Code::InvalidArgument,
                        format!("vport: device_port {uplink} is this NIC's uplink; use another"),
                    ));
                }
                vport::Action::SetPort { port_id, vpc } => Entry::Vport {
                    device_port: key.device_port,
                    vlan: small(key.vlan),
                    port_id: *port_id,
                    vni: vni(*vpc),
                },
                vport::Action::SetUplink if key.device_port == uplink && key.vlan.get() == 0 => {
                    return Ok(Home::Agent);
                }
                vport::Action::SetUplink => {
                    return Err(Refusal::new(
                        Code::InvalidArgument,
                        format!(
                            "vport: device_port {} is no uplink; this NIC's is {uplink}, untagged",
                            key.device_port
                        ),
                    ));
                }
                vport::Action::SetFrontEnd { .. } => {
                    return unimplemented(
                        "vport: set_front_end: the soft NIC has no front-end path",
                    );
                }
            }
        }
        P::Underlay(underlay::Entry {
            key,
            action: underlay::Action::Decap { vpc },
        }) => Entry::Underlay {
            src_vtep: Addr(key.src_vtep),
            dst_vtep: Addr(key.dst_vtep),
            vni: vni(key.vni),
            decap_vni: vni(*vpc),
        },
        P::SpoofGuard(spoof_guard::Entry {
            key,
            action: spoof_guard::Action::Pass,
        }) => Entry::SpoofGuard {
            port_id: key.port_id,
            mac: Mac(key.src_mac.into()),
            ip: Addr(key.src_ip),
        },
        P::Acl(acl::Entry { key, action }) => Entry::Acl {
            key: acl_key(key),
            priority: key.priority.get().unsigned_abs(),
            action: match action {
                acl::Action::AclAllow => AclAction::Allow,
                acl::Action::AclDrop => AclAction::Drop,
                acl::Action::AclAsk => AclAction::Ask,
            },
        },
        P::Mapping(mapping::Entry {
            key,
            action: mapping::Action::SetNexthop { nexthop_id },
        }) => Entry::Mapping {
            vni: vni(key.vpc),
            dst: prefix(key)?,
            nexthop: *nexthop_id,
        },
        P::Nexthop(nexthop::Entry { key, action }) => Entry::Nexthop {
            id: key.nexthop_id,
            hop: hop(action),
        },
        P::Fence(_) | P::RdmaQp(_) | P::RdmaPair(_) | P::Flow(_) | P::Drops(_) => {
            return Err(workers_own(entry.table()));
        }
    }))
}

/// The answer to a write of a table that no client owns.
#[must_use]
pub fn workers_own(table: pipeline::Table) -> Refusal {
    Refusal::new(
        Code::PermissionDenied,
        format!(
            "{}: the worker writes this table itself; it is read-only to every client",
            table.name()
        ),
    )
}

/// What the engine's refusal is on the wire.
#[must_use]
pub fn refusal(error: &TableError) -> Refusal {
    let code = match error {
        TableError::ReadOnly(_) => Code::PermissionDenied,
        TableError::Exists(_) => Code::AlreadyExists,
        TableError::Missing(_) | TableError::UnknownDevice(_) => Code::NotFound,
        TableError::Full { .. } => Code::ResourceExhausted,
        TableError::Invalid { .. } => Code::InvalidArgument,
    };
    Refusal::new(code, error.to_string())
}

/// A row of the engine's flow table, with what it has carried.
#[must_use]
pub fn flow_row(row: &FlowEntry) -> v1::TableEntry {
    let tuple = row.tuple;
    let entry = flow::Entry {
        key: flow::Key {
            ingress: row.ingress,
            vpc: Bits::truncate(row.vni.into()),
            src: tuple.src.0,
            dst: tuple.dst.0,
            proto: tuple.proto,
            sport: tuple.sport,
            dport: tuple.dport,
        },
        action: match row.action {
            FlowAction::Forward(nexthop_id) => flow::Action::Forward { nexthop_id },
            FlowAction::Deny => flow::Action::Deny,
        },
        idle_timeout_ns: 0,
    };
    v1::TableEntry {
        counter_data: Some(v1::CounterData {
            byte_count: clamp(row.hits.bytes),
            packet_count: clamp(row.hits.packets),
        }),
        time_since_last_hit: Some(v1::table_entry::IdleTimeout {
            elapsed_ns: clamp(row.idle_ns),
        }),
        ..entry.encode()
    }
}

/// A fence, with what it has caught; `None` for a priority that the wire cannot
/// carry, which no fence has.
#[must_use]
pub fn fence_row(key: &FenceKey, priority: u32, caught: Traffic) -> Option<v1::TableEntry> {
    let FenceKey {
        vni,
        port_id,
        src,
        dst,
        proto,
    } = *key;
    let bits = |value: u32| Bits::<24>::truncate(value.into());
    let entry = fence::Entry {
        key: fence::Key {
            priority: i32::try_from(priority).ok().and_then(Priority::new)?,
            vpc: Ternary::new(bits(vni.value), bits(vni.mask)),
            port_id: Ternary::new(port_id.value, port_id.mask),
            src: Ternary::new(src.value, src.mask),
            dst: Ternary::new(dst.value, dst.mask),
            proto: Ternary::new(proto.value, proto.mask),
        },
        action: fence::Action::FenceAsk,
    };
    Some(v1::TableEntry {
        counter_data: Some(v1::CounterData {
            byte_count: clamp(caught.bytes),
            packet_count: clamp(caught.packets),
        }),
        ..entry.encode()
    })
}

/// Signed on the wire; 2^63 packets are out of reach.
fn clamp(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn unimplemented<T>(message: &str) -> Result<T, Refusal> {
    Err(Refusal::new(Code::Unimplemented, message))
}

fn acl_key(key: &acl::Key) -> AclKey {
    AclKey {
        direction: ternary(key.direction, |bit| bit.get() as u8),
        vni: ternary(key.vpc, vni),
        port_id: ternary(key.port_id, |id| id),
        src: ternary(key.src, |addr| addr),
        dst: ternary(key.dst, |addr| addr),
        proto: ternary(key.proto, |proto| proto),
        sport: range(key.sport),
        dport: range(key.dport),
    }
}

fn hop(action: &nexthop::Action) -> Hop {
    match action {
        nexthop::Action::ToPort {
            device_port,
            vlan,
            dst_mac,
        } => Hop::ToPort {
            device_port: *device_port,
            vlan: small(*vlan),
            dst_mac: Mac((*dst_mac).into()),
        },
        nexthop::Action::ToVtep {
            src_vtep,
            dst_vtep,
            src_mac,
            dst_mac,
            vni: wire,
            mtu,
            device_port,
        } => Hop::ToVtep {
            src_vtep: Addr(*src_vtep),
            dst_vtep: Addr(*dst_vtep),
            src_mac: Mac((*src_mac).into()),
            dst_mac: Mac((*dst_mac).into()),
            vni: vni(*wire),
            mtu: *mtu,
            device_port: *device_port,
        },
        nexthop::Action::ToFrontEnd {
            device_port,
            src_mac,
            dst_mac,
        } => Hop::ToFrontEnd {
            device_port: *device_port,
            src_mac: Mac((*src_mac).into()),
            dst_mac: Mac((*dst_mac).into()),
        },
    }
}

fn prefix(key: &mapping::Key) -> Result<Prefix, Refusal> {
    // A typed prefix is no longer than 128 bits and has none set beyond it.
    u8::try_from(key.dst.prefix_len())
        .ok()
        .and_then(|len| Prefix::new(Addr(key.dst.value()), len))
        .ok_or_else(|| {
            Refusal::new(
                Code::InvalidArgument,
                format!("mapping: dst: {:?} is no prefix", key.dst),
            )
        })
}

/// 24 bits.
fn vni(value: Bits<24>) -> u32 {
    value.get() as u32
}

/// 12 bits.
fn small(value: Bits<12>) -> u16 {
    value.get() as u16
}

fn ternary<T: Field, U>(match_: Ternary<T>, to: impl Fn(T) -> U) -> nic::Ternary<U> {
    nic::Ternary {
        value: to(match_.value()),
        mask: to(match_.mask()),
    }
}

fn range(match_: Range<u16>) -> nic::Range {
    nic::Range {
        low: match_.low(),
        high: match_.high(),
    }
}

#[cfg(test)]
mod tests {
    use p4runtime::Lpm;

    use super::*;

    fn engine(entry_: impl Into<pipeline::Entry>) -> Entry {
        match entry(&entry_.into(), 1) {
            Ok(Home::Engine(entry)) => entry,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_field_of_a_static_rule_arrives() {
        let rule = acl::Entry {
            key: acl::Key {
                priority: Priority::new(7).expect("one"),
                direction: Ternary::exact(Bits::MAX),
                vpc: Ternary::exact(Bits::from(9_u8)),
                port_id: Ternary::new(0x30, 0xf0),
                src: Ternary::prefix(0xffff_0a00_0000, 104).expect("a prefix"),
                dst: Ternary::any(),
                proto: Ternary::exact(17),
                sport: Range::any(),
                dport: Range::new(80, 90).expect("a range"),
            },
            action: acl::Action::AclAllow,
        };
        let expected = AclKey {
            direction: nic::Ternary { value: 1, mask: 1 },
            vni: nic::Ternary {
                value: 9,
                mask: 0xff_ffff,
            },
            port_id: nic::Ternary {
                value: 0x30,
                mask: 0xf0,
            },
            src: nic::Ternary {
                value: 0xffff_0a00_0000,
                mask: u128::MAX << 24,
            },
            dst: nic::Ternary { value: 0, mask: 0 },
            proto: nic::Ternary {
                value: 17,
                mask: 0xff,
            },
            sport: nic::Range::ANY,
            dport: nic::Range { low: 80, high: 90 },
        };
        let written = Entry::Acl {
            key: expected,
            priority: 7,
            action: AclAction::Allow,
        };
        assert_eq!(engine(rule), written);
    }

    #[test]
    fn every_field_of_a_way_to_another_node_arrives() {
        let hop = nexthop::Entry {
            key: nexthop::Key { nexthop_id: 5 },
            action: nexthop::Action::ToVtep {
                src_vtep: 0xffff_c000_0201,
                dst_vtep: 0xffff_c000_0202,
                src_mac: Bits::from([2, 0, 0, 0, 0, 1]),
                dst_mac: Bits::from([2, 0, 0, 0, 0, 2]),
                vni: Bits::MAX,
                mtu: 1450,
                device_port: 3,
            },
        };
        let written = Entry::Nexthop {
            id: 5,
            hop: Hop::ToVtep {
                src_vtep: Addr::from_v4([192, 0, 2, 1]),
                dst_vtep: Addr::from_v4([192, 0, 2, 2]),
                src_mac: Mac([2, 0, 0, 0, 0, 1]),
                dst_mac: Mac([2, 0, 0, 0, 0, 2]),
                vni: 0xff_ffff,
                mtu: 1450,
                device_port: 3,
            },
        };
        assert_eq!(engine(hop), written);
        let route = mapping::Entry {
            key: mapping::Key {
                vpc: Bits::from(9_u8),
                dst: Lpm::new(0xffff_0a00_0000, 120).expect("a prefix"),
            },
            action: mapping::Action::SetNexthop { nexthop_id: 5 },
        };
        let written = Entry::Mapping {
            vni: 9,
            dst: Prefix::new(Addr::from_v4([10, 0, 0, 0]), 120).expect("a prefix"),
            nexthop: 5,
        };
        assert_eq!(engine(route), written);
    }

    #[test]
    fn every_field_of_a_fence_is_told() {
        let key = FenceKey {
            vni: nic::Ternary {
                value: 9,
                mask: 0xff_ffff,
            },
            port_id: nic::Ternary {
                value: 4,
                mask: u32::MAX,
            },
            src: nic::Ternary {
                value: 0xffff_0a00_0000,
                mask: u128::MAX << 24,
            },
            dst: nic::Ternary::default(),
            proto: nic::Ternary {
                value: 6,
                mask: 0xff,
            },
        };
        let caught = Traffic {
            packets: 3,
            bytes: 180,
        };
        let row = fence_row(&key, 2, caught).expect("a priority");
        let counted = row.counter_data.expect("counted");
        assert_eq!((counted.packet_count, counted.byte_count), (3, 180));
        let told = fence::Entry {
            key: fence::Key {
                priority: Priority::new(2).expect("one"),
                vpc: Ternary::exact(Bits::from(9_u8)),
                port_id: Ternary::exact(4),
                src: Ternary::prefix(0xffff_0a00_0000, 104).expect("a prefix"),
                dst: Ternary::any(),
                proto: Ternary::exact(6),
            },
            action: fence::Action::FenceAsk,
        };
        assert_eq!(pipeline::Entry::decode(&row), Ok(told.into()));
        assert_eq!(fence_row(&key, 0, caught), None);
    }

    #[test]
    fn what_the_soft_nic_cannot_do_is_refused() {
        let vport = |device_port, vlan: u8, action| {
            let key = vport::Key {
                device_port,
                vlan: Bits::from(vlan),
            };
            let meter = None;
            let vport = vport::Entry { key, action, meter };
            entry(&vport.into(), 1).map_err(|refusal| refusal.code)
        };
        use vport::Action::{SetFrontEnd, SetPort, SetUplink};
        let vpc = Bits::from(9_u8);
        let port_id = 4;
        assert_eq!(
            vport(1, 5, SetPort { port_id, vpc }),
            Err(Code::InvalidArgument)
        );
        assert_eq!(vport(1, 0, SetUplink), Ok(Home::Agent));
        assert_eq!(vport(1, 5, SetUplink), Err(Code::InvalidArgument));
        assert_eq!(vport(2, 0, SetUplink), Err(Code::InvalidArgument));
        assert_eq!(vport(2, 0, SetFrontEnd { vpc }), Err(Code::Unimplemented));
    }
}
