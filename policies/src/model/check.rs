//! Validation: from documents to the model, with every problem found.
//!
//! A problem is told once, at the field that an operator would change. What
//! depends on something that is wrong already is not told again. Of two that
//! claim the same thing the later one is told.

use std::collections::{BTreeMap, HashMap};

use super::{Model, NodeName, SubnetName, TenantName, VpcName};
use crate::document::{Kind, Resource, Spec};
use crate::problem::{Problem, Problems};
use crate::suggest::{did_you_mean, quote, shown, visible};

mod group;
mod node;
mod parse;
mod peer;
mod peering;
mod policy;
mod port;
mod rule;
mod selector;
mod vpc;

/// How much of everything there may be.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "docs/policy.md states each in words")]
pub struct Limits {
    pub resources: usize,
    pub cidrs_per_vpc: usize,
    pub ips_per_port: usize,
    pub groups_per_port: usize,
    pub labels_per_port: usize,
    pub rules_per_list: usize,
    pub ranges_per_rule: usize,
    pub peers_per_rule: usize,
    pub excepts_per_cidr: usize,
    pub policies_per_vpc: usize,
    pub applies_to: usize,
    pub expressions: usize,
    pub values: usize,
    pub prefixes_per_set: usize,
    pub nics_per_node: usize,
    pub text: usize,
}

/// The limits in force.
pub const LIMITS: Limits = Limits {
    resources: 100_000,
    cidrs_per_vpc: 16,
    ips_per_port: 16,
    groups_per_port: 16,
    labels_per_port: 64,
    rules_per_list: 1000,
    ranges_per_rule: 64,
    peers_per_rule: 256,
    excepts_per_cidr: 64,
    policies_per_vpc: 10_000,
    applies_to: 256,
    expressions: 64,
    values: 256,
    prefixes_per_set: 100_000,
    nics_per_node: 16,
    text: 256,
};

/// Gives a complete set of resources its meaning.
///
/// # Errors
/// Everything that is wrong with it, in the order of the resources; at most a
/// thousand problems, the last of which says how many more there are.
pub fn validate(resources: &[Resource]) -> Result<Model, Vec<Problem>> {
    let mut check = Check::new(resources);
    if resources.len() > LIMITS.resources {
        let count = resources.len();
        check.at(LIMITS.resources).problem(
            "name",
            format!(
                "{count} resources are more than {} at once",
                LIMITS.resources
            ),
            "split the set",
        );
        return Err(check.problems.into_vec());
    }
    check.names();
    for kind in Kind::ALL {
        for (index, resource) in resources.iter().enumerate() {
            if resource.spec.kind() == kind {
                check.resource(index, resource);
            }
        }
    }
    if check.problems.count() == 0 {
        Ok(check.model)
    } else {
        Err(check.problems.into_vec())
    }
}

/// The state of a validation.
struct Check<'a> {
    resources: &'a [Resource],
    /// Every name that is declared, with its kind, whether sound or not.
    declared: HashMap<&'a str, Kind>,
    model: Model,
    problems: Problems,
    /// Suggestions still affordable: each compares all names of a kind.
    suggestions: usize,
    claims: Claims<'a>,
}

/// Who was first to claim something.
#[derive(Default)]
struct Claims<'a> {
    vnis: HashMap<u32, &'a str>,
    vteps: HashMap<penstock_flow::Addr, &'a str>,
    workers: HashMap<String, &'a str>,
    /// In a VPC.
    macs: HashMap<(VpcName, penstock_flow::Mac), &'a str>,
    ips: HashMap<(VpcName, penstock_flow::Addr), &'a str>,
    /// On a node: attachment and VLAN.
    attachments: HashMap<(NodeName, &'a str, u16), &'a str>,
    /// On a node: the NIC of an attachment.
    attachment_nics: HashMap<(NodeName, &'a str), (u32, &'a str)>,
    /// In a VPC: prefixes of subnets, by first address.
    prefixes: HashMap<VpcName, BTreeMap<u128, (penstock_flow::Prefix, &'a str)>>,
    /// Subnet and NIC whose MTUs do not fit, told once.
    narrow: std::collections::BTreeSet<(SubnetName, NodeName, u32)>,
    /// Who declares a peering from one VPC to another.
    peerings: HashMap<(VpcName, VpcName), &'a str>,
    /// Prefixes of the VPCs peered in force with each.
    beside: HashMap<VpcName, BTreeMap<u128, (penstock_flow::Prefix, VpcName)>>,
    /// How many policies a VPC has.
    policies: HashMap<VpcName, usize>,
    /// In a VPC: the family of its first port's VTEP.
    families: HashMap<VpcName, (bool, &'a str)>,
}

/// The resource that is being looked at.
struct At<'c, 'a> {
    check: &'c mut Check<'a>,
    index: usize,
}

impl<'a> Check<'a> {
    fn new(resources: &'a [Resource]) -> Self {
        Self {
            resources,
            declared: HashMap::with_capacity(resources.len().min(LIMITS.resources)),
            model: Model::default(),
            problems: Problems::default(),
            suggestions: 100,
            claims: Claims::default(),
        }
    }

    const fn at(&mut self, index: usize) -> At<'_, 'a> {
        At { check: self, index }
    }

    fn names(&mut self) {
        for (index, resource) in self.resources.iter().enumerate() {
            let kind = resource.spec.kind();
            if self.declared.insert(&resource.name, kind).is_some() && !resource.name.is_empty() {
                self.at(index).problem(
                    "name",
                    "is declared twice".to_owned(),
                    "keep one of the two",
                );
            }
        }
    }

    fn resource(&mut self, index: usize, resource: &'a Resource) {
        let Resource {
            name: _,
            spec,
            etag: _,
        } = resource;
        let mut at = self.at(index);
        match spec {
            Spec::Tenant(spec) => {
                if let Some(name) = at.name(TenantName::parse) {
                    at.tenant(name, spec);
                }
            }
            Spec::Vpc(spec) => {
                if let Some(name) = at.name(VpcName::parse) {
                    at.vpc(name, spec);
                }
            }
            Spec::Node(spec) => {
                if let Some(name) = at.name(NodeName::parse) {
                    at.node(name, spec);
                }
            }
            Spec::Subnet(spec) => {
                if let Some(name) = at.name(SubnetName::parse) {
                    at.subnet(name, spec);
                }
            }
            Spec::SecurityGroup(spec) => {
                if let Some(name) = at.name(super::GroupName::parse) {
                    at.group(name, spec);
                }
            }
            Spec::Policy(spec) => {
                if let Some(name) = at.name(super::PolicyName::parse) {
                    at.policy(name, spec);
                }
            }
            Spec::PrefixSet(spec) => {
                if let Some(name) = at.name(super::PrefixSetName::parse) {
                    at.prefix_set(name, spec);
                }
            }
            Spec::Peering(spec) => {
                if let Some(name) = at.name(super::PeeringName::parse) {
                    at.peering(name, spec);
                }
            }
            Spec::Port(spec) => {
                if let Some(name) = at.name(super::PortName::parse) {
                    at.port(name, spec);
                }
            }
        }
    }
}

impl<'a> At<'_, 'a> {
    /// The resource's name as declared.
    fn declared_name(&self) -> &'a str {
        self.check.resources.get(self.index).map_or("", |r| &r.name)
    }

    fn problem(
        &mut self,
        field: impl Into<String>,
        message: impl Into<String>,
        suggestion: impl Into<String>,
    ) {
        self.check.problems.push(Problem {
            resource: self.index,
            name: shown(self.declared_name()),
            field: visible(field),
            message: visible(message),
            suggestion: visible(suggestion),
        });
    }

    /// The resource's name. With an unsound last segment the rest of the
    /// resource is still looked at, under another.
    fn name<T>(&mut self, parse: fn(&str) -> Result<T, super::NameError>) -> Option<T> {
        let declared = self.declared_name();
        parse(declared)
            .or_else(|e| {
                self.problem("name", e.message, e.suggestion);
                let parent = declared.rsplit_once('/').map_or("", |(parent, _)| parent);
                parse(&format!("{parent}/unnamed"))
            })
            .ok()
    }

    /// What a parser found, or its refusal as a problem of this field.
    fn parsed<T>(&mut self, field: &str, parsed: Result<T, parse::Refusal>) -> Option<T> {
        parsed
            .map_err(|e| self.problem(field, e.message, e.suggestion))
            .ok()
    }

    /// Refuses lists that are too long; the rest of it is not looked at.
    fn within<T>(&mut self, field: &str, list: &'a [T], most: usize) -> &'a [T] {
        if list.len() > most {
            let message = format!("{} elements are more than {most}", list.len());
            self.problem(field, message, format!("keep at most {most}"));
        }
        list.get(..most).unwrap_or(list)
    }

    /// Whether the parent that the name speaks of is declared.
    fn parent(&mut self, kind: Kind, name: &str) {
        if self.check.declared.get(name) != Some(&kind) {
            let suggestion = self
                .nearest(kind, name, "")
                .unwrap_or_else(|| format!("declare {name} too"));
            let message = format!("{} {name} does not exist", kind.name());
            self.problem("name", message, suggestion);
        }
    }

    /// Resolves a full name, or the last segment of one in `parent`, of a kind;
    /// refuses one that lies elsewhere.
    fn reference(&mut self, field: &str, kind: Kind, parent: &str, text: &str) -> Option<String> {
        let name = self.anywhere(field, kind, parent, text)?;
        if name.starts_with(parent) {
            return Some(name);
        }
        let message = format!("{} is of another VPC", quote(text));
        let vpc = parent.trim_end_matches('/');
        self.problem(field, message, format!("name one of {vpc}"));
        None
    }

    /// Resolves a full name, or the last segment of one in `parent`, of a kind.
    fn anywhere(&mut self, field: &str, kind: Kind, parent: &str, text: &str) -> Option<String> {
        if text.is_empty() {
            self.problem(field, "is missing", format!("name a {}", kind.name()));
            return None;
        }
        let name = if text.contains('/') {
            text.to_owned()
        } else {
            format!("{parent}{}/{text}", kind.collection())
        };
        if self.check.declared.get(name.as_str()) == Some(&kind) {
            return Some(name);
        }
        let suggestion = self.nearest(kind, &name, parent).unwrap_or_else(|| {
            let form = if parent.is_empty() || kind == Kind::Vpc {
                ""
            } else {
                " in this VPC"
            };
            format!("declare it, or name a {} that exists{form}", kind.name())
        });
        let message = format!("no {} {} exists", kind.name(), quote(text));
        self.problem(field, message, suggestion);
        None
    }

    /// The declared name of a kind below `parent` nearest to `name`.
    fn nearest(&mut self, kind: Kind, name: &str, parent: &str) -> Option<String> {
        self.check.suggestions = self.check.suggestions.checked_sub(1)?;
        // A name of somewhere else is near to names there.
        let parent = if name.starts_with(parent) { parent } else { "" };
        let last = |name: &'a str| name.strip_prefix(parent).unwrap_or(name);
        let candidates = self
            .check
            .declared
            .iter()
            .filter(|(name, k)| **k == kind && name.starts_with(parent))
            .map(|(name, _)| last(name));
        let collection = format!("{}/", kind.collection());
        let word = name.strip_prefix(parent).unwrap_or(name);
        if parent.is_empty() && kind != Kind::Node {
            return did_you_mean(word, candidates);
        }
        did_you_mean(
            word.strip_prefix(&collection).unwrap_or(word),
            candidates.map(|c| c.strip_prefix(&collection).unwrap_or(c)),
        )
    }
}
