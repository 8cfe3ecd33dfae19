//! What is kept of a device over a restart.

use p4runtime::election::Id;
use p4runtime::v1;

use super::pipeline::Loaded;

/// Pipeline and entries.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DeviceFile {
    /// The committed pipeline.
    #[prost(message, optional, tag = "1")]
    pub committed: Option<Loaded>,
    /// The saved one.
    #[prost(message, optional, tag = "2")]
    pub saved: Option<Loaded>,
    /// The controller's entries.
    #[prost(message, repeated, tag = "3")]
    pub entries: Vec<v1::TableEntry>,
}

/// The highest election ids ever seen.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ElectionFile {
    /// Each role once.
    #[prost(message, repeated, tag = "1")]
    pub roles: Vec<Seen>,
}

/// The highest election id of a role.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Seen {
    /// The role's name; empty: the default role.
    #[prost(string, tag = "1")]
    pub role: String,
    /// The id.
    #[prost(message, optional, tag = "2")]
    pub id: Option<v1::Uint128>,
}

impl ElectionFile {
    /// What was seen, and `id` for `role` on top.
    pub fn new<'a>(seen: impl Iterator<Item = (&'a str, Id)>, role: &str, id: Id) -> Self {
        let one = |(role, id): (&str, Id)| Seen {
            role: role.to_owned(),
            id: Some(id.into()),
        };
        let others = seen.filter(|(other, _)| *other != role).map(one);
        Self {
            roles: others.chain([one((role, id))]).collect(),
        }
    }

    /// What was seen.
    pub fn highest(self) -> impl Iterator<Item = (String, Id)> {
        self.roles
            .into_iter()
            .map(|seen| (seen.role, seen.id.map(Id::from).unwrap_or_default()))
    }
}
