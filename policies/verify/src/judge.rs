//! What policy says of a packet at a port. A port's rules are laid out once, with their
//! peers as intervals of addresses, so that the places where anything changes are known.

use std::collections::BTreeMap;

use penstock_flow::Addr;
use penstock_policies::Ids;
use penstock_policies::explain::Direction;
use penstock_policies::model::{
    Action, IcmpKind, Mode, Model, OnChange, PortName, PortRange, Rule, Service, Tier,
};

use crate::cut::Addresses;
use crate::facts::{Facts, Known};

mod members;

use members::{applies, is_member, peers};

pub(crate) const ROCE: u16 = 4791;

/// What becomes of a packet that no connection owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It passes.
    Allow,
    /// It is dropped.
    Deny,
    /// It is dropped, and its sender is told.
    Reject,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    /// What becomes of it.
    pub verdict: Verdict,
    /// What is allowed makes a connection.
    pub stateful: bool,
    /// It is logged.
    pub log: bool,
    /// It passes, and what is in audit would stop it.
    pub audited: bool,
    /// It is refused, and a connection from before may go on all the same.
    pub persists: bool,
}

/// A rule with its peers found.
#[derive(Debug)]
struct Flat<'a> {
    audit: bool,
    persist: bool,
    action: Action,
    service: &'a Service,
    /// `None`: everyone.
    peers: Option<Addresses>,
    stateful: bool,
    log: bool,
}

/// Rules of one direction, in order.
#[derive(Debug, Default)]
struct Way<'a> {
    admin: Vec<Flat<'a>>,
    tenant: Vec<Flat<'a>>,
    baseline: Vec<Flat<'a>>,
    /// An enforcing list closes the port.
    closed: bool,
    /// A list in audit does.
    closed_in_audit: bool,
}

/// Everything that policy says about a port.
#[derive(Debug)]
pub(crate) struct Sheet<'a> {
    ingress: Way<'a>,
    egress: Way<'a>,
    default_allow: bool,
    /// Some list of the VPC keeps what it has admitted.
    persist: bool,
}

/// Protocol and ports: `(protocol, source, destination)`.
pub(crate) type Service3 = (u8, u16, u16);

/// Judges a packet of a port by itself; `None`: there is no such port.
#[must_use]
pub fn judge(
    model: &Model,
    ids: &Ids,
    port: &PortName,
    direction: Direction,
    peer: Addr,
    service: (u8, u16, u16),
) -> Option<Judged> {
    let facts = Facts::new(model, ids);
    let known = facts.ports.get(ids.ports.get(port)?)?;
    Some(Sheet::new(&facts, known).judge(direction, peer.0, service))
}

impl<'a> Sheet<'a> {
    pub(crate) fn new(facts: &Facts<'a>, known: &Known<'a>) -> Self {
        let home = known.name.vpc();
        let mut sheet = Self {
            ingress: Way::default(),
            egress: Way::default(),
            default_allow: facts
                .model
                .vpcs
                .get(&home)
                .is_some_and(|vpc| vpc.default_allow),
            persist: false,
        };
        let mut ordered: BTreeMap<Place<'a>, (Direction, Tier, Flat<'a>)> = BTreeMap::new();
        let mut add = |list: &'a str, tier, priority, audit, persist, rules: &'a [Rule]| {
            for rule in rules {
                let place = Place {
                    priority,
                    rule_priority: rule.priority,
                    restriction: restriction(rule.action),
                    stateless: !rule.stateful,
                    list,
                    rule: rule.name.as_str(),
                };
                let flat = Flat {
                    audit,
                    persist,
                    action: rule.action,
                    service: &rule.service,
                    peers: peers(facts, known.vni, rule),
                    stateful: rule.stateful,
                    log: rule.log,
                };
                ordered.insert(place, (rule.direction, tier, flat));
            }
        };
        let mut closes = Vec::new();
        for (name, group) in facts.model.groups.iter().filter(|(n, _)| n.vpc() == home) {
            let persist = group.on_change == OnChange::Persist;
            sheet.persist |= persist;
            if is_member(facts, known, name) {
                let audit = group.mode == Mode::Audit;
                closes.push((&group.directions, audit));
                add(name.as_str(), Tier::Tenant, 0, audit, persist, &group.rules);
            }
        }
        for (name, policy) in facts.model.policies.iter().filter(|(n, _)| n.vpc() == home) {
            let persist = policy.on_change == OnChange::Persist;
            sheet.persist |= persist;
            if applies(facts, known, &policy.applies_to) {
                let audit = policy.mode == Mode::Audit;
                if policy.tier == Tier::Tenant {
                    closes.push((&policy.directions, audit));
                }
                let (tier, priority) = (policy.tier, policy.priority);
                let priority = if tier == Tier::Tenant { 0 } else { priority };
                add(name.as_str(), tier, priority, audit, persist, &policy.rules);
            }
        }
        for (directions, audit) in closes {
            for direction in directions {
                let way = sheet.way_mut(*direction);
                way.closed |= !audit;
                way.closed_in_audit |= audit;
            }
        }
        for (direction, tier, flat) in ordered.into_values() {
            let way = sheet.way_mut(direction);
            match tier {
                Tier::Admin => way.admin.push(flat),
                Tier::Tenant => way.tenant.push(flat),
                Tier::Baseline => way.baseline.push(flat),
            }
        }
        sheet
    }

    fn way_mut(&mut self, direction: Direction) -> &mut Way<'a> {
        match direction {
            Direction::Ingress => &mut self.ingress,
            Direction::Egress => &mut self.egress,
        }
    }

    const fn way(&self, direction: Direction) -> &Way<'a> {
        match direction {
            Direction::Ingress => &self.ingress,
            Direction::Egress => &self.egress,
        }
    }

    pub(crate) fn judge(&self, direction: Direction, peer: u128, service: Service3) -> Judged {
        let mut judged = self.decide(direction, peer, service, false);
        if judged.verdict == Verdict::Allow {
            let strict = self.decide(direction, peer, service, true);
            judged.audited = strict.verdict != Verdict::Allow;
        }
        judged
    }

    fn decide(&self, direction: Direction, peer: u128, service: Service3, strict: bool) -> Judged {
        let way = self.way(direction);
        let first = |rules: &'_ [Flat<'a>]| {
            let mut rules = rules.iter().filter(|rule| strict || !rule.audit);
            rules
                .find(|rule| rule.matches(peer, service))
                .map(Flat::judged)
        };
        let plain = |verdict| Judged {
            verdict,
            stateful: true,
            log: false,
            audited: false,
            // What has admitted it is not known, and may persist.
            persists: verdict != Verdict::Allow && self.persist,
        };
        if let Some(Some(judged)) = first(&way.admin) {
            return judged;
        }
        if way.closed || (strict && way.closed_in_audit) {
            let found = first(&way.tenant).flatten();
            return found.unwrap_or_else(|| plain(Verdict::Deny));
        }
        if let Some(Some(judged)) = first(&way.baseline) {
            return judged;
        }
        plain(if self.default_allow {
            Verdict::Allow
        } else {
            Verdict::Deny
        })
    }

    /// Where rules about peers change.
    pub(crate) fn peer_cuts(&self) -> impl Iterator<Item = (u128, u128)> + '_ {
        let peers = self.rules().filter_map(|rule| rule.peers.as_ref());
        peers.flat_map(|peers| peers.0.iter().copied())
    }

    /// Where rules about destination ports of a protocol change, and where those about its
    /// source ports do; ICMP types and codes count as destination ports.
    pub(crate) fn port_cuts(&self, protocol: u8, destination: bool) -> Vec<(u16, u16)> {
        let mut cuts = Vec::new();
        for rule in self.rules() {
            let ports = match (rule.service, protocol) {
                (Service::Tcp(ports), 6)
                | (Service::Udp(ports), 17)
                | (Service::Sctp(ports), 132) => ports,
                (Service::Icmp(kind), 1) | (Service::Icmpv6(kind), 58) if destination => {
                    cuts.extend(kind_range(*kind));
                    continue;
                }
                _ => continue,
            };
            let ranges = if destination {
                &ports.destination
            } else {
                &ports.source
            };
            cuts.extend(ranges.iter().map(|range| (range.first, range.last)));
        }
        if protocol == 17 && destination {
            cuts.push((ROCE, ROCE));
        }
        cuts
    }

    fn rules(&self) -> impl Iterator<Item = &Flat<'a>> {
        [&self.ingress, &self.egress]
            .into_iter()
            .flat_map(|way| way.admin.iter().chain(&way.tenant).chain(&way.baseline))
    }
}

/// In which order rules are asked. Of those that allow, the ones that make a connection
/// come first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Place<'a> {
    priority: u16,
    rule_priority: u16,
    restriction: u8,
    stateless: bool,
    list: &'a str,
    rule: &'a str,
}

const fn restriction(action: Action) -> u8 {
    match action {
        Action::Deny => 0,
        Action::Reject => 1,
        Action::Pass => 2,
        Action::Allow => 3,
    }
}

impl Flat<'_> {
    fn matches(&self, peer: u128, service: Service3) -> bool {
        serves(self.service, service) && self.peers.as_ref().is_none_or(|all| all.contain(peer))
    }

    /// `None`: the next tier decides.
    const fn judged(&self) -> Option<Judged> {
        let verdict = match self.action {
            Action::Allow => Verdict::Allow,
            Action::Deny => Verdict::Deny,
            Action::Reject => Verdict::Reject,
            Action::Pass => return None,
        };
        Some(Judged {
            verdict,
            stateful: self.stateful,
            log: self.log,
            audited: false,
            persists: self.persist && !matches!(verdict, Verdict::Allow),
        })
    }
}

fn serves(service: &Service, (protocol, source, destination): Service3) -> bool {
    let roce = protocol == 17 && destination == ROCE;
    let one = |ranges: &[PortRange], port: u16| {
        ranges.is_empty() || ranges.iter().any(|r| (r.first..=r.last).contains(&port))
    };
    let kind = |kind: IcmpKind| {
        kind_range(kind).is_none_or(|(first, last)| (first..=last).contains(&destination))
    };
    match service {
        Service::Any => true,
        Service::Tcp(p) | Service::Udp(p) | Service::Sctp(p) => {
            let number = match service {
                Service::Tcp(_) => 6,
                Service::Udp(_) => 17,
                _ => 132,
            };
            protocol == number
                && !roce
                && one(&p.source, source)
                && one(&p.destination, destination)
        }
        Service::Icmp(it) => protocol == 1 && kind(*it),
        Service::Icmpv6(it) => protocol == 58 && kind(*it),
        Service::Rocev2 => roce,
    }
}

/// `None`: all.
fn kind_range(kind: IcmpKind) -> Option<(u16, u16)> {
    match kind {
        IcmpKind::Every => None,
        IcmpKind::Type(t) => Some((u16::from(t) << 8, u16::from(t) << 8 | 0xff)),
        IcmpKind::Code(t, c) => {
            let both = u16::from(t) << 8 | u16::from(c);
            Some((both, both))
        }
    }
}
