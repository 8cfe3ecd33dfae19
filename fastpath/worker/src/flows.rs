//! Connections as messages: on their way to another worker, or to this one's next life.
//!
//! Pure: from [`FlowState`] to the schema and, with checks, back. [`file`] is the form in
//! which they wait for a restart.

pub mod file;

use penstock_engine::{FlowState, Name, Traffic};
use penstock_flow::conntrack::tcp::{Fins, Parts, SideParts, State, Tracker as Tcp};
use penstock_flow::conntrack::{Direction, Tracker};
use penstock_flow::{Addr, Tuple};
use penstock_slowpath_api::encode::bytes;
use penstock_slowpath_api::v1;
use v1::flow_state::Tracker as TrackerMessage;
use v1::tcp_state::Phase;

/// A field that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} = {value}: {problem}")]
pub struct Malformed {
    /// Which.
    pub field: &'static str,
    /// What was sent.
    pub value: String,
    /// What is wrong with it.
    pub problem: &'static str,
}

fn malformed<T>(
    field: &'static str,
    value: impl std::fmt::Debug,
    problem: &'static str,
) -> Result<T, Malformed> {
    Err(Malformed {
        field,
        value: format!("{value:?}"),
        problem,
    })
}

/// As the schema puts it.
#[must_use]
pub fn encode(state: &FlowState) -> v1::FlowState {
    let FlowState {
        port,
        vni,
        tuple,
        ingress,
        peer,
        tracker,
        idle_ns,
        slow,
        nic,
        rule,
        persists,
    } = state;
    v1::FlowState {
        port_id: *port,
        vni: *vni,
        key: Some(key(tuple)),
        ingress: *ingress,
        peer_port_id: *peer,
        tracker: Some(match tracker {
            Tracker::Tcp(tcp) => TrackerMessage::Tcp(encode_tcp(&tcp.parts())),
            Tracker::Plain(plain) => TrackerMessage::Replied(plain.replied),
        }),
        idle_ns: *idle_ns,
        slow_packets: slow.packets,
        slow_bytes: slow.bytes,
        nic_packets: nic.packets,
        nic_bytes: nic.bytes,
        rule: rule.as_str().to_owned(),
        persists: *persists,
    }
}

/// A flow's key, as the schema puts it.
#[must_use]
pub fn key(tuple: &Tuple) -> v1::FlowKey {
    v1::FlowKey {
        source_ip: bytes(tuple.src),
        destination_ip: bytes(tuple.dst),
        protocol: tuple.proto.into(),
        source_port: tuple.sport.into(),
        destination_port: tuple.dport.into(),
    }
}

fn encode_tcp(parts: &Parts) -> v1::TcpState {
    let phase = match parts.state {
        State::SynSent => Phase::SynSent,
        State::SynSentBoth => Phase::SynSentBoth,
        State::SynRecv => Phase::SynReceived,
        State::SynRecvReverse => Phase::SynReceivedReverse,
        State::Established => Phase::Established,
        State::Closing(_) => Phase::Closing,
        State::TimeWait => Phase::TimeWait,
        State::Reset(_) => Phase::Reset,
    };
    let side = |i: usize, direction| {
        let SideParts {
            next,
            acked,
            window,
            wscale,
            unseen,
        } = parts.sides[i];
        let fins = match parts.state {
            State::Closing(fins) => fins.bits(),
            _ => 0,
        };
        v1::TcpSide {
            next,
            acked,
            window,
            window_scale: wscale.map(u32::from),
            unseen,
            fin: fins >> i & 1 != 0,
            fin_acked: fins >> i & 4 != 0,
            reset: parts.state == State::Reset(direction),
        }
    };
    v1::TcpState {
        phase: phase.into(),
        opener: Some(side(0, Direction::Original)),
        answerer: Some(side(1, Direction::Reply)),
        probed: parts.probed,
    }
}

/// Back from the schema. What a field means together with others, and with the worker
/// that is to go on from it, is for the engine to check.
///
/// # Errors
/// The first field that cannot be used.
pub fn decode(message: v1::FlowState) -> Result<FlowState, Malformed> {
    let v1::FlowState {
        port_id,
        vni,
        key,
        ingress,
        peer_port_id,
        tracker,
        idle_ns,
        slow_packets,
        slow_bytes,
        nic_packets,
        nic_bytes,
        rule,
        persists,
    } = message;
    let Some(key) = key else {
        return malformed("key", (), "every connection has one");
    };
    let tuple = decode_key(&key)?;
    let tracker = match tracker {
        Some(TrackerMessage::Tcp(tcp)) => Tracker::Tcp(decode_tcp(&tcp)?),
        Some(TrackerMessage::Replied(replied)) => match Tracker::plain(tuple.proto, replied) {
            Some(tracker) => tracker,
            None => return malformed("replied", replied, "TCP has a state of its own"),
        },
        None => return malformed("tracker", (), "every connection has one"),
    };
    Ok(FlowState {
        port: port_id,
        vni,
        tuple,
        ingress,
        peer: peer_port_id,
        tracker,
        idle_ns,
        slow: Traffic {
            packets: slow_packets,
            bytes: slow_bytes,
        },
        nic: Traffic {
            packets: nic_packets,
            bytes: nic_bytes,
        },
        rule: Name::new(&rule),
        persists,
    })
}

fn decode_key(key: &v1::FlowKey) -> Result<Tuple, Malformed> {
    let addr = |field, bytes: &[u8]| match bytes.try_into() {
        Ok(octets) => Ok(Addr::from_octets(octets)),
        Err(_) => malformed(field, bytes, "an address has 16 bytes"),
    };
    let port = |field, number: u32| match u16::try_from(number) {
        Ok(port) => Ok(port),
        Err(_) => malformed(field, number, "at most 65535"),
    };
    let Ok(protocol) = u8::try_from(key.protocol) else {
        return malformed("key.protocol", key.protocol, "at most 255");
    };
    Ok(Tuple {
        src: addr("key.source_ip", &key.source_ip)?,
        dst: addr("key.destination_ip", &key.destination_ip)?,
        proto: protocol,
        sport: port("key.source_port", key.source_port)?,
        dport: port("key.destination_port", key.destination_port)?,
    })
}

fn decode_tcp(message: &v1::TcpState) -> Result<Tcp, Malformed> {
    let (Some(opener), Some(answerer)) = (&message.opener, &message.answerer) else {
        return malformed("tcp", message, "both sides have to be there");
    };
    let state = match (message.phase(), opener.reset, answerer.reset) {
        (Phase::Reset, true, false) => State::Reset(Direction::Original),
        (Phase::Reset, false, true) => State::Reset(Direction::Reply),
        (Phase::Reset, ..) => return malformed("tcp.reset", message, "one side has sent it"),
        (_, true, _) | (_, _, true) => {
            return malformed("tcp.reset", message, "only in the phase RESET");
        }
        (Phase::Unspecified, ..) => {
            return malformed("tcp.phase", message.phase, "a phase of the schema");
        }
        (Phase::SynSent, ..) => State::SynSent,
        (Phase::SynSentBoth, ..) => State::SynSentBoth,
        (Phase::SynReceived, ..) => State::SynRecv,
        (Phase::SynReceivedReverse, ..) => State::SynRecvReverse,
        (Phase::Established, ..) => State::Established,
        (Phase::TimeWait, ..) => State::TimeWait,
        (Phase::Closing, ..) => {
            let bit = |set: bool, n: u8| u8::from(set) << n;
            let fins = Fins::from_bits(
                bit(opener.fin, 0)
                    | bit(answerer.fin, 1)
                    | bit(opener.fin_acked, 2)
                    | bit(answerer.fin_acked, 3),
            );
            let Some(fins) = fins else {
                return malformed("tcp.fin_acked", message, "only a FIN that was seen can be");
            };
            State::Closing(fins)
        }
    };
    let parts = Parts {
        state,
        probed: message.probed,
        sides: [decode_side(opener)?, decode_side(answerer)?],
    };
    match Tcp::from_parts(&parts) {
        Some(tcp) => Ok(tcp),
        None => malformed("tcp", message, "no connection can be in this state"),
    }
}

fn decode_side(side: &v1::TcpSide) -> Result<SideParts, Malformed> {
    let wscale = match side.window_scale.map(u8::try_from).transpose() {
        Ok(wscale) => wscale,
        Err(_) => return malformed("tcp.window_scale", side.window_scale, "at most 14"),
    };
    Ok(SideParts {
        next: side.next,
        acked: side.acked,
        window: side.window,
        wscale,
        unseen: side.unseen,
    })
}

#[cfg(test)]
mod tests;
