//! Security groups and their rules.

use std::collections::BTreeSet;

use penstock_flow::Prefix;
use penstock_rules::model::Direction;

use super::parse::{inside, prefix};
use super::{At, LIMITS};
use crate::document::{self, Kind, Protocol};
use crate::model::{Group, GroupName, IcmpKind, Peer, PortRange, Rule, Segment, Service, VpcName};

impl<'a> At<'_, 'a> {
    pub(super) fn group(&mut self, name: GroupName, spec: &'a document::SecurityGroup) {
        let document::SecurityGroup { rules, directions } = spec;
        let vpc = name.vpc();
        self.parent(Kind::Vpc, vpc.as_str());
        let mut selected = BTreeSet::new();
        for (i, way) in directions.iter().enumerate() {
            if !selected.insert(direction(*way)) {
                let message = format!("{} is given twice", way.word());
                self.problem(format!("spec.directions[{i}]"), message, "give each once");
            }
        }
        if selected.is_empty() {
            selected.extend([Direction::Ingress, Direction::Egress]);
        }
        let mut names = BTreeSet::new();
        let mut found = Vec::with_capacity(rules.len());
        for (i, rule) in self
            .within("spec.rules", rules, LIMITS.rules_per_group)
            .iter()
            .enumerate()
        {
            let path = format!("spec.rules[{i}]");
            let Some(rule) = self.rule(&path, &vpc, rule) else {
                continue;
            };
            if !names.insert(rule.name.clone()) {
                let message = format!("{} is used twice in the group", rule.name);
                self.problem(
                    format!("{path}.name"),
                    message,
                    "give each rule its own name",
                );
            }
            if !selected.contains(&rule.direction) {
                self.problem(
                    format!("{path}.direction"),
                    "is not one of the group's directions, so the rule would allow what is open",
                    "add the direction to spec.directions, or remove the rule",
                );
            }
            found.push(rule);
        }
        self.check.model.groups.insert(
            name,
            Group {
                directions: selected,
                rules: found,
            },
        );
    }

    fn rule(&mut self, path: &str, vpc: &VpcName, rule: &'a document::Rule) -> Option<Rule> {
        let document::Rule {
            name,
            direction: way,
            protocol,
            ports,
            icmp_type,
            icmp_code,
            peers,
        } = rule;
        let name = Segment::parse(name)
            .map_err(|e| self.problem(format!("{path}.name"), e.message, e.suggestion))
            .ok();
        if way.is_none() {
            let message = "is missing";
            self.problem(
                format!("{path}.direction"),
                message,
                "write INGRESS or EGRESS",
            );
        }
        let protocol = protocol.unwrap_or(Protocol::Any);
        let ports = self.ports(path, protocol, ports);
        let icmp = self.icmp(path, protocol, *icmp_type, *icmp_code);
        let list = format!("{path}.peers");
        let found: Vec<_> = self
            .within(&list, peers, LIMITS.peers_per_rule)
            .iter()
            .enumerate()
            .map(|(i, peer)| self.peer(&format!("{list}[{i}]"), vpc, protocol, peer))
            .collect();
        let service = match protocol {
            Protocol::Any => Service::Any,
            Protocol::Tcp => Service::Tcp(ports),
            Protocol::Udp => Service::Udp(ports),
            Protocol::Icmp => Service::Icmp(icmp?),
            Protocol::Icmpv6 => Service::Icmpv6(icmp?),
        };
        let peers = found.into_iter().collect::<Option<Vec<_>>>()?;
        Some(Rule {
            name: name?,
            direction: direction((*way)?),
            service,
            peers,
        })
    }

    fn ports(
        &mut self,
        path: &str,
        protocol: Protocol,
        ports: &'a [document::PortRange],
    ) -> Vec<PortRange> {
        let list = format!("{path}.ports");
        if !ports.is_empty() && !matches!(protocol, Protocol::Tcp | Protocol::Udp) {
            let message = format!("protocol {} has no ports", protocol.word());
            self.problem(
                list,
                message,
                "write protocol: TCP or UDP, or remove the ports",
            );
            return Vec::new();
        }
        let mut found = Vec::with_capacity(ports.len());
        for (i, range) in self
            .within(&list, ports, LIMITS.ranges_per_rule)
            .iter()
            .enumerate()
        {
            let document::PortRange { first, last } = *range;
            let last = if last == 0 { first } else { last };
            let at = format!("{list}[{i}]");
            match (u16::try_from(first), u16::try_from(last)) {
                (Ok(first), Ok(last)) if first <= last => found.push(PortRange { first, last }),
                (Ok(first), Ok(last)) => {
                    let message = format!("first {first} is above last {last}");
                    self.problem(
                        at,
                        message,
                        format!("did you mean first: {last}, last: {first}?"),
                    );
                }
                _ => {
                    let message = format!("{} is no port", first.max(last));
                    self.problem(at, message, "use 0 to 65535");
                }
            }
        }
        found
    }

    fn icmp(
        &mut self,
        path: &str,
        protocol: Protocol,
        kind: Option<u32>,
        code: Option<u32>,
    ) -> Option<IcmpKind> {
        let field = |name| format!("{path}.{name}");
        let is_icmp = matches!(protocol, Protocol::Icmp | Protocol::Icmpv6);
        let byte = |at: &mut Self, name, value: Option<u32>| match value.map(u8::try_from) {
            Some(_) if !is_icmp => {
                let message = format!("protocol {} has no ICMP types", protocol.word());
                at.problem(
                    field(name),
                    message,
                    "write protocol: ICMP or ICMPV6, or remove it",
                );
                None
            }
            Some(Err(_)) => {
                let message = format!("{} does not fit a byte", value.unwrap_or_default());
                at.problem(field(name), message, "use 0 to 255");
                None
            }
            Some(Ok(value)) => Some(Some(value)),
            None => Some(None),
        };
        let kind_byte = byte(self, "icmpType", kind);
        let code_byte = byte(self, "icmpCode", code);
        match (kind_byte?, code_byte?) {
            (None, None) => Some(IcmpKind::Every),
            (Some(kind), None) => Some(IcmpKind::Type(kind)),
            (Some(kind), Some(code)) => Some(IcmpKind::Code(kind, code)),
            (None, Some(_)) => {
                self.problem(
                    field("icmpCode"),
                    "has no icmpType",
                    "give the type the code belongs to",
                );
                None
            }
        }
    }

    fn peer(
        &mut self,
        path: &str,
        vpc: &VpcName,
        protocol: Protocol,
        peer: &'a document::Peer,
    ) -> Option<Peer> {
        let document::Peer {
            cidr,
            security_group,
        } = peer;
        match (cidr, security_group) {
            (Some(cidr), None) => self.cidr(&format!("{path}.cidr"), protocol, cidr),
            (None, Some(group)) => {
                let field = format!("{path}.securityGroup");
                let parent = format!("{vpc}/");
                let name = self.reference(&field, Kind::SecurityGroup, &parent, group)?;
                // An unsound name has been told where it was declared.
                GroupName::parse(&name).ok().map(Peer::Group)
            }
            (None, None) => {
                self.problem(
                    path,
                    "names nobody",
                    "give cidr or securityGroup; for everyone leave peers out",
                );
                None
            }
            (Some(_), Some(_)) => {
                self.problem(
                    path,
                    "has both cidr and securityGroup",
                    "write them as two peers",
                );
                None
            }
        }
    }

    fn cidr(&mut self, path: &str, protocol: Protocol, cidr: &'a document::Cidr) -> Option<Peer> {
        let document::Cidr {
            prefix: text,
            except,
        } = cidr;
        let field = format!("{path}.prefix");
        let outer = self.parsed(&field, prefix(text))?;
        let other_family = match protocol {
            Protocol::Icmp if !outer.is_v4() => Some("ICMPV6"),
            Protocol::Icmpv6 if outer.is_v4() => Some("ICMP"),
            _ => None,
        };
        if let Some(other) = other_family {
            let message = format!("{outer} never carries {}", protocol.word());
            self.problem(field, message, format!("did you mean protocol: {other}?"));
            return None;
        }
        let list = format!("{path}.except");
        let mut holes: Vec<Prefix> = Vec::with_capacity(except.len());
        let mut sound = true;
        for (i, text) in self
            .within(&list, except, LIMITS.excepts_per_cidr)
            .iter()
            .enumerate()
        {
            let field = format!("{list}[{i}]");
            match self.parsed(&field, prefix(text)) {
                Some(hole) if inside(hole, outer) => holes.push(hole),
                Some(hole) => {
                    let message = format!("{hole} is outside {outer}");
                    self.problem(field, message, "remove it, or widen the prefix");
                    sound = false;
                }
                None => sound = false,
            }
        }
        sound.then_some(Peer::Cidr {
            prefix: outer,
            except: holes,
        })
    }
}

const fn direction(way: document::Direction) -> Direction {
    match way {
        document::Direction::Ingress => Direction::Ingress,
        document::Direction::Egress => Direction::Egress,
    }
}
