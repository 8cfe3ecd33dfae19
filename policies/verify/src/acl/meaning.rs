//! Whether a drop or an allow of one packet is what policy says.

use penstock_policies::explain::Direction;

use crate::cut::cells;
use crate::facts::Known;
use crate::finding::Wrong;
use crate::judge::{Judged, ROCE, Service3, Sheet, Verdict};

/// A port that this NIC speaks for, its other end, and which way the packet goes there.
pub(super) struct End<'s, 'a> {
    pub(super) known: Known<'a>,
    pub(super) sheet: &'s Sheet<'a>,
    pub(super) peer: u128,
    pub(super) way: Direction,
}

const fn other(way: Direction) -> Direction {
    match way {
        Direction::Ingress => Direction::Egress,
        Direction::Egress => Direction::Ingress,
    }
}

impl End<'_, '_> {
    fn forward(&self, service: Service3) -> Judged {
        self.sheet.judge(self.way, self.peer, service)
    }

    fn back(&self, service: Service3) -> Judged {
        self.sheet.judge(other(self.way), self.peer, service)
    }

    /// Whether nothing at all becomes of the packet here, and nobody hears of it.
    fn swallows(&self, service: Service3) -> Result<(), Wrong> {
        let name = || self.known.name.clone();
        let judged = self.forward(service);
        match judged.verdict {
            Verdict::Allow => return Err(Wrong::DropsAllowed(name())),
            Verdict::Reject => return Err(Wrong::DropsRejected(name())),
            Verdict::Deny => {}
        }
        if judged.log {
            return Err(Wrong::DropsLogged(name()));
        }
        if judged.persists {
            return Err(Wrong::DropsPersisting(name()));
        }
        for reverse in reverses(self.sheet, service) {
            let judged = self.back(reverse);
            if judged.verdict == Verdict::Allow {
                return Err(Wrong::DropsReply(name()));
            }
            if judged.persists {
                return Err(Wrong::DropsPersisting(name()));
            }
        }
        Ok(())
    }
}

/// What a packet may be a reply to. Any ICMP message may answer any other.
fn reverses(sheet: &Sheet<'_>, (protocol, sport, dport): Service3) -> Vec<Service3> {
    if is_roce(protocol, dport) {
        return vec![(protocol, dport, sport), (protocol, sport, dport)];
    }
    if !matches!(protocol, 1 | 58) {
        return vec![(protocol, dport, sport)];
    }
    let cuts = sheet.port_cuts(protocol, true);
    let next = |at: u16| at.checked_add(1);
    let kinds = cells((0, u16::MAX), cuts, next, |at| at - 1);
    kinds
        .into_iter()
        .map(|(kind, _)| (protocol, sport, kind))
        .collect()
}

pub(super) fn drop_is_wrong(ends: &[End<'_, '_>], service: Service3) -> Option<Wrong> {
    let (first, second) = (ends.first()?, ends.get(1));
    let wrong = first.swallows(service).err()?;
    // The sender's own end speaks first: what it would tell or log must not be lost.
    let judged = first.forward(service);
    let quiet = judged.verdict != Verdict::Reject && !judged.log && !judged.audited;
    if quiet && second.is_some_and(|end| end.swallows(service).is_ok()) {
        return None;
    }
    Some(wrong)
}

pub(super) fn allow_is_wrong(end: &End<'_, '_>, service: Service3) -> Option<Wrong> {
    let name = || end.known.name.clone();
    let judged = end.forward(service);
    if judged.verdict != Verdict::Allow {
        return Some(Wrong::AllowsRefused(name()));
    }
    if judged.stateful {
        return Some(Wrong::AllowsStateful(name()));
    }
    if judged.log || judged.audited {
        return Some(Wrong::AllowsLogged(name()));
    }
    let (protocol, sport, dport) = service;
    let reverse = match (protocol, dport >> 8) {
        (1, kind @ (0 | 8)) => (1, sport, (8 - kind) << 8 | (dport & 0xff)),
        (58, kind @ (128 | 129)) => (58, sport, (257 - kind) << 8 | (dport & 0xff)),
        // RoCEv2 has the same destination port both ways.
        (1 | 58, _) => service,
        _ if is_roce(protocol, dport) => service,
        _ => (protocol, dport, sport),
    };
    let back = end.back(reverse);
    let stateless = back.verdict == Verdict::Allow && !back.stateful;
    (!stateless || back.log || back.audited).then(|| Wrong::AllowsOneWay(name()))
}

const fn is_roce(protocol: u8, dport: u16) -> bool {
    protocol == 17 && dport == ROCE
}
