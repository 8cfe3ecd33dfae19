//! `explain`: asks a server, or documents.

use std::net::IpAddr;

use penstock_api::{convert, v1};
use penstock_flow::tuple::proto;
use penstock_policies::Ids;
use penstock_policies::explain::{self, Destination, Question};
use penstock_policies::model::PortName;

use crate::args::{Explain, Format, Protocol};
use crate::failure::Failure;
use crate::message::Messages;
use crate::output;
use crate::session::{Session, port_name};

mod text;

/// The UDP port of RoCEv2.
const ROCE: u16 = 4791;

/// The packet, with its defaults filled in and nothing without meaning.
struct Packet {
    protocol: v1::Protocol,
    number: u8,
    source_port: u16,
    /// Destination port; for ICMP nothing.
    destination_port: u16,
    icmp: Option<(u8, u8)>,
}

impl Packet {
    fn of(args: &Explain) -> Result<Self, Failure> {
        let Explain {
            proto,
            dport,
            sport,
            icmp_type,
            icmp_code,
            ..
        } = args;
        let usage = |text: &str| Err(Failure::Usage(text.to_owned()));
        let (protocol, number, echo) = match proto {
            Protocol::Tcp => (v1::Protocol::Tcp, proto::TCP, None),
            Protocol::Udp => (v1::Protocol::Udp, proto::UDP, None),
            Protocol::Sctp => (v1::Protocol::Sctp, proto::SCTP, None),
            Protocol::Rocev2 => (v1::Protocol::Rocev2, proto::UDP, None),
            Protocol::Icmp => (v1::Protocol::Icmp, proto::ICMP, Some(8)),
            Protocol::Icmpv6 => (v1::Protocol::Icmpv6, proto::ICMPV6, Some(128)),
        };
        match echo {
            Some(_) if dport.is_some() || sport.is_some() => {
                usage("ICMP has no ports; give --icmp-type and --icmp-code instead")
            }
            Some(echo) => Ok(Self {
                protocol,
                number,
                source_port: 0,
                destination_port: 0,
                icmp: Some((icmp_type.unwrap_or(echo), icmp_code.unwrap_or(0))),
            }),
            None if icmp_type.is_some() || icmp_code.is_some() => {
                usage("--icmp-type and --icmp-code need --proto icmp or icmpv6")
            }
            None => match dport.or((*proto == Protocol::Rocev2).then_some(ROCE)) {
                Some(port) if *proto == Protocol::Rocev2 && port != ROCE => {
                    usage("ROCEV2 is UDP to port 4791; leave --dport out, or use --proto udp")
                }
                None => usage("give --dport, the destination port"),
                Some(destination_port) => Ok(Self {
                    protocol,
                    number,
                    source_port: sport.unwrap_or(40_000),
                    destination_port,
                    icmp: None,
                }),
            },
        }
    }
}

impl Packet {
    /// The packet in a line.
    fn line(&self, answer: &v1::ExplainResponse) -> String {
        let service = match self.icmp {
            Some((kind, code)) => format!("type {kind} code {code}"),
            None => format!("port {}", self.destination_port),
        };
        let (from, to) = (&answer.source_ip, &answer.destination_ip);
        let protocol = self.protocol.as_str_name();
        format!("{protocol} {from} -> {to} {service}")
    }
}

pub(super) async fn online(
    session: &Session,
    args: &Explain,
    format: Format,
) -> Result<(), Failure> {
    let packet = Packet::of(args)?;
    let (kind, code) = packet.icmp.unwrap_or_default();
    let request = v1::ExplainRequest {
        from_port: port_name(&args.from),
        to: destination(&args.to),
        protocol: packet.protocol.into(),
        source_port: packet.source_port.into(),
        destination_port: packet.destination_port.into(),
        icmp_type: kind.into(),
        icmp_code: code.into(),
        ipv6: args.ipv6,
    };
    let mut diagnostics = session.client.diagnostics.clone();
    let answer = session
        .call(request, |r| async move { diagnostics.explain(r).await })
        .await?;
    show(&packet, &answer, format)
}

pub(super) fn offline(args: &Explain, format: Format) -> Result<(), Failure> {
    let packet = Packet::of(args)?;
    let model = super::valid(&super::load(&args.files)?, format)?;
    let usage = |error: &dyn std::fmt::Display| Failure::Usage(error.to_string());
    let mut ids = Ids::default();
    ids.assign(&model).map_err(|e| usage(&e))?;
    let port = |text: &str| PortName::parse(&port_name(text)).map_err(|e| usage(&e));
    let question = Question {
        from: port(&args.from)?,
        to: match args.to.parse::<IpAddr>() {
            Ok(ip) => Destination::Ip(ip.into()),
            Err(_) => Destination::Port(port(&args.to)?),
        },
        protocol: packet.number,
        source_port: packet.source_port,
        destination_port: packet.icmp.map_or(packet.destination_port, |(kind, code)| {
            u16::from(kind) << 8 | u16::from(code)
        }),
        ipv6: args.ipv6,
    };
    let answer = explain::explain(&model, &ids, &question).map_err(|e| usage(&e))?;
    show(&packet, &convert::from_answer(&answer), format)
}

/// A port's full name, or an address as it is.
fn destination(text: &str) -> String {
    if text.parse::<IpAddr>().is_ok() {
        text.to_owned()
    } else {
        port_name(text)
    }
}

fn show(packet: &Packet, answer: &v1::ExplainResponse, format: Format) -> Result<(), Failure> {
    let messages = Messages::new()?;
    output::one(
        format,
        || messages.snake_case("ExplainResponse", answer),
        || Ok(text::answer(&packet.line(answer), answer)),
    )
}
