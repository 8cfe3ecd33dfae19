//! What `apply --dry-run` adds to the server's word: which NICs would carry more or
//! less, and what would work worse than declared.

use std::collections::BTreeMap;

use penstock_api::v1;
use penstock_policies::document::Documents;
use penstock_policies::model::Model;
use penstock_policies::{mtu, usage};
use serde_json::{Value, json};

use crate::args::Format;
use crate::command::diff;
use crate::failure::Failure;
use crate::output;
use crate::session::Session;

/// NICs that are shown; more are counted.
const MOST: usize = 100;

/// What would be.
pub(super) struct Outlook {
    tables: Vec<Table>,
    /// NICs that are not shown.
    left_out: usize,
    degraded: Vec<String>,
}

/// A table of a NIC.
struct Table {
    node: String,
    device_id: u32,
    name: &'static str,
    now: u64,
    then: u64,
    /// 0: the worker has not told.
    capacity: u64,
}

/// Compares the server's resources with what they would be.
pub(super) async fn outlook(
    session: &Session,
    documents: Documents,
    format: Format,
) -> Result<Outlook, Failure> {
    let resources = session.list("", None).await?;
    let capacities = capacities(&resources);
    let stored = diff::documents(&resources)?;
    let before = diff::model(&stored, format)?;
    let after = diff::model(&diff::merged(stored, documents), format)?;
    Ok(compare(&before, &after, &capacities))
}

type Capacities = BTreeMap<(String, u32, String), u64>;

fn capacities(resources: &[v1::Resource]) -> Capacities {
    let statuses = resources.iter().filter_map(|it| it.status.as_ref());
    let nodes = statuses.flat_map(|status| &status.nodes);
    let nics = nodes.flat_map(|node| node.nics.iter().map(move |nic| (&node.node, nic)));
    nics.flat_map(|(node, nic)| {
        nic.tables.iter().map(move |table| {
            let key = (node.clone(), nic.device_id, table.name.clone());
            (key, table.capacity)
        })
    })
    .collect()
}

fn compare(before: &Model, after: &Model, capacities: &Capacities) -> Outlook {
    let (now, then) = (usage::of(before), usage::of(after));
    let mut outlook = Outlook {
        tables: Vec::new(),
        left_out: 0,
        degraded: Vec::new(),
    };
    let mut shown = 0;
    for ((node, device_id), then) in &then {
        let now = now.get(&(*node, *device_id)).copied().unwrap_or_default();
        if now == *then {
            continue;
        }
        shown += 1;
        for ((name, now), (_, then)) in now.tables().into_iter().zip(then.tables()) {
            let key = (node.to_string(), *device_id, name.to_owned());
            let capacity = capacities.get(&key).copied().unwrap_or_default();
            if capacity > 0 && then > capacity {
                outlook.degraded.push(format!(
                    "NIC {device_id} of {node}: table {name} would need {then} entries and takes {capacity}"
                ));
            }
            if shown <= MOST {
                outlook.tables.push(Table {
                    node: node.to_string(),
                    device_id: *device_id,
                    name,
                    now,
                    then,
                    capacity,
                });
            }
        }
    }
    outlook.left_out = shown.saturating_sub(MOST);
    let known = mtu::narrow(before);
    let new = mtu::narrow(after).into_iter();
    let new = new.filter(|narrow| !known.contains(narrow));
    outlook
        .degraded
        .extend(new.map(|narrow| narrow.to_string()));
    outlook
}

impl Outlook {
    pub(super) fn value(&self) -> Value {
        let Self {
            tables,
            left_out,
            degraded,
        } = self;
        let tables: Vec<Value> = tables
            .iter()
            .map(|table| {
                let Table {
                    node,
                    device_id,
                    name,
                    now,
                    then,
                    capacity,
                } = table;
                json!({
                    "node": node, "device_id": device_id, "table": name,
                    "now": now, "then": then, "capacity": capacity,
                })
            })
            .collect();
        json!({"tables": tables, "nics_left_out": left_out, "degraded": degraded})
    }

    pub(super) fn text(&self) -> String {
        let Self {
            tables,
            left_out,
            degraded,
        } = self;
        let mut out = String::new();
        if tables.is_empty() {
            out.push_str("no NIC would carry more or less\n");
        } else {
            let rows = tables.iter().map(|table| {
                let capacity = match table.capacity {
                    0 => String::new(),
                    capacity => capacity.to_string(),
                };
                [
                    table.node.clone(),
                    table.device_id.to_string(),
                    table.name.to_owned(),
                    table.now.to_string(),
                    table.then.to_string(),
                    capacity,
                ]
            });
            let header = ["NODE", "NIC", "TABLE", "NOW", "THEN", "CAPACITY"];
            out.push_str(&output::table(header, rows));
        }
        if *left_out > 0 {
            out.push_str(&format!("and {left_out} more NICs\n"));
        }
        for told in degraded {
            out.push_str(&format!("DEGRADED: {told}\n"));
        }
        out
    }
}
