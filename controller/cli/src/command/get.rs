//! `get` and `nodes`.

use std::fmt::Write as _;

use penstock_api::v1;
use penstock_policies::document::{self, Kind, Spec};

use super::status;
use super::table::{default, table};
use crate::args::Format;
use crate::failure::Failure;
use crate::message::{Messages, document_of};
use crate::output;
use crate::session::Session;

/// What to show.
pub(super) enum Selection {
    One(String),
    Many { parent: String, kind: Option<Kind> },
}

impl Selection {
    /// From a kind, a name, or a collection's name.
    pub(super) fn parse(what: &str, parent: Option<String>) -> Result<Self, Failure> {
        let parts: Vec<_> = what.split('/').collect();
        if let [.., collection] = parts.as_slice()
            && parts.len() > 1
        {
            if parent.is_some() {
                let problem =
                    format!("{what} is a full name, so --in has no meaning; leave it out");
                return Err(Failure::Usage(problem));
            }
            // Collections and names take turns.
            if parts.len() % 2 == 0 {
                return Ok(Self::One(what.to_owned()));
            }
            let kind = Kind::ALL
                .into_iter()
                .find(|kind| kind.collection() == *collection);
            return match kind {
                Some(kind) => Ok(Self::Many {
                    parent: parts[..parts.len() - 1].join("/"),
                    kind: Some(kind),
                }),
                None => Err(Failure::Usage(format!(
                    "{collection:?} is no collection; write one of {}",
                    Kind::ALL.map(Kind::collection).join(", ")
                ))),
            };
        }
        let kind = Kind::find(what);
        if kind.is_none() && what != "all" {
            let kinds = Kind::ALL.map(Kind::collection).join(", ");
            return Err(Failure::Usage(format!(
                "{what:?} is no kind; write one of {kinds}, all, or a full name"
            )));
        }
        Ok(Self::Many {
            parent: parent.unwrap_or_default(),
            kind,
        })
    }
}

pub(super) async fn run(
    session: &Session,
    selection: &Selection,
    format: Format,
) -> Result<(), Failure> {
    let messages = Messages::new()?;
    match selection {
        Selection::One(name) => {
            let found = session.get(name).await?;
            output::one(format, || messages.resource(&found), || describe(&found))
        }
        Selection::Many { parent, kind } => {
            let found = session.list(parent, *kind).await?;
            let values = || found.iter().map(|r| messages.resource(r)).collect();
            output::many(format, values, || table(&found, *kind))
        }
    }
}

pub(super) async fn nodes(session: &Session, format: Format) -> Result<(), Failure> {
    let messages = Messages::new()?;
    let found = session.list("", Some(Kind::Node)).await?;
    let values = || found.iter().map(|r| messages.resource(r)).collect();
    output::many(format, values, || {
        let mut rows = Vec::new();
        for resource in &found {
            let Spec::Node(node) = document_of(resource)?.spec else {
                continue;
            };
            for nic in node.nics {
                rows.push([
                    resource.name.clone(),
                    node.worker_address.clone(),
                    nic.device_id.to_string(),
                    nic.vtep,
                    default(nic.underlay_mtu, 1600),
                    status::word(resource),
                    status::reason(resource),
                ]);
            }
        }
        Ok(output::table(
            ["NODE", "WORKER", "NIC", "VTEP", "MTU", "STATUS", "REASON"],
            rows,
        ))
    })
}

/// One resource: what was declared, and what became of it.
fn describe(resource: &v1::Resource) -> Result<String, Failure> {
    let mut document = document_of(resource)?;
    document.etag.clear();
    let mut out = document::to_yaml(&[document]).map_err(|e| Failure::Answer(e.to_string()))?;
    let generation = resource.metadata.as_ref().map_or(0, |m| m.generation);
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "\ngeneration {generation}: {}\n",
        status::word(resource)
    );
    let Some(status) = &resource.status else {
        return Ok(out);
    };
    out.push_str(&output::table(
        ["CONDITION", "STATE", "REASON", "MESSAGE"],
        status.conditions.iter().map(|c| {
            [
                c.r#type().as_str_name().to_owned(),
                c.state().as_str_name().to_owned(),
                c.reason.clone(),
                c.message.clone(),
            ]
        }),
    ));
    if !status.nodes.is_empty() {
        out.push('\n');
        out.push_str(&output::table(
            ["NODE", "PROGRAMMED", "NIC ENTRIES", "GENERATION", "REASON"],
            status.nodes.iter().map(|n| {
                [
                    n.node.clone(),
                    if n.programmed { "yes" } else { "no" }.to_owned(),
                    n.nic_entries.to_string(),
                    n.generation.to_string(),
                    n.reason.clone(),
                ]
            }),
        ));
    }
    let nics: Vec<_> = status.nodes.iter().flat_map(|node| &node.nics).collect();
    if !nics.is_empty() {
        out.push('\n');
        out.push_str(&output::table(
            ["NIC", "PROGRAMMED", "TABLES", "REASON"],
            nics.into_iter().map(|nic| {
                [
                    nic.device_id.to_string(),
                    if nic.programmed { "yes" } else { "no" }.to_owned(),
                    tables(&nic.tables),
                    nic.reason.clone(),
                ]
            }),
        ));
    }
    Ok(out)
}

/// How much of what should be in each table is there.
fn tables(tables: &[v1::NicTable]) -> String {
    let tables = tables.iter().map(|table| {
        let v1::NicTable {
            name,
            entries,
            wanted,
            capacity: _,
        } = table;
        if entries == wanted {
            format!("{name} {entries}")
        } else {
            format!("{name} {entries}/{wanted}")
        }
    });
    tables.collect::<Vec<_>>().join(", ")
}
