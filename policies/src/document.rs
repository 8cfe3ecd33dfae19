//! What an operator declares, as written: `penstock.v1` in plain types.
//!
//! Nothing is checked here but the form: names are strings and a field that is
//! left out has its zero value, which stands for the default that
//! `docs/policy.md` names. [`crate::model::validate`] gives the meaning.
//!
//! Serialised, a [`Resource`] is the document that [`parse`] reads.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

/// An enum whose values are written as words.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $word)] $variant,)* }

        impl $name {
            /// Every value.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// As it is written.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }
    };
}

mod load;
mod object;
mod policy;
mod read;
mod rule;
mod yaml;

pub use load::{Documents, LoadError, Place, load};
pub use policy::{
    AppliesTo, Expression, Mode, OnChange, Operator, Peering, Policy, PrefixSet, SecurityGroup,
    Selector, Tier,
};
pub use read::{parse, schema};
pub use rule::{Cidr, Direction, Peer, PortRange, Protocol, Rule, RuleAction};

/// One declared object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Full name, e.g. `tenants/blue/vpcs/main/ports/web-1`.
    pub name: String,
    /// What it is.
    pub spec: Spec,
    /// What it was when it was read, to refuse to overwrite something newer;
    /// empty: overwrite.
    pub etag: String,
}

/// What a resource is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
#[expect(missing_docs, reason = "each is the type it names")]
pub enum Spec {
    Tenant(Tenant),
    Vpc(Vpc),
    Subnet(Subnet),
    Port(Port),
    SecurityGroup(SecurityGroup),
    Policy(Policy),
    PrefixSet(PrefixSet),
    Peering(Peering),
    Node(Node),
}

/// The kinds of resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[expect(missing_docs, reason = "each is the type it names")]
pub enum Kind {
    Tenant,
    Vpc,
    Subnet,
    Port,
    SecurityGroup,
    Policy,
    PrefixSet,
    Peering,
    Node,
}

impl Spec {
    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Tenant(_) => Kind::Tenant,
            Self::Vpc(_) => Kind::Vpc,
            Self::Subnet(_) => Kind::Subnet,
            Self::Port(_) => Kind::Port,
            Self::SecurityGroup(_) => Kind::SecurityGroup,
            Self::Policy(_) => Kind::Policy,
            Self::PrefixSet(_) => Kind::PrefixSet,
            Self::Peering(_) => Kind::Peering,
            Self::Node(_) => Kind::Node,
        }
    }
}

impl Kind {
    /// Every kind; what others refer to comes first.
    pub const ALL: [Self; 9] = [
        Self::Tenant,
        Self::Vpc,
        Self::Node,
        Self::Peering,
        Self::Subnet,
        Self::PrefixSet,
        Self::SecurityGroup,
        Self::Port,
        Self::Policy,
    ];

    /// As in `kind:`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tenant => "Tenant",
            Self::Vpc => "Vpc",
            Self::Subnet => "Subnet",
            Self::Port => "Port",
            Self::SecurityGroup => "SecurityGroup",
            Self::Policy => "Policy",
            Self::PrefixSet => "PrefixSet",
            Self::Peering => "Peering",
            Self::Node => "Node",
        }
    }

    /// Its collection, the last but one segment of its names.
    #[must_use]
    pub const fn collection(self) -> &'static str {
        match self {
            Self::Tenant => "tenants",
            Self::Vpc => "vpcs",
            Self::Subnet => "subnets",
            Self::Port => "ports",
            Self::SecurityGroup => "securityGroups",
            Self::Policy => "policies",
            Self::PrefixSet => "prefixSets",
            Self::Peering => "peerings",
            Self::Node => "nodes",
        }
    }

    /// The form of its names.
    #[must_use]
    pub const fn pattern(self) -> &'static str {
        match self {
            Self::Tenant => "tenants/TENANT",
            Self::Vpc => "tenants/TENANT/vpcs/VPC",
            Self::Subnet => "tenants/TENANT/vpcs/VPC/subnets/SUBNET",
            Self::Port => "tenants/TENANT/vpcs/VPC/ports/PORT",
            Self::SecurityGroup => "tenants/TENANT/vpcs/VPC/securityGroups/GROUP",
            Self::Policy => "tenants/TENANT/vpcs/VPC/policies/POLICY",
            Self::PrefixSet => "tenants/TENANT/vpcs/VPC/prefixSets/SET",
            Self::Peering => "tenants/TENANT/vpcs/VPC/peerings/PEERING",
            Self::Node => "nodes/NODE",
        }
    }

    /// By name or collection, in any case.
    #[must_use]
    pub fn find(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| {
            word.eq_ignore_ascii_case(kind.name()) || word.eq_ignore_ascii_case(kind.collection())
        })
    }
}

impl Serialize for Resource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Written<'a> {
            kind: Kind,
            name: &'a str,
            spec: &'a Spec,
            #[serde(skip_serializing_if = "Option::is_none")]
            metadata: Option<Metadata<'a>>,
        }
        #[derive(Serialize)]
        struct Metadata<'a> {
            etag: &'a str,
        }
        let Self { name, spec, etag } = self;
        let metadata = (!etag.is_empty()).then_some(Metadata { etag });
        Written {
            kind: spec.kind(),
            name,
            spec,
            metadata,
        }
        .serialize(serializer)
    }
}

/// Resources as a stream of YAML documents, which [`parse`] reads back.
///
/// # Errors
/// Never for these types; the serialiser's signature has one.
pub fn to_yaml(resources: &[Resource]) -> Result<String, serde_saphyr::ser::Error> {
    serde_saphyr::to_string_multiple(resources)
}

/// Whose VPCs these are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tenant {
    /// For people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub display_name: String,
}

/// An address space of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Vpc {
    /// 1 to 16777215.
    pub vni: u32,
    /// Prefixes.
    pub cidrs: Vec<String>,
    /// What happens where no policy decides; default deny.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_action: Option<Action>,
}

/// A part of a VPC's addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Subnet {
    /// One IPv4 and/or one IPv6 prefix.
    pub cidrs: Vec<String>,
    /// Bytes of an IP packet; 0: 1500.
    #[serde(skip_serializing_if = "is_zero")]
    pub mtu: u32,
}

/// A workload's interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Port {
    /// Full name, or its last segment.
    pub subnet: String,
    /// Full name, or its last segment.
    pub node: String,
    /// P4Runtime device id; 0: 1.
    #[serde(skip_serializing_if = "is_zero")]
    pub nic: u32,
    /// The host's interface name.
    pub attachment: String,
    /// 0: untagged.
    #[serde(skip_serializing_if = "is_zero")]
    pub vlan: u32,
    /// aa:bb:cc:dd:ee:ff
    pub mac: String,
    /// Addresses.
    pub ips: Vec<String>,
    /// Full names, or last segments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub security_groups: Vec<String>,
    /// What selectors look at.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// A host with a worker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// `host:port` of the worker's gRPC server.
    pub worker_address: String,
    /// Its NICs.
    pub nics: Vec<Nic>,
}

/// A back-end NIC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Nic {
    /// P4Runtime device id, 1 to 16.
    pub device_id: u32,
    /// Where other nodes send VXLAN to.
    pub vtep: String,
    /// Bytes of an IP packet on the underlay; 0: 1600.
    #[serde(skip_serializing_if = "is_zero")]
    pub underlay_mtu: u32,
}

words! {
    /// What happens where no policy decides.
    Action {
        /// It passes.
        Allow = "ALLOW",
        /// It does not.
        Deny = "DENY",
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde calls")]
const fn is_zero(value: &u32) -> bool {
    *value == 0
}
