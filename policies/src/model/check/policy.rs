//! Policies and prefix sets.

use std::collections::BTreeSet;

use super::group::{mode_of, on_change_of};
use super::parse::prefix;
use super::rule::Context;
use super::{At, LIMITS};
use crate::document::{self, Kind};
use crate::model::{
    AppliesTo, GroupName, Policy, PolicyName, PortName, PrefixSet, PrefixSetName, Tier, VpcName,
};
use crate::suggest::quote;

/// Where there are priorities, what a list or a rule has that names none.
pub(super) const DEFAULT_PRIORITY: u16 = 1000;

impl<'a> At<'_, 'a> {
    pub(super) fn policy(&mut self, name: PolicyName, spec: &'a document::Policy) {
        let document::Policy {
            tier,
            priority,
            applies_to,
            directions,
            mode,
            on_change,
            rules,
        } = spec;
        let vpc = name.vpc();
        self.parent(Kind::Vpc, vpc.as_str());
        self.one_more(&vpc);
        let tier = match tier {
            Some(document::Tier::Admin) => Some(Tier::Admin),
            Some(document::Tier::Tenant) => Some(Tier::Tenant),
            Some(document::Tier::Baseline) => Some(Tier::Baseline),
            None => {
                let message = "is missing";
                self.problem("spec.tier", message, "write ADMIN, TENANT or BASELINE");
                None
            }
        };
        let applies_to = match applies_to {
            None => Some(AppliesTo::Vpc),
            Some(spec) => self.applies_to(&vpc, spec),
        };
        // What the rest may be depends on the tier.
        let Some(tier) = tier else {
            return;
        };
        let priority = self.priority("spec.priority", tier == Tier::Tenant, *priority);
        let (selected, rules) = if tier == Tier::Tenant {
            let selected = self.directions(directions);
            let rules = self.rules(&vpc, &Context::Policy(tier, &selected), rules);
            (selected, rules)
        } else {
            if !directions.is_empty() {
                let message = "only a policy of the TENANT tier closes directions";
                let hint = "remove it; each rule says which way it looks";
                self.problem("spec.directions", message, hint);
            }
            let none = BTreeSet::new();
            let rules = self.rules(&vpc, &Context::Policy(tier, &none), rules);
            (none, rules)
        };
        if let (Some(applies_to), Some(priority)) = (applies_to, priority) {
            let policy = Policy {
                tier,
                priority,
                applies_to,
                directions: selected,
                mode: mode_of(*mode),
                on_change: on_change_of(*on_change),
                rules,
            };
            self.check.model.policies.insert(name, policy);
        }
    }

    fn one_more(&mut self, vpc: &VpcName) {
        let count = self.check.claims.policies.entry(vpc.clone()).or_default();
        *count += 1;
        if *count == LIMITS.policies_per_vpc + 1 {
            let most = LIMITS.policies_per_vpc;
            let message = format!("{vpc} has more than {most} policies");
            self.problem("name", message, "put rules together in fewer policies");
        }
    }

    /// A priority, or the default; nothing where it is unsound.
    pub(super) fn priority(
        &mut self,
        field: &str,
        is_tenant: bool,
        priority: Option<u32>,
    ) -> Option<u16> {
        let Some(priority) = priority else {
            return Some(DEFAULT_PRIORITY);
        };
        if is_tenant {
            let message = "the TENANT tier has no priorities: what any rule allows is allowed";
            self.problem(
                field,
                message,
                "remove it, or write a Policy of tier ADMIN or BASELINE",
            );
            return None;
        }
        let found = u16::try_from(priority).ok();
        if found.is_none() {
            let message = format!("{priority} is out of range");
            self.problem(field, message, "use 0 to 65535; low wins");
        }
        found
    }

    fn applies_to(&mut self, vpc: &VpcName, spec: &'a document::AppliesTo) -> Option<AppliesTo> {
        let document::AppliesTo {
            security_groups,
            ports,
            selector,
        } = spec;
        if security_groups.is_empty() && ports.is_empty() && selector.is_none() {
            let message = "names no port";
            let hint = "leave it out to mean every port of the VPC, or give securityGroups, ports or selector";
            self.problem("spec.appliesTo", message, hint);
            return None;
        }
        let groups = self.names_of(
            "spec.appliesTo.securityGroups",
            Kind::SecurityGroup,
            vpc,
            security_groups,
            |name| GroupName::parse(name).ok(),
        );
        let ports = self.names_of("spec.appliesTo.ports", Kind::Port, vpc, ports, |name| {
            PortName::parse(name).ok()
        });
        let selector = match selector {
            None => None,
            Some(selector) => {
                let hint = "leave appliesTo out to mean every port of the VPC";
                Some(self.selector("spec.appliesTo.selector", vpc, selector, hint)?)
            }
        };
        Some(AppliesTo::Some {
            groups,
            ports,
            selector,
        })
    }

    /// References to resources of the VPC, each once.
    fn names_of<T: Ord>(
        &mut self,
        field: &str,
        kind: Kind,
        vpc: &VpcName,
        texts: &'a [String],
        parse: fn(&str) -> Option<T>,
    ) -> BTreeSet<T> {
        let below = format!("{vpc}/");
        let mut found = BTreeSet::new();
        for (i, text) in self
            .within(field, texts, LIMITS.applies_to)
            .iter()
            .enumerate()
        {
            let field = format!("{field}[{i}]");
            let name = self.reference(&field, kind, &below, text);
            // An unsound name has been told where it was declared.
            if let Some(name) = name.and_then(|name| parse(&name))
                && !found.insert(name)
            {
                let message = format!("{} is given twice", quote(text));
                self.problem(field, message, "name each once");
            }
        }
        found
    }

    pub(super) fn prefix_set(&mut self, name: PrefixSetName, spec: &'a document::PrefixSet) {
        let document::PrefixSet { prefixes } = spec;
        self.parent(Kind::Vpc, name.vpc().as_str());
        let list = "spec.prefixes";
        self.some(list, prefixes);
        let mut found = BTreeSet::new();
        for (i, text) in self
            .within(list, prefixes, LIMITS.prefixes_per_set)
            .iter()
            .enumerate()
        {
            let field = format!("{list}[{i}]");
            if let Some(prefix) = self.parsed(&field, prefix(text))
                && !found.insert(prefix)
            {
                let message = format!("{prefix} is given twice");
                self.problem(field, message, "give each prefix once");
            }
        }
        let set = PrefixSet { prefixes: found };
        self.check.model.prefix_sets.insert(name, set);
    }
}
