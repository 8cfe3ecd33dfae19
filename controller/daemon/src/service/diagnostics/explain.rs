//! Judging one packet as the workers would.

use std::net::IpAddr;

use penstock_api::v1;
use penstock_flow::{Addr, tuple::proto};
use penstock_rules::model::{Direction, Port};
use penstock_rules::{Query, Ruleset};
use tonic::Status;

use super::{convert, invalid_field};
use crate::plan::{NodePlan, Plan};

/// A port and where it is.
#[derive(Clone, Copy)]
struct Place<'a> {
    node: &'a str,
    plan: &'a NodePlan,
    id: u32,
    port: &'a Port,
}

/// What of a packet does not depend on its ends.
struct Service {
    protocol: u8,
    source_port: u16,
    destination_port: u16,
}

pub(super) fn explain(
    plan: &Plan,
    request: &v1::ExplainRequest,
) -> Result<v1::ExplainResponse, Status> {
    let service = service(request)?;
    let from = find(plan, &request.from_port).ok_or_else(|| {
        Status::not_found(format!("from_port: {:?} does not exist", request.from_port))
    })?;
    let (to, source, destination) = ends(plan, &from, request, service.protocol)?;

    let query = |direction, port, peer| Query {
        direction,
        port,
        peer,
        proto: service.protocol,
        sport: service.source_port,
        dport: service.destination_port,
    };
    let egress = judge(&from, &query(Direction::Egress, from.id, destination))?;
    let ingress = match to {
        Some(to) if to.port.vni == from.port.vni => {
            judge(&to, &query(Direction::Ingress, to.id, source))?
        }
        Some(to) => refusal(
            to.node,
            &to.port.name,
            format!(
                "{} and {} are in different VPCs, which never reach each other",
                from.port.name, to.port.name
            ),
        ),
        None => refusal(
            from.node,
            "",
            format!("no port of the VPC has the address {destination}, so it is mapped nowhere"),
        ),
    };
    let steps = vec![egress, ingress];
    let denied = steps
        .iter()
        .any(|step| step.verdict == i32::from(v1::Action::Deny));
    Ok(v1::ExplainResponse {
        verdict: action(!denied).into(),
        steps,
        source_ip: source.to_string(),
        destination_ip: destination.to_string(),
    })
}

/// The packet's protocol and ports; whatever has no meaning for it is refused.
fn service(request: &v1::ExplainRequest) -> Result<Service, Status> {
    let number = |field: &str, value: u32, most: u32| {
        u16::try_from(value)
            .ok()
            .filter(|_| value <= most)
            .ok_or_else(|| invalid_field(field, format!("{value} is not between 0 and {most}")))
    };
    let absent = |field: &str, value: u32, protocol: &str| match value {
        0 => Ok(()),
        _ => Err(invalid_field(
            field,
            format!("{value} has no meaning for {protocol}; leave it out"),
        )),
    };
    let (protocol, name) = match v1::Protocol::try_from(request.protocol) {
        Ok(v1::Protocol::Tcp) => (proto::TCP, "TCP"),
        Ok(v1::Protocol::Udp) => (proto::UDP, "UDP"),
        Ok(v1::Protocol::Icmp) => (proto::ICMP, "ICMP"),
        Ok(v1::Protocol::Icmpv6) => (proto::ICMPV6, "ICMPV6"),
        Ok(v1::Protocol::Any | v1::Protocol::Unspecified) | Err(_) => {
            return Err(invalid_field(
                "protocol",
                format!(
                    "{} is no packet's protocol; give TCP, UDP, ICMP or ICMPV6",
                    request.protocol
                ),
            ));
        }
    };
    let (source_port, destination_port) = match protocol {
        proto::ICMP | proto::ICMPV6 => {
            absent("source_port", request.source_port, name)?;
            absent("destination_port", request.destination_port, name)?;
            let kind = number("icmp_type", request.icmp_type, 255)?;
            let code = number("icmp_code", request.icmp_code, 255)?;
            (0, kind << 8 | code)
        }
        _ => {
            absent("icmp_type", request.icmp_type, name)?;
            absent("icmp_code", request.icmp_code, name)?;
            (
                number("source_port", request.source_port, 65535)?,
                number("destination_port", request.destination_port, 65535)?,
            )
        }
    };
    Ok(Service {
        protocol,
        source_port,
        destination_port,
    })
}

/// The receiver, where there is one, and both addresses.
fn ends<'a>(
    plan: &'a Plan,
    from: &Place<'_>,
    request: &v1::ExplainRequest,
    protocol: u8,
) -> Result<(Option<Place<'a>>, Addr, Addr), Status> {
    let family = match protocol {
        proto::ICMP if request.ipv6 => {
            return Err(invalid_field("ipv6", "ICMP is for IPv4; use ICMPV6"));
        }
        proto::ICMP => Some(true),
        proto::ICMPV6 => Some(false),
        _ => request.ipv6.then_some(false),
    };
    let fits = |v4: bool| family.is_none_or(|wanted| wanted == v4);
    let no_common = |to: &str| {
        invalid_field(
            "to",
            format!(
                "{} and {to} have no address of a common family that fits the packet",
                from.port.name
            ),
        )
    };
    if let Ok(address) = request.to.parse::<IpAddr>() {
        let destination = Addr::from(address);
        let source = from
            .port
            .ips
            .iter()
            .find(|ip| ip.is_v4() == destination.is_v4() && fits(ip.is_v4()))
            .ok_or_else(|| no_common(&request.to))?;
        let owner = from
            .plan
            .policy
            .endpoints
            .get(&(from.port.vni, destination));
        let name = owner.and_then(|owner| from.plan.names.ports.get(&owner.port));
        let to = name.and_then(|name| find(plan, name));
        return Ok((to, *source, destination));
    }
    let to = find(plan, &request.to).ok_or_else(|| {
        Status::not_found(format!(
            "to: {:?} is neither a port that exists nor an IP address",
            request.to
        ))
    })?;
    from.port
        .ips
        .iter()
        .filter(|source| fits(source.is_v4()))
        .find_map(|source| {
            let mut others = to.port.ips.iter();
            let destination = others.find(|ip| ip.is_v4() == source.is_v4())?;
            Some((Some(to), *source, *destination))
        })
        .ok_or_else(|| no_common(&request.to))
}

fn find<'a>(plan: &'a Plan, name: &str) -> Option<Place<'a>> {
    plan.nodes.iter().find_map(|(node, plan)| {
        let mut ports = plan.policy.ports.iter();
        let (id, port) = ports.find(|(_, port)| port.name == name)?;
        Some(Place {
            node,
            plan,
            id: *id,
            port,
        })
    })
}

fn judge(place: &Place<'_>, query: &Query) -> Result<v1::Step, Status> {
    let ruleset = Ruleset::compile((*place.plan.policy).clone()).map_err(|error| {
        Status::internal(format!(
            "the policy of {} does not compile: {error}",
            place.node
        ))
    })?;
    let judgement = ruleset.judge(query);
    let explanation = ruleset.explain(&judgement, query);
    Ok(v1::Step {
        direction: convert::direction(query.direction == Direction::Ingress).into(),
        node: place.node.to_owned(),
        port: place.port.name.clone(),
        verdict: action(judgement.allow).into(),
        reason: explanation.to_string(),
        rule: explanation.rule.unwrap_or_default(),
    })
}

fn refusal(node: &str, port: &str, reason: String) -> v1::Step {
    v1::Step {
        direction: v1::Direction::Ingress.into(),
        node: node.to_owned(),
        port: port.to_owned(),
        verdict: v1::Action::Deny.into(),
        rule: String::new(),
        reason,
    }
}

const fn action(allow: bool) -> v1::Action {
    if allow {
        v1::Action::Allow
    } else {
        v1::Action::Deny
    }
}
