//! A judgement in words.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use penstock_flow::Addr;
use penstock_flow::tuple::proto;

use crate::model::{Direction, Group, Peer, Port, Rule};
use crate::query::{Decision, Judgement, Query};
use crate::ruleset::Ruleset;
use crate::service::dports;

/// How many near misses are worth reading.
const NEAR: usize = 8;

/// Why a packet may or may not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Whether it may.
    pub allow: bool,
    /// The deciding rule's full name.
    pub rule: Option<String>,
    /// One sentence.
    pub reason: String,
    /// Where it is closed: rules that allow something like it, the closest
    /// first, at most eight.
    pub near: Vec<NearMiss>,
}

/// A rule that does not match, and why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearMiss {
    /// The rule's full name.
    pub rule: String,
    /// What does not match.
    pub why: String,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        for near in &self.near {
            write!(f, "\n  {}: {}", near.rule, near.why)?;
        }
        Ok(())
    }
}

impl Ruleset {
    /// Puts a judgement of this ruleset into words.
    #[must_use]
    pub fn explain(&self, judgement: &Judgement, query: &Query) -> Explanation {
        let mut rule = None;
        let mut near = Vec::new();
        let packet = Packet(query);
        let port = self.port(query.port);
        let name = port.map_or("?", |port| &port.name);
        let way = match query.direction {
            Direction::Ingress => "ingress",
            Direction::Egress => "egress",
        };
        let reason = match judgement.decision {
            Decision::Rule(id) => {
                let allowed_by = self.rule_name(id);
                rule = Some(allowed_by.to_string());
                format!("rule {allowed_by} allows {packet}")
            }
            Decision::Closed => {
                let groups = port.map_or_else(Vec::new, |port| self.selecting(port, query));
                near = port.map_or_else(Vec::new, |port| self.near(port, query));
                format!(
                    "{way} of port {name} is closed by {}, and no rule of its groups allows {packet}",
                    groups.join(", ")
                )
            }
            Decision::VpcDefault => {
                let vpc = port.and_then(|port| self.policy().vpcs.get(&port.vni));
                format!(
                    "no security group selects {way} of port {name}, and VPC {} {} by default",
                    vpc.map_or("?", |vpc| &vpc.name),
                    if judgement.allow { "allows" } else { "denies" },
                )
            }
            Decision::NoPort => {
                format!(
                    "no policy for port id {} has come yet, so it is closed",
                    query.port
                )
            }
        };
        Explanation {
            allow: judgement.allow,
            rule,
            reason,
            near,
        }
    }

    fn selecting<'a>(&'a self, port: &'a Port, query: &Query) -> Vec<&'a str> {
        self.groups(port)
            .filter(|group| group.selects(query.direction))
            .map(|group| group.name.as_str())
            .collect()
    }

    fn near(&self, port: &Port, query: &Query) -> Vec<NearMiss> {
        let mut found: Vec<(usize, NearMiss)> = self
            .groups(port)
            .flat_map(|group| &group.rules)
            .filter(|rule| rule.direction == query.direction)
            .map(|rule| {
                let misses = self.misses(port, rule, query);
                (
                    misses.len(),
                    NearMiss {
                        rule: rule.name.clone(),
                        why: misses.join("; "),
                    },
                )
            })
            .collect();
        found.sort_by_key(|(misses, _)| *misses);
        found.truncate(NEAR);
        found.into_iter().map(|(_, near)| near).collect()
    }

    /// What of a rule does not match.
    fn misses(&self, port: &Port, rule: &Rule, query: &Query) -> Vec<String> {
        let mut misses = Vec::new();
        match rule.protocol {
            Some(p) if p != query.proto => {
                misses.push(format!(
                    "is for {}, not {}",
                    Protocol(p),
                    Protocol(query.proto)
                ));
            }
            Some(p) => {
                let is_icmp = matches!(p, proto::ICMP | proto::ICMPV6);
                let hit = dports(rule).any(|(a, b)| (a..=b).contains(&query.dport));
                if !hit && is_icmp {
                    misses.push(format!("is not for {}", Packet(query).what()));
                } else if !hit {
                    let ports: Vec<_> = rule.ports.iter().map(|r| Range(*r).to_string()).collect();
                    misses.push(format!(
                        "is for port {}, not {}",
                        ports.join(", "),
                        query.dport
                    ));
                }
            }
            None => {}
        }
        let groups = self.groups_of(port.vni, query.peer);
        let is_peer = |peer: &Peer| match peer {
            Peer::Group(group) => groups.contains(group),
            Peer::Cidr { prefix, except } => {
                prefix.contains(query.peer) && !except.iter().any(|e| e.contains(query.peer))
            }
        };
        if !rule.peers.is_empty() && !rule.peers.iter().any(is_peer) {
            misses.push(format!(
                "is for {}, which {} is not in",
                self.peers(rule),
                query.peer
            ));
        }
        misses
    }

    fn peers(&self, rule: &Rule) -> String {
        let mut names: Vec<String> = rule
            .peers
            .iter()
            .take(4)
            .map(|peer| match peer {
                Peer::Group(id) => {
                    let group = self.policy().groups.get(id);
                    group.map_or_else(|| id.to_string(), |group| group.name.clone())
                }
                Peer::Cidr { prefix, except } if except.is_empty() => prefix.to_string(),
                Peer::Cidr { prefix, .. } => format!("{prefix} with exceptions"),
            })
            .collect();
        if rule.peers.len() > names.len() {
            names.push(format!("{} more", rule.peers.len() - names.len()));
        }
        names.join(", ")
    }

    fn groups<'a>(&'a self, port: &'a Port) -> impl Iterator<Item = &'a Group> {
        port.groups
            .iter()
            .filter_map(|id| self.policy().groups.get(id))
    }
}

/// A query as one reads a packet.
struct Packet<'a>(&'a Query);

impl Packet<'_> {
    fn what(&self) -> String {
        let Query { proto, dport, .. } = *self.0;
        match proto {
            proto::ICMP | proto::ICMPV6 => {
                format!(
                    "{} type {} code {}",
                    Protocol(proto),
                    dport >> 8,
                    dport & 0xff
                )
            }
            proto::TCP | proto::UDP | proto::SCTP => {
                format!("{} to port {dport}", Protocol(proto))
            }
            _ => Protocol(proto).to_string(),
        }
    }
}

impl fmt::Display for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let peer: Addr = self.0.peer;
        let way = match self.0.direction {
            Direction::Ingress => "from",
            Direction::Egress => "towards",
        };
        write!(f, "{} {way} {peer}", self.what())
    }
}

struct Protocol(u8);

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            proto::TCP => f.write_str("TCP"),
            proto::UDP => f.write_str("UDP"),
            proto::SCTP => f.write_str("SCTP"),
            proto::ICMP => f.write_str("ICMP"),
            proto::ICMPV6 => f.write_str("ICMPv6"),
            other => write!(f, "protocol {other}"),
        }
    }
}

struct Range((u16, u16));

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = self.0;
        if first == last {
            write!(f, "{first}")
        } else {
            write!(f, "{first}-{last}")
        }
    }
}
