//! From workers' words (ids) to the API's (names).

use penstock_api::v1;
use penstock_flow::Addr;
use penstock_slowpath_api::v1 as worker;

use crate::plan::NodePlan;

pub(super) fn flow(node: &str, plan: &NodePlan, flow: worker::Flow) -> v1::Flow {
    let worker::Flow {
        port_id,
        vni,
        key,
        ingress,
        state,
        slow_packets,
        slow_bytes,
        nic_packets,
        nic_bytes,
        offloaded,
        rule,
        idle_ns,
    } = flow;
    let key = key.unwrap_or_default();
    v1::Flow {
        node: node.to_owned(),
        port: port(plan, port_id),
        source_ip: address(&key.source_ip),
        destination_ip: address(&key.destination_ip),
        protocol: key.protocol,
        source_port: key.source_port,
        destination_port: key.destination_port,
        state,
        slow_packets,
        slow_bytes,
        nic_packets,
        nic_bytes,
        offloaded,
        rule,
        idle_ns,
        direction: direction(ingress).into(),
        vni,
    }
}

pub(super) fn drop(node: &str, plan: &NodePlan, drop: worker::Drop) -> v1::Drop {
    let worker::Drop {
        port_id,
        reason,
        key,
        ingress,
        age_ns,
        rule,
        generation,
        explanation,
    } = drop;
    let key = key.unwrap_or_default();
    v1::Drop {
        node: node.to_owned(),
        port: port(plan, port_id),
        reason,
        source_ip: address(&key.source_ip),
        destination_ip: address(&key.destination_ip),
        protocol: key.protocol,
        source_port: key.source_port,
        destination_port: key.destination_port,
        age_ns,
        rule,
        generation,
        explanation,
        direction: direction(ingress).into(),
    }
}

/// A port that is gone still has its number.
fn port(plan: &NodePlan, id: u32) -> String {
    match plan.names.ports.get(&id) {
        Some(name) => name.to_string(),
        None if id == 0 => String::new(),
        None => format!("(port id {id})"),
    }
}

fn address(bytes: &[u8]) -> String {
    match <[u8; 16]>::try_from(bytes) {
        Ok(octets) => Addr::from_octets(octets).to_string(),
        Err(_) if bytes.is_empty() => String::new(),
        Err(_) => format!("({} bytes)", bytes.len()),
    }
}

const fn direction(ingress: bool) -> v1::Direction {
    if ingress {
        v1::Direction::Ingress
    } else {
        v1::Direction::Egress
    }
}
