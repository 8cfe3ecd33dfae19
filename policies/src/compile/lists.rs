//! Groups and policies as lists of rules.

use std::collections::{BTreeMap, BTreeSet};

use penstock_flow::tuple::proto;
use penstock_flow::{Addr, Prefix};
use penstock_rules::model as rules;

use super::{CompileError, found, id, vni};
use crate::anonymous::Anonymous;
use crate::ids::Ids;
use crate::model::{
    Action, AppliesTo, Group, GroupName, IcmpKind, Mode, Model, OnChange, Peer, Policy, PolicyName,
    PortRange, PrefixSetName, Rule, Service, Tier, VpcName,
};
use crate::unresolved::is_unresolved;

/// One full length of an address.
const WHOLE: u8 = 128;

/// The lists of some VPCs, and what they speak of.
#[derive(Debug, Default)]
pub(super) struct Lists {
    pub(super) lists: BTreeMap<rules::ListId, rules::List>,
    pub(super) groups: BTreeSet<GroupName>,
    pub(super) anonymous: BTreeMap<String, Anonymous>,
    pub(super) sets: BTreeSet<PrefixSetName>,
}

impl Lists {
    pub(super) fn compile(
        model: &Model,
        ids: &Ids,
        here: &BTreeSet<VpcName>,
    ) -> Result<Self, CompileError> {
        let mut out = Self::default();
        let groups = model.groups.iter();
        for (name, group) in groups.filter(|(n, _)| here.contains(&n.vpc())) {
            let number = id(&ids.groups, name)?;
            let list = out.group(model, ids, name, group)?;
            out.lists.insert(number, list);
        }
        let policies = model.policies.iter();
        for (name, policy) in policies.filter(|(n, _)| here.contains(&n.vpc())) {
            let number = id(&ids.policies, name)?;
            let list = out.policy(model, ids, name, policy)?;
            out.lists.insert(number, list);
        }
        Ok(out)
    }

    fn group(
        &mut self,
        model: &Model,
        ids: &Ids,
        name: &GroupName,
        group: &Group,
    ) -> Result<rules::List, CompileError> {
        let Group {
            directions,
            selector: _,
            mode,
            on_change,
            rules,
        } = group;
        self.groups.insert(name.clone());
        let vpc = name.vpc();
        Ok(rules::List {
            name: name.to_string(),
            vni: vni(model, &vpc)?,
            tier: rules::Tier::Tenant,
            priority: rules::DEFAULT_PRIORITY,
            applies: rules::Applies::Groups(vec![id(&ids.groups, name)?]),
            selects_ingress: directions.contains(&rules::Direction::Ingress),
            selects_egress: directions.contains(&rules::Direction::Egress),
            audit: *mode == Mode::Audit,
            on_change: on_change_of(*on_change),
            rules: self.rules(model, ids, &vpc, name.as_str(), rules)?,
        })
    }

    fn policy(
        &mut self,
        model: &Model,
        ids: &Ids,
        name: &PolicyName,
        policy: &Policy,
    ) -> Result<rules::List, CompileError> {
        let Policy {
            tier,
            priority,
            applies_to,
            directions,
            mode,
            on_change,
            rules,
        } = policy;
        let vpc = name.vpc();
        Ok(rules::List {
            name: name.to_string(),
            vni: vni(model, &vpc)?,
            tier: match tier {
                Tier::Admin => rules::Tier::Admin,
                Tier::Tenant => rules::Tier::Tenant,
                Tier::Baseline => rules::Tier::Baseline,
            },
            priority: *priority,
            applies: self.applies(ids, applies_to)?,
            selects_ingress: directions.contains(&rules::Direction::Ingress),
            selects_egress: directions.contains(&rules::Direction::Egress),
            audit: *mode == Mode::Audit,
            on_change: on_change_of(*on_change),
            rules: self.rules(model, ids, &vpc, name.as_str(), rules)?,
        })
    }

    fn applies(
        &mut self,
        ids: &Ids,
        applies_to: &AppliesTo,
    ) -> Result<rules::Applies, CompileError> {
        let AppliesTo::Some {
            groups,
            ports,
            selector,
        } = applies_to
        else {
            return Ok(rules::Applies::Vpc);
        };
        let mut members = BTreeSet::new();
        for name in groups {
            self.groups.insert(name.clone());
            members.insert(id(&ids.groups, name)?);
        }
        for port in ports {
            members.insert(self.anonymous(ids, Anonymous::Port(port.clone()))?);
        }
        if let Some(selector) = selector {
            members.insert(self.anonymous(ids, Anonymous::Selector(selector.clone()))?);
        }
        Ok(rules::Applies::Groups(members.into_iter().collect()))
    }

    fn anonymous(&mut self, ids: &Ids, group: Anonymous) -> Result<u32, CompileError> {
        let text = group.text();
        let number = id(&ids.anonymous, &text)?;
        self.anonymous.insert(text, group);
        Ok(number)
    }

    fn rules(
        &mut self,
        model: &Model,
        ids: &Ids,
        own: &VpcName,
        list: &str,
        rules: &[Rule],
    ) -> Result<Vec<rules::Rule>, CompileError> {
        let mut out = Vec::with_capacity(rules.len());
        for rule in rules {
            let peers = self.peers(model, ids, own, rule)?;
            out.push(compile_rule(list, rule, peers));
        }
        Ok(out)
    }

    /// Who the other end may be. One that cannot be found closes: what lets through
    /// does not match it, and what refuses matches everyone.
    fn peers(
        &mut self,
        model: &Model,
        ids: &Ids,
        own: &VpcName,
        rule: &Rule,
    ) -> Result<rules::Peers, CompileError> {
        let unresolved = |peer: &&Peer| is_unresolved(model, own, peer);
        let refuses = matches!(rule.action, Action::Deny | Action::Reject);
        if rule.peers.is_empty() || (refuses && rule.peers.iter().any(|p| unresolved(&p))) {
            return Ok(rules::Peers::Everyone);
        }
        let mut peers = Vec::with_capacity(rule.peers.len());
        for peer in rule.peers.iter().filter(|peer| !unresolved(peer)) {
            self.peer(model, ids, peer, &mut peers)?;
        }
        Ok(rules::Peers::Any(peers))
    }

    fn peer(
        &mut self,
        model: &Model,
        ids: &Ids,
        peer: &Peer,
        out: &mut Vec<rules::Peer>,
    ) -> Result<(), CompileError> {
        match peer {
            Peer::Cidr { prefix, except } => out.push(rules::Peer::Cidr {
                prefix: *prefix,
                except: except.clone(),
            }),
            Peer::PrefixSet(name) => {
                self.sets.insert(name.clone());
                out.push(rules::Peer::Set(id(&ids.prefix_sets, name)?));
            }
            Peer::Group(name) => {
                self.groups.insert(name.clone());
                out.push(rules::Peer::Group(id(&ids.groups, name)?));
            }
            Peer::Selector(selector) => {
                let group = Anonymous::Selector(selector.clone());
                out.push(rules::Peer::Group(self.anonymous(ids, group)?));
            }
            Peer::Port(name) => {
                let port = found(model.ports.get(name), name.as_str())?;
                out.extend(port.ips.iter().copied().filter_map(alone));
            }
            Peer::Vpc(name) => {
                let vpc = found(model.vpcs.get(name), name.as_str())?;
                out.extend(vpc.cidrs.iter().map(|prefix| rules::Peer::Cidr {
                    prefix: *prefix,
                    except: Vec::new(),
                }));
            }
        }
        Ok(())
    }
}

/// A single address.
fn alone(addr: Addr) -> Option<rules::Peer> {
    let prefix = Prefix::new(addr, WHOLE)?;
    Some(rules::Peer::Cidr {
        prefix,
        except: Vec::new(),
    })
}

const fn on_change_of(on_change: OnChange) -> rules::OnChange {
    match on_change {
        OnChange::Reevaluate => rules::OnChange::Reevaluate,
        OnChange::Persist => rules::OnChange::Persist,
        OnChange::Drop => rules::OnChange::Drop,
    }
}

fn compile_rule(list: &str, rule: &Rule, peers: rules::Peers) -> rules::Rule {
    let Rule {
        name,
        direction,
        action,
        priority,
        service,
        peers: _,
        stateful,
        log,
    } = rule;
    let number = |number| Some(rules::Protocol::Number(number));
    let (protocol, ports, icmp) = match service {
        Service::Any => (None, None, None),
        Service::Tcp(ports) => (number(proto::TCP), Some(ports), None),
        Service::Udp(ports) => (number(proto::UDP), Some(ports), None),
        Service::Sctp(ports) => (number(proto::SCTP), Some(ports), None),
        Service::Icmp(kind) => (number(proto::ICMP), None, Some(*kind)),
        Service::Icmpv6(kind) => (number(proto::ICMPV6), None, Some(*kind)),
        Service::Rocev2 => (Some(rules::Protocol::Roce), None, None),
    };
    let (icmp_type, icmp_code) = match icmp {
        None | Some(IcmpKind::Every) => (None, None),
        Some(IcmpKind::Type(kind)) => (Some(kind), None),
        Some(IcmpKind::Code(kind, code)) => (Some(kind), Some(code)),
    };
    rules::Rule {
        name: format!("{list}/rules/{name}"),
        direction: *direction,
        action: match action {
            Action::Allow => rules::Action::Allow,
            Action::Deny => rules::Action::Deny,
            Action::Reject => rules::Action::Reject,
            Action::Pass => rules::Action::Pass,
        },
        priority: *priority,
        protocol,
        source_ports: ports.map_or_else(Vec::new, |ports| ranges(&ports.source)),
        ports: ports.map_or_else(Vec::new, |ports| ranges(&ports.destination)),
        icmp_type,
        icmp_code,
        peers,
        stateful: *stateful,
        log: *log,
    }
}

fn ranges(ports: &[PortRange]) -> Vec<(u16, u16)> {
    ports.iter().map(|p| (p.first, p.last)).collect()
}
