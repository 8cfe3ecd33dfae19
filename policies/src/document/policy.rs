//! Groups, policies and what they speak of, as written.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Direction, Rule};

/// Members are closed in each selected direction except for what a rule allows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SecurityGroup {
    /// What is allowed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
    /// Selected directions; empty: both.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub directions: Vec<Direction>,
    /// Members by labels, beside the ports that name the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<Selector>,
    /// Default enforce.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Default reevaluate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_change: Option<OnChange>,
}

/// Rules of one tier for some ports of a VPC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    /// Must be given.
    pub tier: Option<Tier>,
    /// Low wins, default 1000; ADMIN and BASELINE only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
    /// Absent: every port of the VPC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applies_to: Option<AppliesTo>,
    /// Selected directions; empty: both; TENANT only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub directions: Vec<Direction>,
    /// Default enforce.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Default reevaluate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_change: Option<OnChange>,
    /// What it says.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
}

/// Ports of the policy's own VPC: any of these.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AppliesTo {
    /// Members of these groups: full names, or last segments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub security_groups: Vec<String>,
    /// Full names, or last segments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<String>,
    /// Ports by their labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<Selector>,
}

/// Chooses ports of one VPC by their labels: all of it must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Selector {
    /// Labels that a port must have.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// What else must hold of its labels.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<Expression>,
    /// Whose ports; empty: the object's own VPC. Only in peers.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub vpc: String,
}

/// Something that must hold of a label.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Expression {
    /// The label's key.
    pub key: String,
    /// Must be given.
    pub operator: Option<Operator>,
    /// With IN and NOT_IN.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// Prefixes that rules refer to by one name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PrefixSet {
    /// Any of these.
    pub prefixes: Vec<String>,
}

/// One side's wish to be reached from another VPC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Peering {
    /// The other VPC: full name, or last segment.
    pub peer: String,
}

words! {
    /// When a policy is asked.
    Tier {
        /// First.
        Admin = "ADMIN",
        /// With the security groups.
        Tenant = "TENANT",
        /// Last.
        Baseline = "BASELINE",
    }
}

words! {
    /// Whether verdicts have an effect.
    Mode {
        /// They have.
        Enforce = "ENFORCE",
        /// They are logged.
        Audit = "AUDIT",
    }
}

words! {
    /// What becomes of connections when a policy changes.
    OnChange {
        /// They are judged again.
        Reevaluate = "REEVALUATE",
        /// They go on.
        Persist = "PERSIST",
        /// They end.
        Drop = "DROP",
    }
}

words! {
    /// How a label is looked at.
    Operator {
        /// It is there with one of the values.
        In = "IN",
        /// It is not there, or with another value.
        NotIn = "NOT_IN",
        /// It is there.
        Exists = "EXISTS",
        /// It is not there.
        DoesNotExist = "DOES_NOT_EXIST",
    }
}
