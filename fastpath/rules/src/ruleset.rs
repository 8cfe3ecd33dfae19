//! A policy, compiled.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use hashbrown::HashMap;
use penstock_flow::Addr;

use crate::error::CompileError;
use crate::model::{
    Direction, Endpoint, Group, GroupId, Peer, Policy, Port, PortId, Rule, Subnet, SubnetId, Vni,
};
use crate::program::{Program, Services};
use crate::query::{Decision, Judgement, Query, RuleId};
use crate::service;

pub(crate) type Map<K, V> = HashMap<K, V, foldhash::fast::FixedState>;

/// A policy, compiled for lookup. Its memory is linear in the policy, times
/// the number of different sets of groups that ports have.
#[derive(Clone, Debug)]
pub struct Ruleset {
    policy: Policy,
    rules: Vec<(GroupId, usize)>,
    ports: Map<PortId, Compiled>,
    /// The groups of whoever has an address.
    members: Map<(Vni, Addr), Arc<[GroupId]>>,
    gateways: Map<(Vni, Addr), SubnetId>,
}

/// A port, compiled.
#[derive(Clone, Debug)]
pub(crate) struct Compiled {
    pub(crate) vni: Vni,
    pub(crate) ingress: Side,
    pub(crate) egress: Side,
}

/// One direction of a port.
#[derive(Clone, Debug)]
pub(crate) enum Side {
    Selected(Arc<Program>),
    Default { allow: bool },
}

impl Compiled {
    pub(crate) const fn side(&self, direction: Direction) -> &Side {
        match direction {
            Direction::Ingress => &self.ingress,
            Direction::Egress => &self.egress,
        }
    }
}

impl Side {
    /// Whether it lets no one pass.
    pub(crate) fn is_closed(&self) -> bool {
        match self {
            Self::Selected(program) => program.is_empty(),
            Self::Default { allow } => !allow,
        }
    }
}

impl Ruleset {
    /// Checks the policy's references and compiles it.
    ///
    /// # Errors
    /// The first contradiction found.
    pub fn compile(policy: Policy) -> Result<Self, CompileError> {
        check(&policy)?;
        let mut rules = Vec::new();
        let mut first_rule = BTreeMap::new();
        for (id, group) in &policy.groups {
            first_rule.insert(*id, rules.len());
            rules.extend((0..group.rules.len()).map(|i| (*id, i)));
        }
        let mut compiler = Compiler {
            policy: &policy,
            first_rule,
            services: Services::new(),
            sides: BTreeMap::new(),
        };
        let mut ports = Map::default();
        for (id, port) in &policy.ports {
            let compiled = Compiled {
                vni: port.vni,
                ingress: compiler.side(port, Direction::Ingress),
                egress: compiler.side(port, Direction::Egress),
            };
            ports.insert(*id, compiled);
        }
        let gateways = gateways(&policy)?;
        let members = members(&policy);
        Ok(Self {
            policy,
            rules,
            ports,
            members,
            gateways,
        })
    }

    /// Judges a packet that would open a connection. Allocates nothing.
    #[must_use]
    pub fn judge(&self, query: &Query) -> Judgement {
        let Some(port) = self.ports.get(&query.port) else {
            return Judgement {
                allow: false,
                decision: Decision::NoPort,
            };
        };
        match port.side(query.direction) {
            Side::Default { allow } => Judgement {
                allow: *allow,
                decision: Decision::VpcDefault,
            },
            Side::Selected(program) => {
                let groups = self.groups_of(port.vni, query.peer);
                match program.find(query.peer, groups, query.proto, query.dport) {
                    Some(rule) => Judgement {
                        allow: true,
                        decision: Decision::Rule(rule),
                    },
                    None => Judgement {
                        allow: false,
                        decision: Decision::Closed,
                    },
                }
            }
        }
    }

    /// The generation of the policy.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.policy.generation
    }

    /// What it was compiled from.
    #[must_use]
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// A port of this node.
    #[must_use]
    pub fn port(&self, id: PortId) -> Option<&Port> {
        self.policy.ports.get(&id)
    }

    /// Who has this address, on whatever node.
    #[must_use]
    pub fn endpoint(&self, vni: Vni, addr: Addr) -> Option<&Endpoint> {
        self.policy.endpoints.get(&(vni, addr))
    }

    /// The subnet whose gateway this address is.
    #[must_use]
    pub fn gateway(&self, vni: Vni, addr: Addr) -> Option<&Subnet> {
        let id = self.gateways.get(&(vni, addr))?;
        self.policy.subnets.get(id)
    }

    /// How many rules there are; their ids are below it.
    #[must_use]
    pub fn rule_count(&self) -> usize {
        self.rules.len()
    }

    /// A rule; `None` for an id of another ruleset.
    #[must_use]
    pub fn rule(&self, id: RuleId) -> Option<&Rule> {
        let (group, index) = self.rules.get(usize::try_from(id.0).ok()?)?;
        self.policy.groups.get(group)?.rules.get(*index)
    }

    /// A rule's full name; empty for an id of another ruleset.
    #[must_use]
    pub fn rule_name(&self, id: RuleId) -> &str {
        self.rule(id).map_or("", |rule| &rule.name)
    }

    /// The ports of this node.
    pub(crate) const fn ports(&self) -> &Map<PortId, Compiled> {
        &self.ports
    }

    /// The groups that an address is a member of, ascending.
    pub(crate) fn groups_of(&self, vni: Vni, addr: Addr) -> &[GroupId] {
        self.members.get(&(vni, addr)).map_or(&[], |groups| groups)
    }
}

/// What ports of equal groups share.
struct Compiler<'a> {
    policy: &'a Policy,
    first_rule: BTreeMap<GroupId, usize>,
    services: Services,
    sides: BTreeMap<(Vec<GroupId>, Direction), Arc<Program>>,
}

impl Compiler<'_> {
    fn side(&mut self, port: &Port, direction: Direction) -> Side {
        let groups: Vec<(GroupId, &Group)> = sorted(&port.groups)
            .into_iter()
            .filter_map(|id| Some((id, self.policy.groups.get(&id)?)))
            .collect();
        if !groups.iter().any(|(_, group)| group.selects(direction)) {
            let vpc = self.policy.vpcs.get(&port.vni);
            return Side::Default {
                allow: vpc.is_some_and(|vpc| vpc.default_allow),
            };
        }
        let key = (groups.iter().map(|(id, _)| *id).collect(), direction);
        if let Some(program) = self.sides.get(&key) {
            return Side::Selected(Arc::clone(program));
        }
        let mut rules = Vec::new();
        for (id, group) in groups {
            let first = self.first_rule.get(&id).copied().unwrap_or(0);
            for (i, rule) in group.rules.iter().enumerate() {
                // `check` has seen that ids fit.
                if rule.direction == direction
                    && let Ok(rule_id) = u32::try_from(first + i)
                {
                    rules.push((RuleId(rule_id), rule));
                }
            }
        }
        let program = Arc::new(Program::new(&rules, &mut self.services));
        self.sides.insert(key, Arc::clone(&program));
        Side::Selected(program)
    }
}

impl Group {
    /// Whether members are closed in this direction but for rules.
    #[must_use]
    pub const fn selects(&self, direction: Direction) -> bool {
        match direction {
            Direction::Ingress => self.selects_ingress,
            Direction::Egress => self.selects_egress,
        }
    }
}

fn sorted(groups: &[GroupId]) -> Vec<GroupId> {
    let mut groups = groups.to_vec();
    groups.sort_unstable();
    groups.dedup();
    groups
}

fn members(policy: &Policy) -> Map<(Vni, Addr), Arc<[GroupId]>> {
    let mut sets = BTreeMap::<Vec<GroupId>, Arc<[GroupId]>>::new();
    let mut members = Map::with_capacity_and_hasher(
        policy.endpoints.len(),
        foldhash::fast::FixedState::default(),
    );
    for (key, endpoint) in &policy.endpoints {
        let groups = sorted(&endpoint.groups);
        let set = sets
            .entry(groups)
            .or_insert_with_key(|groups| Arc::from(groups.as_slice()));
        members.insert(*key, Arc::clone(set));
    }
    members
}

fn gateways(policy: &Policy) -> Result<Map<(Vni, Addr), SubnetId>, CompileError> {
    let mut gateways = Map::default();
    for (id, subnet) in &policy.subnets {
        for gateway in &subnet.gateways {
            if gateways
                .insert((subnet.vni, *gateway), *id)
                .is_some_and(|other| other != *id)
            {
                return Err(CompileError::GatewayTwice {
                    vni: subnet.vni,
                    gateway: *gateway,
                });
            }
        }
    }
    Ok(gateways)
}

/// Everything that is named is there, and every rule has a meaning.
fn check(policy: &Policy) -> Result<(), CompileError> {
    let vpc = |vni: Vni, what: &dyn Fn() -> String| {
        if policy.vpcs.contains_key(&vni) {
            Ok(())
        } else {
            Err(CompileError::UnknownVpc { what: what(), vni })
        }
    };
    let group = |group: GroupId, vni: Vni, what: &dyn Fn() -> String| {
        if policy.groups.get(&group).is_some_and(|g| g.vni == vni) {
            Ok(())
        } else {
            Err(CompileError::UnknownGroup {
                what: what(),
                group,
            })
        }
    };
    for subnet in policy.subnets.values() {
        vpc(subnet.vni, &|| format!("subnet {}", subnet.name))?;
    }
    let mut count = 0_u32;
    for g in policy.groups.values() {
        vpc(g.vni, &|| format!("group {}", g.name))?;
        for rule in &g.rules {
            service::check(rule)?;
            count = count
                .checked_add(1)
                .ok_or_else(|| CompileError::TooManyRules {
                    group: g.name.clone(),
                })?;
            for peer in &rule.peers {
                if let Peer::Group(id) = peer {
                    group(*id, g.vni, &|| format!("rule {}", rule.name))?;
                }
            }
        }
    }
    for port in policy.ports.values() {
        vpc(port.vni, &|| format!("port {}", port.name))?;
        if policy
            .subnets
            .get(&port.subnet)
            .is_none_or(|s| s.vni != port.vni)
        {
            return Err(CompileError::UnknownSubnet {
                port: port.name.clone(),
                subnet: port.subnet,
            });
        }
        for id in &port.groups {
            group(*id, port.vni, &|| format!("port {}", port.name))?;
        }
    }
    for ((vni, addr), endpoint) in &policy.endpoints {
        vpc(*vni, &|| format!("endpoint {addr}"))?;
        for id in &endpoint.groups {
            group(*id, *vni, &|| format!("endpoint {addr}"))?;
        }
    }
    Ok(())
}
