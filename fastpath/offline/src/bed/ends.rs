//! What policy and connections say about a packet at those of its ends that one
//! engine has.
//!
//! The engine decides; this only looks. A packet of a connection is admitted by what
//! had admitted that connection, so that is told; one without is judged once more by
//! the same ruleset, to tell what the engine was told.

mod asked;

use penstock_engine::Engine;
use penstock_flow::Tuple;
use penstock_flow::packet::{self, Kind, L4, Outer, first_piece, parse_outer};
use penstock_rules::model::{Direction, PortId, Vni};
use penstock_rules::{Explanation, Query, Ruleset};

use self::asked::{is_a_strangers, is_judged};
use super::passage::{Carried, Fate};
use super::plan::Plan;

/// One end of a packet.
#[derive(Clone, Debug)]
pub struct End {
    /// The port's id.
    pub port: PortId,
    /// Egress: it sends the packet.
    pub direction: Direction,
    /// In which its connection is judged: of a reply, the other one.
    pub judged: Direction,
    /// Whether policy lets it pass.
    pub allow: bool,
    /// Full name of the rule that decides; none: no rule does.
    pub rule: Option<String>,
    /// Why: of a packet that is refused or opens a connection, and where no rule had
    /// admitted the connection.
    pub explanation: Option<Explanation>,
    /// Where its connection stands after the packet; none: it has none.
    pub state: Option<&'static str>,
    /// The NIC has the connection.
    pub in_nic: bool,
}

/// What a connection's state is called when it has ended with this packet.
const OVER: &str = "over";

/// Whose packet it is, and of which flow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Subject {
    /// The port that sent it.
    pub(super) sender: Option<PortId>,
    ends: [Option<(PortId, Direction)>; 2],
    tuple: Option<Tuple>,
    /// Not of the flow itself, but about it.
    error: bool,
}

impl Subject {
    pub(super) fn of(
        plan: &Plan<'_>,
        node: usize,
        engine: &Engine,
        device_port: u32,
        frame: &[u8],
    ) -> Self {
        let uplink = plan.nodes.get(node).and_then(|n| n.uplink_at(device_port));
        if let Some(uplink) = uplink {
            let Ok(Outer::Vxlan(tunnel)) = parse_outer(frame) else {
                return Self::default();
            };
            let inner = frame.get(usize::from(tunnel.inner)..usize::from(tunnel.end));
            let inner = inner.unwrap_or_default();
            let nic = (uplink.device_id, tunnel.vni);
            return Self::tenant(engine, None, nic, inner);
        }
        let vlan = vlan_of(frame);
        match plan.place_at(node, device_port, vlan) {
            Some(place) => {
                let nic = (place.port.nic, place.vni);
                Self::tenant(engine, Some(place.id), nic, frame)
            }
            None => Self::default(),
        }
    }

    fn tenant(
        engine: &Engine,
        sender: Option<PortId>,
        (device_id, vni): (u32, Vni),
        frame: &[u8],
    ) -> Self {
        let mut this = Self {
            sender,
            ..Self::default()
        };
        let (Ok(packet), Some(rules)) = (packet::parse(frame), engine.ruleset()) else {
            return this;
        };
        let Kind::Ip(ip) = packet.kind else {
            return this;
        };
        let (tuple, error) = match &ip.l4_kind {
            L4::Neighbour(_) | L4::Dhcp(_) => return this,
            L4::Fragment(piece) if piece.offset > 0 => return this,
            L4::Fragment(_) => match first_piece(frame, &ip) {
                Ok(whole) => (whole.tuple, false),
                Err(_) => return this,
            },
            L4::IcmpError(error) => (error.inner, true),
            _ => (ip.tuple, false),
        };
        let dst = ip.tuple.dst;
        if rules.gateway(vni, dst).is_some() {
            return this;
        }
        let receiver = rules.endpoint(vni, dst).map(|endpoint| endpoint.port);
        let here = |id: &PortId| rules.port(*id).is_some_and(|p| p.device_id == device_id);
        this.ends = [
            sender.map(|port| (port, Direction::Egress)),
            receiver.filter(here).map(|port| (port, Direction::Ingress)),
        ];
        this.tuple = Some(tuple);
        this.error = error;
        this
    }
}

/// A connection before the packet came.
#[derive(Debug)]
pub(super) struct Known {
    rule: String,
    tuple: Tuple,
    ingress: bool,
}

pub(super) fn known(engine: &Engine, now: u64, subject: &Subject) -> [Option<Known>; 2] {
    subject.ends.map(|end| {
        let record = engine.flow(now, end?.0, subject.tuple.as_ref()?)?;
        Some(Known {
            rule: record.rule.to_owned(),
            tuple: record.tuple,
            ingress: record.ingress,
        })
    })
}

pub(super) fn after(
    engine: &Engine,
    now: u64,
    subject: &Subject,
    before: [Option<Known>; 2],
    fate: Fate,
    carried: Option<Carried>,
    frame: &[u8],
) -> Vec<End> {
    let (Some(tuple), Some(rules)) = (subject.tuple, engine.ruleset()) else {
        return Vec::new();
    };
    if is_a_strangers(fate) {
        return Vec::new();
    }
    let mut ends = Vec::new();
    for (end, before) in subject.ends.into_iter().zip(before) {
        let is_new = before.is_none();
        let Some((port, direction)) = end else {
            continue;
        };
        let (known, state, in_nic) = match engine.flow(now, port, &tuple) {
            Some(record) => {
                let known = Known {
                    rule: record.rule.to_owned(),
                    tuple: record.tuple,
                    ingress: record.ingress,
                };
                (Some(known), Some(record.state), record.offloaded)
            }
            None => {
                let state = before.as_ref().map(|_| OVER);
                (before, state, false)
            }
        };
        let end = match known {
            Some(known) => admitted(rules, port, direction, &known, is_new),
            None if subject.error || !is_judged(fate, carried, frame, direction) => continue,
            None => judged(rules, port, direction, direction, &tuple),
        };
        ends.push(End {
            state,
            in_nic,
            ..end
        });
    }
    ends
}

/// By what its connection was admitted.
fn admitted(
    rules: &Ruleset,
    port: PortId,
    direction: Direction,
    known: &Known,
    is_new: bool,
) -> End {
    let opened = if known.ingress {
        Direction::Ingress
    } else {
        Direction::Egress
    };
    if is_new || known.rule.is_empty() {
        return judged(rules, port, direction, opened, &known.tuple);
    }
    End {
        port,
        direction,
        judged: opened,
        allow: true,
        rule: Some(known.rule.clone()),
        explanation: None,
        state: None,
        in_nic: false,
    }
}

fn judged(
    rules: &Ruleset,
    port: PortId,
    direction: Direction,
    opened: Direction,
    tuple: &Tuple,
) -> End {
    let query = Query {
        direction: opened,
        port,
        peer: match opened {
            Direction::Ingress => tuple.src,
            Direction::Egress => tuple.dst,
        },
        proto: tuple.proto,
        sport: tuple.sport,
        dport: tuple.dport,
    };
    let judgement = rules.judge(&query);
    let explanation = rules.explain(&judgement, &query);
    End {
        port,
        direction,
        judged: opened,
        allow: explanation.allow,
        rule: explanation.rule.clone(),
        explanation: Some(explanation),
        state: None,
        in_nic: false,
    }
}

/// A frame's 802.1Q tag; 0: none.
pub(crate) fn vlan_of(frame: &[u8]) -> u16 {
    match frame.get(12..16) {
        Some([0x81, 0x00, high, low]) => u16::from_be_bytes([*high, *low]) & 0xfff,
        _ => 0,
    }
}
