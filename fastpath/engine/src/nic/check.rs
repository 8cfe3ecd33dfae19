//! What an entry may say, whatever is in the tables.

use super::{Entry, Hop, Table, TableError, Ternary};

const VNI_MAX: u32 = 0xff_ffff;
const VLAN_MAX: u16 = 4094;

/// Refuses values that the P4 program's fields cannot hold or that mean
/// nothing.
pub(super) fn check(entry: &Entry, device_ports: u32) -> Result<(), TableError> {
    let f = Field(entry.table());
    match entry {
        Entry::Vport {
            device_port,
            vlan,
            port_id,
            vni,
        } => {
            f.device_port(*device_port, device_ports)?;
            f.vlan(*vlan)?;
            f.not_zero("port_id", *port_id)?;
            f.vni("vpc", *vni)
        }
        Entry::Underlay { vni, decap_vni, .. } => {
            f.vni("vni", *vni)?;
            f.vni("vpc", *decap_vni)
        }
        Entry::SpoofGuard { port_id, mac, .. } => {
            f.not_zero("port_id", *port_id)?;
            if mac.is_multicast() {
                return f.no("src_mac", 0, "use the port's own unicast MAC");
            }
            Ok(())
        }
        Entry::Fence { .. } => Err(TableError::ReadOnly(f.0)),
        Entry::Acl { key, priority, .. } => {
            f.not_zero("priority", *priority)?;
            f.ternary("direction", &key.direction)?;
            f.ternary("vpc", &key.vni)?;
            f.ternary("port_id", &key.port_id)?;
            f.ternary("src", &key.src)?;
            f.ternary("dst", &key.dst)?;
            f.ternary("proto", &key.proto)?;
            for (field, range) in [("sport", &key.sport), ("dport", &key.dport)] {
                if range.low > range.high {
                    let low = u64::from(range.low);
                    return f.no(field, low, "let low be at most high");
                }
            }
            Ok(())
        }
        Entry::Mapping { vni, nexthop, .. } => {
            f.vni("vpc", *vni)?;
            f.not_zero("nexthop_id", *nexthop)
        }
        Entry::Nexthop { id, hop } => {
            f.not_zero("nexthop_id", *id)?;
            match hop {
                Hop::ToPort {
                    device_port, vlan, ..
                } => {
                    f.device_port(*device_port, device_ports)?;
                    f.vlan(*vlan)
                }
                Hop::ToVtep {
                    vni,
                    device_port,
                    src_vtep,
                    dst_vtep,
                    ..
                } => {
                    f.vni("vni", *vni)?;
                    if src_vtep.is_v4() != dst_vtep.is_v4() {
                        return f.no("src_vtep", 0, "use dst_vtep's address family");
                    }
                    f.device_port(*device_port, device_ports)
                }
                Hop::ToFrontEnd { device_port, .. } => f.no(
                    "to_front_end.device_port",
                    u64::from(*device_port),
                    "the front-end path is not carried; use to_port or to_vtep",
                ),
            }
        }
    }
}

struct Field(Table);

impl Field {
    fn no(&self, field: &'static str, value: u64, remedy: &'static str) -> Result<(), TableError> {
        Err(TableError::Invalid {
            table: self.0,
            field,
            value,
            remedy,
        })
    }

    fn not_zero(&self, field: &'static str, value: u32) -> Result<(), TableError> {
        if value == 0 {
            return self.no(field, 0, "use 1 or more");
        }
        Ok(())
    }

    fn vni(&self, field: &'static str, vni: u32) -> Result<(), TableError> {
        if vni == 0 || vni > VNI_MAX {
            return self.no(field, u64::from(vni), "use 1 to 16777215");
        }
        Ok(())
    }

    fn vlan(&self, vlan: u16) -> Result<(), TableError> {
        if vlan > VLAN_MAX {
            return self.no("vlan", u64::from(vlan), "use 0 (untagged) to 4094");
        }
        Ok(())
    }

    fn device_port(&self, port: u32, limit: u32) -> Result<(), TableError> {
        if port == 0 || port >= limit {
            let port = u64::from(port);
            return self.no("device_port", port, "use one that the worker has reported");
        }
        Ok(())
    }

    fn ternary<T>(&self, field: &'static str, t: &Ternary<T>) -> Result<(), TableError>
    where
        T: Copy + PartialEq + core::ops::BitAnd<Output = T>,
    {
        if t.is_canonical() {
            return Ok(());
        }
        self.no(field, 0, "clear the value's bits outside its mask")
    }
}
