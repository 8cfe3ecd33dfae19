//! Why a rule does not match.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use penstock_flow::Addr;
use penstock_flow::tuple::proto;

use super::words::{self, Packet, Range};
use crate::model::{Peer, Peers, Protocol, Rule, Vni};
use crate::query::Query;
use crate::ruleset::Ruleset;
use crate::service::{Header, dports};

impl Ruleset {
    /// What of a rule does not match; nothing: it does. `vni`: the port's VPC.
    pub(super) fn misses(&self, vni: Vni, rule: &Rule, query: &Query) -> Vec<String> {
        let mut misses = Vec::new();
        let header = Header::new(query.proto, query.sport, query.dport);
        match rule.protocol {
            Some(p) if p.class() != header.class => {
                misses.push(format!("is for {}, not {}", of(p), met(query)));
            }
            Some(p) => {
                let is_icmp = matches!(p, Protocol::Number(proto::ICMP | proto::ICMPV6));
                let hit = dports(rule).any(|(a, b)| (a..=b).contains(&query.dport));
                if !hit && is_icmp {
                    misses.push(format!("is not for {}", Packet(query).what()));
                } else if !hit {
                    let ports = ranges(&rule.ports);
                    misses.push(format!("is for port {ports}, not {}", query.dport));
                }
                let sources = &rule.source_ports;
                if !sources.is_empty()
                    && !sources
                        .iter()
                        .any(|(a, b)| (*a..=*b).contains(&query.sport))
                {
                    let ports = ranges(sources);
                    misses.push(format!("is for source port {ports}, not {}", query.sport));
                }
            }
            None => {}
        }
        if let Peers::Any(peers) = &rule.peers
            && !peers.iter().any(|peer| self.is_peer(vni, peer, query.peer))
        {
            misses.push(match self.peer_names(peers) {
                names if names.is_empty() => "is for no one".to_string(),
                names => format!("is for {names}, which {} is not in", query.peer),
            });
        }
        misses
    }

    fn is_peer(&self, vni: Vni, peer: &Peer, addr: Addr) -> bool {
        match peer {
            Peer::Group(group) => self
                .network(vni)
                .is_some_and(|network| self.groups_of(network, vni, addr).contains(group)),
            Peer::Set(set) => self
                .set(*set)
                .is_some_and(|set| set.prefixes.iter().any(|prefix| prefix.contains(addr))),
            Peer::Cidr { prefix, except } => {
                prefix.contains(addr) && !except.iter().any(|hole| hole.contains(addr))
            }
        }
    }

    fn peer_names(&self, peers: &[Peer]) -> String {
        let mut names: Vec<String> = peers
            .iter()
            .take(4)
            .map(|peer| match peer {
                Peer::Group(id) => {
                    let group = self.group(*id);
                    group.map_or_else(|| id.to_string(), |group| group.name.clone())
                }
                Peer::Set(id) => {
                    let set = self.set(*id);
                    set.map_or_else(|| id.to_string(), |set| set.name.clone())
                }
                Peer::Cidr { prefix, except } if except.is_empty() => prefix.to_string(),
                Peer::Cidr { prefix, .. } => format!("{prefix} with exceptions"),
            })
            .collect();
        if peers.len() > names.len() {
            names.push(format!("{} more", peers.len() - names.len()));
        }
        names.join(", ")
    }
}

fn ranges(ports: &[(u16, u16)]) -> String {
    let ports: Vec<_> = ports.iter().map(|r| Range(*r).to_string()).collect();
    ports.join(", ")
}

fn of(protocol: Protocol) -> String {
    match protocol {
        Protocol::Number(p) => words::Protocol(p).to_string(),
        Protocol::Roce => "RoCEv2".to_string(),
    }
}

/// The protocol of the packet in question.
fn met(query: &Query) -> String {
    let header = Header::new(query.proto, query.sport, query.dport);
    if header.class == Protocol::Roce.class() {
        of(Protocol::Roce)
    } else {
        words::Protocol(query.proto).to_string()
    }
}
