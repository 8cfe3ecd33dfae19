//! From trees to resources.

use std::sync::Arc;

use super::load::{Documents, Place};
use super::object::{Notes, Object, word};
use super::yaml::{self, Node, Value};
use super::{
    Action, Direction, Kind, Mode, Nic, OnChange, Peering, Policy, Port, PrefixSet, Resource,
    SecurityGroup, Spec, Subnet, Tenant, Tier, Vpc,
};
use crate::suggest::{did_you_mean, quote, shown, visible};
use crate::{Diagnostic, Position};

mod rules;

use rules::{applies_to, rule, selector};

/// The largest text that is read: a hundred thousand large resources.
pub(super) const LARGEST: usize = 64 << 20;

/// Reads a stream of documents. What is wrong with their form is in
/// `problems`; a document that cannot be made out at all is left out.
#[must_use]
pub fn parse(file: &str, bytes: &[u8]) -> Documents {
    let file: Arc<str> = Arc::from(file);
    let mut out = Documents::default();
    let text = match std::str::from_utf8(bytes) {
        _ if bytes.len() > LARGEST => {
            let message = format!("{} bytes are more than a file may have", bytes.len());
            out.problems.push(whole(
                &file,
                Position { line: 1, column: 1 },
                message,
                "split it into files of at most 64 MiB",
            ));
            return out;
        }
        Ok(text) => text.strip_prefix('\u{feff}').unwrap_or(text),
        Err(e) => {
            let before = bytes.get(..e.valid_up_to()).unwrap_or_default();
            let line = 1 + before.iter().filter(|b| **b == b'\n').count();
            let at = Position {
                line: u32::try_from(line).unwrap_or(u32::MAX),
                column: 1,
            };
            let message = format!("not UTF-8 at byte {}", e.valid_up_to());
            out.problems
                .push(whole(&file, at, message, "save the file as UTF-8"));
            return out;
        }
    };
    let (trees, broken) = yaml::documents(text);
    for tree in trees {
        match tree.value {
            // `---` at the end of a file, or only comments between two.
            Value::Null => {}
            // As `get -o json` shows several.
            Value::List(items) => {
                for item in items {
                    document(&file, item, &mut out);
                }
            }
            Value::Map(_) | Value::Text(_) => document(&file, tree, &mut out),
        }
    }
    if let Some(broken) = broken {
        out.problems
            .push(whole(&file, broken.at, broken.message, broken.suggestion));
    }
    out
}

/// Every field a kind's documents can have, as paths like `spec.rules[].name`.
#[must_use]
pub fn schema(kind: Kind) -> Vec<String> {
    let nothing = Node::null(Position::default());
    let mut notes = Notes {
        asked: Some(std::collections::BTreeSet::new()),
        ..Notes::default()
    };
    let _ = spec(kind, &nothing, &mut notes);
    notes.asked.into_iter().flatten().collect()
}

fn whole(file: &Arc<str>, at: Position, message: String, suggestion: &str) -> Diagnostic {
    Diagnostic {
        file: Arc::clone(file),
        at,
        name: String::new(),
        field: String::new(),
        message,
        suggestion: suggestion.to_owned(),
    }
}

fn document(file: &Arc<str>, tree: Node, out: &mut Documents) {
    let mut notes = Notes::default();
    let resource = resource(&tree, &mut notes);
    let name = shown(resource.as_ref().map_or("", |r| r.name.as_str()));
    out.problems
        .extend(notes.wrong.into_iter().map(|wrong| Diagnostic {
            file: Arc::clone(file),
            at: wrong.at,
            name: name.clone(),
            field: visible(wrong.field),
            message: visible(wrong.message),
            suggestion: visible(wrong.suggestion),
        }));
    if let Some(resource) = resource {
        out.resources.push(resource);
        out.places.push(Place {
            file: Arc::clone(file),
            tree,
        });
    }
}

fn resource(tree: &Node, notes: &mut Notes) -> Option<Resource> {
    let mut o = Object::new(tree, "", notes);
    if matches!(tree.value, Value::Text(_) | Value::List(_)) {
        // What is missing in it follows, and need not be told.
        return None;
    }
    let kind = o.text("kind");
    let name = o.text("name");
    let spec_node = o.take("spec");
    let etag = o.take("metadata").map_or_else(String::new, |node| {
        // As `get` shows it. The server owns all of it; the etag is sent back.
        let mut o = Object::new(node, "metadata", o.notes());
        for field in ["uid", "generation", "createTime", "updateTime"] {
            o.take(field);
        }
        let etag = o.text("etag");
        o.finish();
        etag
    });
    // As `get` shows it, and the server's own.
    o.take("status");
    let found = Kind::ALL.into_iter().find(|k| k.name() == kind);
    let at = o.at();
    if found.is_none() {
        let names = Kind::ALL.map(Kind::name);
        let suggestion = did_you_mean(&kind, names)
            .unwrap_or_else(|| format!("write one of {}", names.join(", ")));
        let message = if kind.is_empty() {
            "is missing".to_owned()
        } else {
            format!("unknown kind {}", quote(&kind))
        };
        let at = o.take("kind").map_or(at, |node| node.at);
        o.notes().wrong(at, "kind", message, suggestion);
    }
    if name.is_empty() {
        let form = found.map_or("tenants/TENANT/...", Kind::pattern);
        o.notes()
            .wrong(at, "name", "is missing", format!("write name: {form}"));
    }
    o.finish();
    let kind = found?;
    let nothing = Node::null(at);
    let spec = spec(kind, spec_node.unwrap_or(&nothing), notes);
    Some(Resource { name, spec, etag })
}

fn spec(kind: Kind, node: &Node, notes: &mut Notes) -> Spec {
    let mut o = Object::new(node, "spec", notes);
    let spec = match kind {
        Kind::Tenant => Spec::Tenant(Tenant {
            display_name: o.text("displayName"),
        }),
        Kind::Vpc => Spec::Vpc(Vpc {
            vni: o.number("vni"),
            cidrs: o.texts("cidrs"),
            default_action: o.word("defaultAction", Action::ALL, Action::word),
        }),
        Kind::Subnet => Spec::Subnet(Subnet {
            cidrs: o.texts("cidrs"),
            mtu: o.number("mtu"),
        }),
        Kind::Port => Spec::Port(Port {
            subnet: o.text("subnet"),
            node: o.text("node"),
            nic: o.number("nic"),
            attachment: o.text("attachment"),
            vlan: o.number("vlan"),
            mac: o.text("mac"),
            ips: o.texts("ips"),
            security_groups: o.texts("securityGroups"),
            labels: o.map("labels"),
        }),
        Kind::SecurityGroup => Spec::SecurityGroup(SecurityGroup {
            rules: o.list("rules", |n, path, notes| Some(rule(n, path, notes))),
            directions: directions(&mut o),
            selector: o.nested("selector", |n, path, notes| selector(n, path, notes, false)),
            mode: o.word("mode", Mode::ALL, Mode::word),
            on_change: o.word("onChange", OnChange::ALL, OnChange::word),
        }),
        Kind::Policy => Spec::Policy(Policy {
            tier: o.word("tier", Tier::ALL, Tier::word),
            priority: o.optional_number("priority"),
            applies_to: o.nested("appliesTo", applies_to),
            directions: directions(&mut o),
            mode: o.word("mode", Mode::ALL, Mode::word),
            on_change: o.word("onChange", OnChange::ALL, OnChange::word),
            rules: o.list("rules", |n, path, notes| Some(rule(n, path, notes))),
        }),
        Kind::PrefixSet => Spec::PrefixSet(PrefixSet {
            prefixes: o.texts("prefixes"),
        }),
        Kind::Peering => Spec::Peering(Peering {
            peer: o.text("peer"),
        }),
        Kind::Node => Spec::Node(super::Node {
            worker_address: o.text("workerAddress"),
            nics: o.list("nics", |n, path, notes| Some(nic(n, path, notes))),
        }),
    };
    o.finish();
    spec
}

fn directions(o: &mut Object<'_, '_>) -> Vec<Direction> {
    o.list("directions", |n, path, notes| {
        word(n, path, Direction::ALL, Direction::word, notes)
    })
}

fn nic(node: &Node, path: &str, notes: &mut Notes) -> Nic {
    let mut o = Object::new(node, path, notes);
    let nic = Nic {
        device_id: o.number("deviceId"),
        vtep: o.text("vtep"),
        underlay_mtu: o.number("underlayMtu"),
    };
    o.finish();
    nic
}
