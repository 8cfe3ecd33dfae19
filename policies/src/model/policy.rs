//! Groups, policies and what they speak of.

use std::collections::BTreeSet;

use penstock_flow::Prefix;
use penstock_rules::model::Direction;

use super::{GroupName, PortName, Rule, Selector, VpcName};

/// A security group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Directions in which its members are closed but for rules.
    pub directions: BTreeSet<Direction>,
    /// Members beside the ports that name it; of the group's own VPC.
    pub selector: Option<Selector>,
    /// Whether it decides.
    pub mode: Mode,
    /// What becomes of connections when it changes.
    pub on_change: OnChange,
    /// Allow rules, with different names, in those directions.
    pub rules: Vec<Rule>,
}

/// Rules of one tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// When it is asked.
    pub tier: Tier,
    /// Low wins; the tenant tier has none.
    pub priority: u16,
    /// For which ports of its VPC.
    pub applies_to: AppliesTo,
    /// Tenant tier: directions in which those ports are closed but for rules. Else empty.
    pub directions: BTreeSet<Direction>,
    /// Whether it decides.
    pub mode: Mode,
    /// What becomes of connections when it changes.
    pub on_change: OnChange,
    /// With different names; tenant tier: allow rules, in those directions.
    pub rules: Vec<Rule>,
}

/// Ports of a policy's own VPC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppliesTo {
    /// All.
    Vpc,
    /// Any of these, at least one.
    Some {
        /// Members of these groups.
        groups: BTreeSet<GroupName>,
        /// These.
        ports: BTreeSet<PortName>,
        /// Those with such labels.
        selector: Option<Selector>,
    },
}

/// When a policy is asked, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// First.
    Admin,
    /// With the security groups.
    Tenant,
    /// Last.
    Baseline,
}

/// Whether verdicts have an effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// They have.
    #[default]
    Enforce,
    /// They are logged.
    Audit,
}

/// What becomes of connections when a policy changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnChange {
    /// They are judged again.
    #[default]
    Reevaluate,
    /// They go on.
    Persist,
    /// They end.
    Drop,
}

/// Prefixes that rules refer to by one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixSet {
    /// At least one; some may lie in others.
    pub prefixes: BTreeSet<Prefix>,
}

/// One side's wish to be reached from another VPC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peering {
    /// The other one.
    pub peer: VpcName,
}
