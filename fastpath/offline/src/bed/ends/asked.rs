//! Whether policy had a say, by how a packet ended.

use penstock_flow::DropReason;
use penstock_flow::packet::{self, Kind, L4, Outer, Packet, parse_outer};
use penstock_flow::tuple::proto;
use penstock_rules::model::Direction;

use crate::bed::{Carried, Fate};

/// Whether a packet was dropped before its flow counted: that it looks like one of a
/// connection's says nothing then.
pub(super) const fn is_a_strangers(fate: Fate) -> bool {
    matches!(
        fate,
        Fate::Dropped(
            DropReason::Truncated
                | DropReason::Malformed
                | DropReason::BadChecksum
                | DropReason::UnknownPort
                | DropReason::NotForUs
                | DropReason::UnknownTunnel
                | DropReason::WrongVtep
                | DropReason::Spoofed
        )
    )
}

/// Whether policy was asked at an end that has no connection.
pub(super) fn is_judged(
    fate: Fate,
    carried: Option<Carried>,
    frame: &[u8],
    direction: Direction,
) -> bool {
    match (fate, carried) {
        (Fate::Dropped(DropReason::DeniedEgress), _) => direction == Direction::Egress,
        (
            Fate::Dropped(
                DropReason::DeniedIngress | DropReason::TableFull | DropReason::RateLimited,
            ),
            _,
        ) => true,
        (Fate::Dropped(_) | Fate::Consumed | Fate::Waits, _) => false,
        // That it may not was said aloud; what is too large or too old was not judged.
        (_, Some(Carried::Answered)) => is_refusal(frame),
        _ => true,
    }
}

/// Whether an answer says that policy refuses.
fn is_refusal(frame: &[u8]) -> bool {
    let tenants = match parse_outer(frame) {
        Ok(Outer::Vxlan(tunnel)) => frame.get(usize::from(tunnel.inner)..usize::from(tunnel.end)),
        _ => Some(frame),
    };
    let Ok(Packet {
        kind: Kind::Ip(ip), ..
    }) = packet::parse(tenants.unwrap_or_default())
    else {
        return false;
    };
    match (ip.tuple.proto, ip.tuple.icmp(), ip.l4_kind) {
        // RFC 792, 1122 and 4443: unreachable, but for "too big".
        (proto::ICMP, Some((3, code)), _) => code != 4,
        (proto::ICMPV6, Some((1, _)), _) => true,
        (_, _, L4::Tcp(tcp)) => tcp.flags & packet::tcp_flags::RST != 0,
        _ => false,
    }
}
