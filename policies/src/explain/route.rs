//! Where a packet goes once policy lets it, and what carries it: read off the
//! tables that the controller writes.

use std::collections::BTreeMap;

use penstock_flow::tuple::proto;
use penstock_flow::{Addr, Prefix, Tuple};

use super::{ExplainError, Step};
use crate::compile::port_id;
use crate::ids::Ids;
use crate::model::{Model, NodeName, Port, PortName};
use crate::nic::{self, Interfaces, MappingKey, Nexthop};

/// How a packet gets from the sender's NIC to the receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The VPC's number, on the wire too.
    pub vni: u32,
    /// The entry of the NIC's `mapping` that it meets.
    pub mapping: Prefix,
    /// The number of the next hop that this entry names.
    pub nexthop: u32,
    /// Where that leads.
    pub hop: Hop,
}

/// A next hop, in names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hop {
    /// The receiver hangs on the same NIC.
    Port {
        /// The receiver.
        port: PortName,
        /// The host's name of its interface.
        attachment: String,
        /// 0: untagged.
        vlan: u16,
    },
    /// The receiver is behind another NIC.
    Tunnel {
        /// This end.
        from: Addr,
        /// The other end.
        to: Addr,
        /// Whose that is.
        node: NodeName,
        /// Which of the node's NICs.
        device_id: u32,
        /// Bytes of a tenant's IP packet that both ends' underlay takes.
        mtu: u16,
    },
}

/// An entry that a NIC's flow table gets when the connection is established.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowEntry {
    /// Whose NIC.
    pub node: NodeName,
    /// Which of the node's.
    pub device_id: u32,
    /// The port that sends; none: it comes from the wire.
    pub ingress: Option<PortName>,
    /// The VPC's number.
    pub vni: u32,
    /// The flow.
    pub tuple: Tuple,
    /// The number of the next hop, which is that of the port where it ends.
    pub nexthop: u32,
    /// That port.
    pub to: PortName,
}

/// An end of a packet that has a port.
#[derive(Clone, Copy)]
pub(super) struct End<'a> {
    pub(super) name: &'a PortName,
    pub(super) port: &'a Port,
}

/// What the sender's NIC knows of the destination.
pub(super) fn route(
    model: &Model,
    ids: &Ids,
    from: End<'_>,
    to: End<'_>,
    destination: Addr,
) -> Result<Option<Route>, ExplainError> {
    let node = &from.port.node;
    // Every interface is taken to be there; which number it has does not matter.
    let interfaces = Interfaces::made_up(model, ids, node)?;
    let programs = nic::programs(model, ids, node, &interfaces)?;
    let vni = crate::compile::vni(model, &from.name.vpc())?;
    let found = programs.get(&from.port.nic).and_then(|program| {
        let dst = Prefix::new(destination, 128)?;
        let nexthop = *program.mapping.get(&MappingKey { vni, dst })?;
        Some((dst, nexthop, program.nexthop.get(&nexthop)?))
    });
    let Some((mapping, nexthop, hop)) = found else {
        return Ok(None);
    };
    let hop = match hop {
        Nexthop::ToPort { vlan, .. } => Hop::Port {
            port: to.name.clone(),
            attachment: to.port.attachment.clone(),
            vlan: *vlan,
        },
        Nexthop::ToVtep {
            src_vtep,
            dst_vtep,
            mtu,
            ..
        } => Hop::Tunnel {
            from: *src_vtep,
            to: *dst_vtep,
            node: to.port.node.clone(),
            device_id: to.port.nic,
            mtu: *mtu,
        },
    };
    Ok(Some(Route {
        vni,
        mapping,
        nexthop,
        hop,
    }))
}

/// Whether established connections of its kind are offered to NICs at all.
pub(super) const fn is_offered(tuple: &Tuple) -> bool {
    match tuple.proto {
        proto::TCP | proto::UDP => true,
        proto::ICMP | proto::ICMPV6 => tuple.reply().is_some(),
        _ => false,
    }
}

/// What the flow tables get: a pair per NIC whose ends all make a connection of it.
pub(super) fn entries(
    ids: &Ids,
    vni: u32,
    from: End<'_>,
    to: End<'_>,
    tuple: Tuple,
    steps: &[Step],
) -> Result<Vec<FlowEntry>, ExplainError> {
    let Some(reply) = tuple.reply().filter(|_| is_offered(&tuple)) else {
        return Ok(Vec::new());
    };
    let mut per_nic: BTreeMap<(&NodeName, u32), bool> = BTreeMap::new();
    for (step, end) in steps.iter().zip([from, to]) {
        let at = (&end.port.node, end.port.nic);
        *per_nic.entry(at).or_insert(true) &= step.explanation.stateful;
    }
    let mut entries = Vec::new();
    for ((node, device_id), _) in per_nic.into_iter().filter(|(_, stateful)| *stateful) {
        for (sender, receiver, tuple) in [(from, to, tuple), (to, from, reply)] {
            let is_here = (&sender.port.node, sender.port.nic) == (node, device_id);
            entries.push(FlowEntry {
                node: node.clone(),
                device_id,
                ingress: is_here.then(|| sender.name.clone()),
                vni,
                tuple,
                nexthop: port_id(ids, receiver.name)?,
                to: receiver.name.clone(),
            });
        }
    }
    Ok(entries)
}
