//! The other end of a rule.

use penstock_flow::Prefix;

use super::parse::{inside, prefix};
use super::{At, LIMITS};
use crate::document::{self, Kind, Protocol};
use crate::model::{GroupName, Peer, PortName, PrefixSetName, VpcName};

/// What a peer can be.
const FIELDS: &str = "cidr, prefixSet, securityGroup, selector, port or vpc";

impl<'a> At<'_, 'a> {
    pub(super) fn peer(
        &mut self,
        path: &str,
        vpc: &VpcName,
        protocol: Protocol,
        peer: &'a document::Peer,
    ) -> Option<Peer> {
        let document::Peer {
            cidr,
            prefix_set,
            security_group,
            selector,
            port,
            vpc: other,
        } = peer;
        let given: Vec<&str> = [
            ("cidr", cidr.is_some()),
            ("prefixSet", prefix_set.is_some()),
            ("securityGroup", security_group.is_some()),
            ("selector", selector.is_some()),
            ("port", port.is_some()),
            ("vpc", other.is_some()),
        ]
        .into_iter()
        .filter_map(|(field, is_given)| is_given.then_some(field))
        .collect();
        match given.as_slice() {
            [_] => {}
            [] => {
                let hint = format!("give one of {FIELDS}; for everyone leave peers out");
                self.problem(path, "names nobody", hint);
                return None;
            }
            ["selector", "vpc"] => {
                let hint = "write vpc inside selector for ports of that VPC, or write two peers";
                self.problem(path, "has both selector and vpc", hint);
                return None;
            }
            [first, second] => {
                let message = format!("has both {first} and {second}");
                self.problem(path, message, "write them as two peers");
                return None;
            }
            [rest @ .., last] => {
                let message = format!("has {} and {last}", rest.join(", "));
                self.problem(path, message, "write each as a peer of its own");
                return None;
            }
        }
        let below = format!("{vpc}/");
        let field = |name: &str| format!("{path}.{name}");
        // An unsound name has been told where it was declared.
        if let Some(cidr) = cidr {
            return self.cidr(&field("cidr"), protocol, cidr);
        }
        if let Some(set) = prefix_set {
            let name = self.reference(&field("prefixSet"), Kind::PrefixSet, &below, set)?;
            return PrefixSetName::parse(&name).ok().map(Peer::PrefixSet);
        }
        if let Some(group) = security_group {
            let kind = Kind::SecurityGroup;
            let name = self.anywhere(&field("securityGroup"), kind, &below, group)?;
            return GroupName::parse(&name).ok().map(Peer::Group);
        }
        if let Some(port) = port {
            let name = self.anywhere(&field("port"), Kind::Port, &below, port)?;
            return PortName::parse(&name).ok().map(Peer::Port);
        }
        if let Some(other) = other {
            return self.other_vpc(&field("vpc"), vpc, other).map(Peer::Vpc);
        }
        let selector = selector.as_ref()?;
        let path = field("selector");
        let whose = match selector.vpc.as_str() {
            "" => vpc.clone(),
            other => self.other_vpc(&format!("{path}.vpc"), vpc, other)?,
        };
        let hint = "give vpc instead to mean a whole VPC, or leave peers out to mean everyone";
        self.terms(&path, &whose, selector, hint)
            .map(Peer::Selector)
    }

    /// A VPC by its full name, or by the last segment if it is the same tenant's.
    pub(super) fn other_vpc(&mut self, field: &str, own: &VpcName, text: &str) -> Option<VpcName> {
        let below = format!("{}/", own.tenant());
        let name = self.anywhere(field, Kind::Vpc, &below, text)?;
        VpcName::parse(&name).ok()
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
        let mut holes: Vec<Prefix> = Vec::with_capacity(except.len().min(LIMITS.excepts_per_cidr));
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
