//! A frame in a line.

use std::fmt;

use penstock_flow::packet::{
    ArpOp, Dhcp, Kind, L4, NdKind, Outer, first_piece, parse, parse_outer, tcp_flags,
};
use penstock_flow::tuple::proto;
use penstock_flow::{Addr, Tuple};

/// What a frame is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Its five-tuple, where it has one; ports are 0 where it has none.
    pub tuple: Option<Tuple>,
    /// As people write it.
    pub text: String,
}

impl Flow {
    /// Describes a frame; one from the `wire` by what is in its tunnel.
    #[must_use]
    pub fn of(frame: &[u8], wire: bool) -> Self {
        if wire && let Ok(Outer::Vxlan(tunnel)) = parse_outer(frame) {
            let inner = frame.get(usize::from(tunnel.inner)..usize::from(tunnel.end));
            let inside = Self::of(inner.unwrap_or_default(), false);
            return Self {
                text: format!("vxlan {}: {}", tunnel.vni, inside.text),
                ..inside
            };
        }
        let Ok(packet) = parse(frame) else {
            return Self {
                tuple: None,
                text: ethernet(frame),
            };
        };
        match &packet.kind {
            Kind::Arp(arp) => Self {
                tuple: None,
                text: match arp.op {
                    ArpOp::Request => {
                        format!("arp who has {}, tell {}", arp.target_ip, arp.sender_ip)
                    }
                    ArpOp::Reply => format!("arp {} is at {}", arp.sender_ip, arp.sender_mac),
                },
            },
            Kind::Ip(ip) => {
                let mut tuple = ip.tuple;
                let more = match &ip.l4_kind {
                    L4::Tcp(tcp) => flags(tcp.flags),
                    L4::Neighbour(nd) if nd.target == Addr(0) => {
                        format!(" {}", message(nd.kind))
                    }
                    L4::Neighbour(nd) => format!(" {} {}", message(nd.kind), nd.target),
                    L4::Dhcp(Dhcp::V4) => " dhcp".to_owned(),
                    L4::Dhcp(Dhcp::V6) => " dhcpv6".to_owned(),
                    L4::Dhcp(Dhcp::Server) => " dhcp server's".to_owned(),
                    L4::IcmpError(error) => format!(" about {}", Line(&error.inner)),
                    L4::Fragment(piece) => {
                        if piece.offset == 0
                            && let Ok(whole) = first_piece(frame, ip)
                        {
                            tuple = whole.tuple;
                        }
                        format!(" fragment {:#x} at {}", piece.id, piece.offset)
                    }
                    L4::Udp | L4::Echo | L4::Other => String::new(),
                };
                Self {
                    tuple: Some(tuple),
                    text: format!("{}{more}", Line(&tuple)),
                }
            }
        }
    }
}

fn ethernet(frame: &[u8]) -> String {
    match frame.first_chunk::<14>() {
        Some([.., a, b, c, d, e, f, high, low]) => format!(
            "ethernet type {:#06x} from {}",
            u16::from_be_bytes([*high, *low]),
            penstock_flow::Mac([*a, *b, *c, *d, *e, *f])
        ),
        None => format!("{} bytes", frame.len()),
    }
}

fn flags(bits: u8) -> String {
    let letters = [
        (tcp_flags::SYN, 'S'),
        (tcp_flags::FIN, 'F'),
        (tcp_flags::RST, 'R'),
        (tcp_flags::ACK, '.'),
    ];
    let set = letters.iter().filter(|(bit, _)| bits & bit != 0);
    format!(" [{}]", set.map(|(_, letter)| letter).collect::<String>())
}

const fn message(kind: NdKind) -> &'static str {
    match kind {
        NdKind::NeighbourSolicitation => "neighbour solicitation for",
        NdKind::NeighbourAdvertisement => "neighbour advertisement of",
        NdKind::RouterSolicitation => "router solicitation",
        NdKind::RouterAdvertisement => "router advertisement",
        NdKind::Redirect => "redirect for",
    }
}

/// The name of a protocol, or its number.
#[must_use]
pub fn protocol(number: u8) -> String {
    match number {
        proto::ICMP => "icmp".to_owned(),
        proto::TCP => "tcp".to_owned(),
        proto::UDP => "udp".to_owned(),
        proto::ICMPV6 => "icmpv6".to_owned(),
        proto::SCTP => "sctp".to_owned(),
        other => format!("protocol {other}"),
    }
}

struct Line<'a>(&'a Tuple);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tuple {
            src,
            dst,
            proto: number,
            sport,
            dport,
        } = *self.0;
        write!(f, "{} ", protocol(number))?;
        match (number, self.0.icmp()) {
            (proto::TCP | proto::UDP, _) if src.is_v4() => {
                write!(f, "{src}:{sport} -> {dst}:{dport}")
            }
            (proto::TCP | proto::UDP, _) => write!(f, "[{src}]:{sport} -> [{dst}]:{dport}"),
            (_, Some((kind, code))) => write!(f, "{src} -> {dst} type {kind} code {code}"),
            _ => write!(f, "{src} -> {dst}"),
        }
    }
}
