//! Rows of the controller's tables, as plain data.

use std::fmt;

use penstock_flow::{Addr, Mac, Prefix};

/// A row of one of the controller's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// Who is on a device port.
    Vport {
        /// Key: the worker's number of the interface.
        device_port: u32,
        /// Key: 802.1Q tag; 0: untagged.
        vlan: u16,
        /// Who.
        bind: Bind,
    },
    /// A tunnel that may arrive.
    Underlay {
        /// Key: the other end.
        src_vtep: Addr,
        /// Key: this end.
        dst_vtep: Addr,
        /// Key: VNI on the wire.
        vni: u32,
        /// The VPC that it becomes.
        decap: u32,
    },
    /// A source that a port may use: all key.
    SpoofGuard {
        /// The port's id.
        port: u32,
        /// Source MAC.
        mac: Mac,
        /// Source address.
        ip: Addr,
    },
    /// A static rule.
    Acl(Acl),
    /// Where an address is; the longest prefix counts.
    Mapping {
        /// Key: the VPC.
        vni: u32,
        /// Key: destinations.
        dst: Prefix,
        /// The next hop.
        nexthop: u32,
    },
    /// How to get there.
    Nexthop {
        /// Key.
        id: u32,
        /// Where it leads.
        hop: Hop,
    },
}

/// Who is on a device port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bind {
    /// A tenant's port.
    Port {
        /// Its id.
        port: u32,
        /// Its VPC.
        vni: u32,
    },
    /// The way to the underlay.
    Uplink,
    /// The front-end network.
    FrontEnd,
}

/// Where a next hop leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hop {
    /// To an interface of this NIC.
    ToPort {
        /// Which.
        device_port: u32,
        /// 0: untagged.
        vlan: u16,
        /// The receiver's MAC.
        mac: Mac,
    },
    /// Into a tunnel.
    ToVtep {
        /// This end.
        src_vtep: Addr,
        /// The other end.
        dst_vtep: Addr,
        /// Zero: the uplink's own.
        src_mac: Mac,
        /// Zero: the worker finds it.
        dst_mac: Mac,
        /// VNI on the wire.
        vni: u32,
        /// Largest inner IP packet.
        mtu: u16,
        /// The way out.
        device_port: u32,
    },
    /// To the front-end network.
    ToFrontEnd {
        /// The way out.
        device_port: u32,
    },
}

/// A static rule: ternary and ranges, the higher priority wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Acl {
    /// Key: 1 or more.
    pub priority: u32,
    /// Key: 0 leaving a port, 1 arriving from the wire.
    pub direction: Ternary<u8>,
    /// Key: VPC.
    pub vni: Ternary<u32>,
    /// Key: the sending port; 0 from the wire.
    pub port: Ternary<u32>,
    /// Key: source address.
    pub src: Ternary<u128>,
    /// Key: destination address.
    pub dst: Ternary<u128>,
    /// Key: protocol.
    pub proto: Ternary<u8>,
    /// Key: first and last source port.
    pub sport: (u16, u16),
    /// Key: first and last destination port, or ICMP type and code.
    pub dport: (u16, u16),
    /// What it says.
    pub action: AclAction,
}

/// What a static rule says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AclAction {
    /// Denied.
    Drop,
    /// Passes without a connection.
    Allow,
    /// The slow path decides.
    Ask,
}

/// A value and which of its bits count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ternary<T> {
    /// Bits outside the mask are zero.
    pub value: T,
    /// Bits that count.
    pub mask: T,
}

impl<T: Copy + PartialEq + std::ops::BitAnd<Output = T>> Ternary<T> {
    pub(crate) fn matches(&self, x: T) -> bool {
        x & self.mask == self.value
    }
}

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Table {
    /// `vport`
    Vport,
    /// `underlay`
    Underlay,
    /// `spoof_guard`
    SpoofGuard,
    /// `acl`
    Acl,
    /// `mapping`
    Mapping,
    /// `nexthop`
    Nexthop,
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Vport => "vport",
            Self::Underlay => "underlay",
            Self::SpoofGuard => "spoof_guard",
            Self::Acl => "acl",
            Self::Mapping => "mapping",
            Self::Nexthop => "nexthop",
        })
    }
}

/// What tells rows apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    Vport(u32, u16),
    Underlay(Addr, Addr, u32),
    SpoofGuard(u32, Mac, Addr),
    Acl(Acl),
    Mapping(u32, Prefix),
    Nexthop(u32),
}

impl Row {
    /// The table it belongs to.
    #[must_use]
    pub const fn table(&self) -> Table {
        match self {
            Self::Vport { .. } => Table::Vport,
            Self::Underlay { .. } => Table::Underlay,
            Self::SpoofGuard { .. } => Table::SpoofGuard,
            Self::Acl(_) => Table::Acl,
            Self::Mapping { .. } => Table::Mapping,
            Self::Nexthop { .. } => Table::Nexthop,
        }
    }

    pub(crate) const fn key(&self) -> Key {
        match *self {
            Self::Vport {
                device_port, vlan, ..
            } => Key::Vport(device_port, vlan),
            Self::Underlay {
                src_vtep,
                dst_vtep,
                vni,
                decap: _,
            } => Key::Underlay(src_vtep, dst_vtep, vni),
            Self::SpoofGuard { port, mac, ip } => Key::SpoofGuard(port, mac, ip),
            Self::Acl(acl) => Key::Acl(Acl {
                action: AclAction::Ask,
                ..acl
            }),
            Self::Mapping {
                vni,
                dst,
                nexthop: _,
            } => Key::Mapping(vni, dst),
            Self::Nexthop { id, hop: _ } => Key::Nexthop(id),
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vport {
                device_port,
                vlan,
                bind,
            } => {
                write!(f, "device port {device_port} vlan {vlan} -> ")?;
                match bind {
                    Bind::Port { port, vni } => write!(f, "port {port} vni {vni}"),
                    Bind::Uplink => f.write_str("uplink"),
                    Bind::FrontEnd => f.write_str("front end"),
                }
            }
            Self::Underlay {
                src_vtep,
                dst_vtep,
                vni,
                decap,
            } => write!(f, "{src_vtep} -> {dst_vtep} vni {vni} -> vni {decap}"),
            Self::SpoofGuard { port, mac, ip } => write!(f, "port {port} {mac} {ip}"),
            Self::Acl(acl) => write!(
                f,
                "priority {} direction {}&{} vni {}&{:#x} port {}&{:#x} src {}&{:x} dst {}&{:x} proto {}&{:#x} \
                 sport {}-{} dport {}-{} -> {:?}",
                acl.priority,
                acl.direction.value,
                acl.direction.mask,
                acl.vni.value,
                acl.vni.mask,
                acl.port.value,
                acl.port.mask,
                Addr(acl.src.value),
                acl.src.mask,
                Addr(acl.dst.value),
                acl.dst.mask,
                acl.proto.value,
                acl.proto.mask,
                acl.sport.0,
                acl.sport.1,
                acl.dport.0,
                acl.dport.1,
                acl.action,
            ),
            Self::Mapping { vni, dst, nexthop } => write!(f, "vni {vni} {dst} -> {nexthop}"),
            Self::Nexthop { id, hop } => match hop {
                Hop::ToPort {
                    device_port,
                    vlan,
                    mac,
                } => write!(f, "{id} -> device port {device_port} vlan {vlan} {mac}"),
                Hop::ToVtep {
                    src_vtep,
                    dst_vtep,
                    vni,
                    mtu,
                    device_port,
                    ..
                } => write!(
                    f,
                    "{id} -> {src_vtep} to {dst_vtep} vni {vni} mtu {mtu} by device port {device_port}"
                ),
                Hop::ToFrontEnd { device_port } => {
                    write!(f, "{id} -> front end by device port {device_port}")
                }
            },
        }
    }
}
