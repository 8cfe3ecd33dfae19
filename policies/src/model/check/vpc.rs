//! Tenants, VPCs and subnets.

use std::collections::BTreeMap;

use penstock_flow::{Addr, Prefix};

use super::parse::{inside, last, overlap, unicast_prefix};
use super::{At, LIMITS};
use crate::document::{self, Action, Kind};
use crate::model::{Subnet, SubnetName, Tenant, TenantName, Vpc, VpcName};

/// RFC 791's least that every host takes, and RFC 8200's least MTU.
const LEAST_MTU: [u16; 2] = [576, 1280];
/// What fits a 65 535-byte outer packet with 70 bytes of overlay.
const MOST_MTU: u16 = 65_465;

impl<'a> At<'_, 'a> {
    pub(super) fn tenant(&mut self, name: TenantName, spec: &'a document::Tenant) {
        let document::Tenant { display_name } = spec;
        self.text("spec.displayName", display_name);
        let tenant = Tenant {
            display_name: display_name.clone(),
        };
        self.check.model.tenants.insert(name, tenant);
    }

    /// Text for people: short, and on one line.
    pub(super) fn text(&mut self, field: &str, text: &str) {
        if text.len() > LIMITS.text || text.chars().any(char::is_control) {
            let message = format!(
                "{} is too long or has control characters",
                crate::suggest::quote(text)
            );
            self.problem(
                field,
                message,
                format!("use at most {} bytes on one line", LIMITS.text),
            );
        }
    }

    pub(super) fn vpc(&mut self, name: VpcName, spec: &'a document::Vpc) {
        let document::Vpc {
            vni,
            cidrs,
            default_action,
        } = spec;
        self.parent(Kind::Tenant, name.tenant().as_str());
        let vni = self.vni(*vni);
        let mut found = Vec::<Prefix>::new();
        let mut sound = self.some("spec.cidrs", cidrs);
        for (i, text) in self
            .within("spec.cidrs", cidrs, LIMITS.cidrs_per_vpc)
            .iter()
            .enumerate()
        {
            let field = format!("spec.cidrs[{i}]");
            let Some(prefix) = self.parsed(&field, unicast_prefix(text)) else {
                sound = false;
                continue;
            };
            if let Some(other) = found.iter().find(|p| overlap(**p, prefix)) {
                self.problem(
                    field,
                    format!("{prefix} overlaps {other}"),
                    "keep the larger of the two",
                );
                sound = false;
            }
            found.push(prefix);
        }
        if let Some(vni) = vni
            && sound
        {
            let default_allow = matches!(default_action, Some(Action::Allow));
            self.check.model.vpcs.insert(
                name,
                Vpc {
                    vni,
                    cidrs: found,
                    default_allow,
                },
            );
        }
    }

    fn vni(&mut self, vni: u32) -> Option<u32> {
        if !(1..1 << 24).contains(&vni) {
            let (message, suggestion) = if vni == 0 {
                ("is missing".to_owned(), "write a number from 1 to 16777215")
            } else {
                (format!("{vni} does not fit 24 bits"), "use 1 to 16777215")
            };
            self.problem("spec.vni", message, suggestion);
            return None;
        }
        let me = self.declared_name();
        if let Some(other) = self.check.claims.vnis.insert(vni, me)
            && other != me
        {
            self.problem(
                "spec.vni",
                format!("{vni} is used by {other}"),
                "give each VPC its own",
            );
            return None;
        }
        Some(vni)
    }

    /// Whether a list that must not be empty is not.
    pub(super) fn some<T>(&mut self, field: &str, list: &[T]) -> bool {
        if list.is_empty() {
            self.problem(field, "is missing", "give at least one");
        }
        !list.is_empty()
    }

    pub(super) fn subnet(&mut self, name: SubnetName, spec: &'a document::Subnet) {
        let document::Subnet { cidrs, mtu } = spec;
        let vpc_name = name.vpc();
        self.parent(Kind::Vpc, vpc_name.as_str());
        let mut sound = self.some("spec.cidrs", cidrs);
        let mut found = Vec::<Prefix>::new();
        for (i, text) in self.within("spec.cidrs", cidrs, 2).iter().enumerate() {
            let field = format!("spec.cidrs[{i}]");
            let Some(prefix) = self.parsed(&field, unicast_prefix(text)) else {
                sound = false;
                continue;
            };
            if found.iter().any(|p| p.is_v4() == prefix.is_v4()) {
                let message = format!("{prefix} is a second prefix of its family");
                self.problem(field, message, "declare another subnet for it");
                sound = false;
            } else if self.subnet_prefix(&field, &vpc_name, prefix) {
                found.push(prefix);
            } else {
                sound = false;
            }
        }
        let mtu = self.subnet_mtu(*mtu, &found);
        if let Some(mtu) = mtu
            && sound
        {
            self.check
                .model
                .subnets
                .insert(name, Subnet { cidrs: found, mtu });
        }
    }

    /// Whether a prefix is large enough, in its VPC, and no other subnet's.
    fn subnet_prefix(&mut self, field: &str, vpc: &VpcName, prefix: Prefix) -> bool {
        if prefix.len() > 126 {
            let most = if prefix.is_v4() { 30 } else { 126 };
            let message = format!("{prefix} has no room for a gateway and a port");
            self.problem(field, message, format!("use a length of at most {most}"));
            return false;
        }
        if let Some(found) = self.check.model.vpcs.get(vpc)
            && !found.cidrs.iter().any(|outer| inside(prefix, *outer))
        {
            let cidrs: Vec<_> = found.cidrs.iter().map(ToString::to_string).collect();
            let message = format!("{prefix} is outside {vpc} ({})", cidrs.join(", "));
            self.problem(
                field,
                message,
                "take it from the VPC's prefixes, or extend those",
            );
            return false;
        }
        let me = self.declared_name();
        let taken = self.check.claims.prefixes.entry(vpc.clone()).or_default();
        if let Some((other, whose)) = neighbour(taken, prefix) {
            let message = format!("{prefix} overlaps {other} of {whose}");
            self.problem(field, message, "give each subnet its own addresses");
            return false;
        }
        taken.insert(prefix.addr().0, (prefix, me));
        true
    }

    fn subnet_mtu(&mut self, mtu: u32, cidrs: &[Prefix]) -> Option<u16> {
        let [v4, v6] = LEAST_MTU;
        let least = if cidrs.iter().any(|p| !p.is_v4()) {
            v6
        } else {
            v4
        };
        let mtu = if mtu == 0 { 1500 } else { mtu };
        match u16::try_from(mtu) {
            Ok(mtu) if (least..=MOST_MTU).contains(&mtu) => Some(mtu),
            _ => {
                let message = format!("{mtu} is no MTU for these prefixes");
                self.problem(
                    "spec.mtu",
                    message,
                    format!("use {least} to {MOST_MTU}; 1500 is the default"),
                );
                None
            }
        }
    }
}

/// The prefix that overlaps this one, of some that do not overlap each other.
fn neighbour<'a>(
    taken: &BTreeMap<u128, (Prefix, &'a str)>,
    prefix: Prefix,
) -> Option<(Prefix, &'a str)> {
    let Addr(end) = last(prefix);
    // Only the last to begin before its end can reach into it.
    taken
        .range(..=end)
        .next_back()
        .map(|(_, found)| *found)
        .filter(|(other, _)| overlap(*other, prefix))
}
