//! Judging one packet as the workers would.

use std::net::IpAddr;

use penstock_api::{convert, v1};
use penstock_flow::tuple::proto;
use penstock_policies::explain::{self, Destination, ExplainError, Question};
use penstock_policies::model::PortName;
use tonic::Status;

use super::{invalid_field, quoted};
use crate::plan::Plan;

/// The UDP port of RoCEv2.
const ROCE: u16 = 4791;

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
    let Service {
        protocol,
        source_port,
        destination_port,
    } = service(request)?;
    let from = PortName::parse(&request.from_port)
        .map_err(|_| Status::not_found(absent("from_port", &request.from_port)))?;
    let to = match request.to.parse::<IpAddr>() {
        Ok(address) => Destination::Ip(address.into()),
        Err(_) => PortName::parse(&request.to)
            .map(Destination::Port)
            .map_err(|_| Status::not_found(absent("to", &request.to)))?,
    };
    let names = plan
        .names()
        .ok_or_else(|| Status::not_found(absent("from_port", &request.from_port)))?;
    let question = Question {
        from,
        to,
        protocol,
        source_port,
        destination_port,
        ipv6: request.ipv6,
    };
    explain::explain(&names.model, &names.ids, &question)
        .map(|answer| convert::from_answer(&answer))
        .map_err(|error| status(&question, &error))
}

fn status(question: &Question, error: &ExplainError) -> Status {
    match error {
        ExplainError::NoPort(name) if *name == question.from => {
            Status::not_found(absent("from_port", name.as_str()))
        }
        ExplainError::NoPort(name) => Status::not_found(absent("to", name.as_str())),
        ExplainError::NoFamily { .. } => invalid_field("to", error.to_string()),
        ExplainError::Compile(_) | ExplainError::Rules { .. } => {
            tracing::error!(%error, "a question about accepted resources has no answer");
            Status::internal(error.to_string())
        }
    }
}

fn absent(field: &str, name: &str) -> String {
    let what = match field {
        "to" => "is neither a port that exists nor an IP address; give one of the two",
        _ => "is no port that exists; give the full name of one, tenants/*/vpcs/*/ports/*",
    };
    format!("{field}: {} {what}", quoted(name))
}

/// The packet's protocol and ports; whatever has no meaning for it is refused.
fn service(request: &v1::ExplainRequest) -> Result<Service, Status> {
    let number = |field: &str, value: u32, most: u32| {
        u16::try_from(value)
            .ok()
            .filter(|_| value <= most)
            .ok_or_else(|| invalid_field(field, format!("{value} is not between 0 and {most}")))
    };
    let unused = |field: &str, value: u32, protocol: &str| match value {
        0 => Ok(()),
        _ => Err(invalid_field(
            field,
            format!("{value} has no meaning for {protocol}; leave it out"),
        )),
    };
    let (protocol, name) = match v1::Protocol::try_from(request.protocol) {
        Ok(v1::Protocol::Tcp) => (proto::TCP, "TCP"),
        Ok(v1::Protocol::Udp) => (proto::UDP, "UDP"),
        Ok(v1::Protocol::Icmp) if request.ipv6 => {
            return Err(invalid_field("ipv6", "ICMP is for IPv4; use ICMPV6"));
        }
        Ok(v1::Protocol::Icmp) => (proto::ICMP, "ICMP"),
        Ok(v1::Protocol::Icmpv6) => (proto::ICMPV6, "ICMPV6"),
        Ok(v1::Protocol::Sctp) => (proto::SCTP, "SCTP"),
        Ok(v1::Protocol::Rocev2) => (proto::UDP, "ROCEV2"),
        Ok(v1::Protocol::Any | v1::Protocol::Unspecified) | Err(_) => {
            return Err(invalid_field(
                "protocol",
                format!(
                    "{} is no packet's protocol; give TCP, UDP, SCTP, ICMP, ICMPV6 or ROCEV2",
                    request.protocol
                ),
            ));
        }
    };
    let (source_port, destination_port) = match protocol {
        proto::ICMP | proto::ICMPV6 => {
            unused("source_port", request.source_port, name)?;
            unused("destination_port", request.destination_port, name)?;
            let kind = number("icmp_type", request.icmp_type, 255)?;
            let code = number("icmp_code", request.icmp_code, 255)?;
            (0, kind << 8 | code)
        }
        _ => {
            unused("icmp_type", request.icmp_type, name)?;
            unused("icmp_code", request.icmp_code, name)?;
            let source = number("source_port", request.source_port, 65535)?;
            let destination = match name {
                "ROCEV2" if [0, ROCE.into()].contains(&request.destination_port) => ROCE,
                "ROCEV2" => {
                    let port = request.destination_port;
                    let message = format!("{port} is not RoCEv2's 4791; leave it out, or use UDP");
                    return Err(invalid_field("destination_port", message));
                }
                _ => number("destination_port", request.destination_port, 65535)?,
            };
            (source, destination)
        }
    };
    Ok(Service {
        protocol,
        source_port,
        destination_port,
    })
}
