//! The kinds of resources.

use penstock_api::v1::resource::Spec;
pub use penstock_policies::document::Kind;

/// The kind of a spec.
pub const fn of(spec: &Spec) -> Kind {
    match spec {
        Spec::Tenant(_) => Kind::Tenant,
        Spec::Vpc(_) => Kind::Vpc,
        Spec::Subnet(_) => Kind::Subnet,
        Spec::Port(_) => Kind::Port,
        Spec::SecurityGroup(_) => Kind::SecurityGroup,
        Spec::Policy(_) => Kind::Policy,
        Spec::PrefixSet(_) => Kind::PrefixSet,
        Spec::Peering(_) => Kind::Peering,
        Spec::Node(_) => Kind::Node,
    }
}
