//! Documents, whatever is in them. They get an answer, soon and of bounded size; what is
//! valid reads back as it was written and compiles for every node.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use penstock_policies::document::{self, Kind};
use penstock_policies::{Ids, compile, unresolved};
use penstock_rules::Ruleset;

/// Longest line of a diagnosis.
const LINE: usize = 2_000;

/// The property. Text begins with an odd byte, as `kind`, `#`, `-`, `{` and `[` do; after
/// an even one, documents are made of the fields that there are.
pub(crate) fn documents(bytes: &[u8]) {
    let begin = Instant::now();
    match bytes.split_first() {
        Some((first, rest)) if first % 2 == 0 => text(made(&mut Choices(rest)).as_bytes()),
        _ => text(bytes),
    }
    // Generous: sanitizers and busy machines are slow.
    let limit = Duration::from_secs(10) + Duration::from_millis(bytes.len() as u64 / 10);
    assert!(begin.elapsed() < limit, "{:?}", begin.elapsed());
}

fn text(bytes: &[u8]) {
    let read = document::parse("f", bytes);
    assert_eq!(read.resources.len(), read.places.len());
    let model = match read.validate() {
        Ok(model) => model,
        Err(all) => {
            assert!(!all.is_empty());
            for found in all {
                assert!(found.to_string().len() < LINE, "{found}");
                assert!(!found.message.is_empty() && !found.suggestion.is_empty());
                assert!(!found.to_string().contains(char::is_control), "{found:?}");
            }
            return;
        }
    };
    let written = document::to_yaml(&read.resources).expect("YAML");
    let again = document::parse("written", written.as_bytes());
    assert_eq!(again.resources, read.resources, "{written}");
    assert_eq!(again.validate().as_ref(), Ok(&model));
    let mut ids = Ids::default();
    ids.assign(&model).expect("ids");
    let before = ids.clone();
    ids.assign(&model).expect("ids");
    assert_eq!(ids, before, "ids change by themselves");
    for (name, all) in unresolved::of(&model) {
        assert!(!name.is_empty() && !all.is_empty());
    }
    for node in model.nodes.keys() {
        let policy = compile::policy(&model, &ids, node, 1).expect("a policy");
        Ruleset::compile(policy).expect("a ruleset");
    }
}

/// Bytes as a sequence of choices; after the last one, every choice is the first.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn byte(&mut self) -> usize {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                usize::from(*first)
            }
            None => 0,
        }
    }

    fn of<'t, T>(&mut self, all: &'t [T]) -> &'t T {
        &all[self.byte() % all.len()]
    }
}

/// What the others can refer to.
const GROUND: &str = "\
{kind: Node, name: nodes/n, spec: {workerAddress: 'h:1', nics: [{deviceId: 1, vtep: 192.0.2.1}]}}
---
{kind: Tenant, name: tenants/t}
---
{kind: Vpc, name: tenants/t/vpcs/v, spec: {vni: 1, cidrs: [10.0.0.0/16, 'fd00::/48']}}
---
{kind: Vpc, name: tenants/t/vpcs/w, spec: {vni: 2, cidrs: [10.1.0.0/16]}}
---
{kind: Subnet, name: tenants/t/vpcs/v/subnets/s, spec: {cidrs: [10.0.0.0/24]}}
---
{kind: Subnet, name: tenants/t/vpcs/w/subnets/s, spec: {cidrs: [10.1.0.0/24]}}
---
{kind: Port, name: tenants/t/vpcs/v/ports/p, spec: {subnet: s, node: n, attachment: p, mac: '02:00:00:00:00:01', ips: [10.0.0.5], labels: {a: b}}}
---
{kind: Port, name: tenants/t/vpcs/w/ports/q, spec: {subnet: s, node: n, attachment: q, mac: '02:00:00:00:00:02', ips: [10.1.0.5], labels: {a: c}}}
---
{kind: SecurityGroup, name: tenants/t/vpcs/v/securityGroups/g}
---
{kind: SecurityGroup, name: tenants/t/vpcs/w/securityGroups/g}
---
{kind: PrefixSet, name: tenants/t/vpcs/v/prefixSets/s, spec: {prefixes: [10.0.0.0/8, '::/0']}}
";

/// Values, by what the last part of a field asks for; the last ones are for nobody.
fn value(field: &str, c: &mut Choices<'_>) -> &'static str {
    let fitting: &[&str] = match field {
        "name" => &["r", "r1", "r2", "r3", "r4", "r5", "r6", "r7"],
        "direction" | "directions" => &["INGRESS", "EGRESS"],
        "action" => &["ALLOW", "DENY", "REJECT", "PASS"],
        "tier" => &["ADMIN", "TENANT", "BASELINE"],
        "mode" => &["ENFORCE", "AUDIT"],
        "onChange" => &["REEVALUATE", "PERSIST", "DROP"],
        "operator" => &["IN", "NOT_IN", "EXISTS", "DOES_NOT_EXIST"],
        "protocol" => &["TCP", "UDP", "SCTP", "ICMP", "ICMPV6", "ROCEV2", "ANY"],
        "priority" | "first" | "last" => &["0", "80", "1000", "4791", "65535"],
        "icmpType" | "icmpCode" => &["8", "0", "255", "256"],
        "prefix" | "except" | "prefixes" | "cidrs" => &[
            "10.0.0.0/8",
            "10.0.0.0/24",
            "'::/0'",
            "0.0.0.0/0",
            "10.0.0.1/8",
        ],
        "securityGroup" | "securityGroups" => &["g", "tenants/t/vpcs/w/securityGroups/g"],
        "prefixSet" => &["s", "tenants/t/vpcs/v/prefixSets/s"],
        "port" | "ports" => &["p", "tenants/t/vpcs/w/ports/q"],
        "vpc" | "peer" => &["w", "v", "tenants/t/vpcs/w"],
        "stateful" | "log" => &["true", "false"],
        "key" => &["a", "b"],
        "values" => &["b", "c"],
        "matchLabels" | "labels" => &["{a: b}", "{a: c, b: d}", "{}"],
        _ => &["x", "{}", "[]"],
    };
    match c.byte() % 64 {
        63 => c.of::<&str>(&[
            "~",
            "''",
            "[]",
            "{}",
            "yes",
            "\"\\u0435\"",
            "-1",
            "'a/b'",
            "[[x]]",
        ]),
        _ => c.of::<&str>(fitting),
    }
}

/// A document as a tree.
enum Tree {
    Leaf(&'static str),
    List(Vec<Tree>),
    Map(BTreeMap<String, Tree>),
}

impl Tree {
    /// Puts a value at a path like `spec.rules[].peers[].port`; a new element of a list
    /// is begun now and then.
    fn put(&mut self, path: &str, c: &mut Choices<'_>) {
        let (part, rest) = path.split_once('.').unwrap_or((path, ""));
        let field = part.trim_end_matches("[]");
        let Self::Map(entries) = self else {
            return;
        };
        let fresh = |list: bool| match (list, rest) {
            (true, _) => Self::List(Vec::new()),
            (false, "") => Self::Leaf(""),
            (false, _) => Self::Map(BTreeMap::new()),
        };
        let is_list = part.ends_with("[]") || LISTS.contains(&field);
        let mut at = entries
            .entry(field.to_owned())
            .or_insert_with(|| fresh(is_list));
        if let Self::List(items) = at {
            let again = if field == "peers" { 1 } else { 4 };
            if items.is_empty() || c.byte().is_multiple_of(again) {
                let mut item = fresh(false);
                // Without these there is nothing to be looked at.
                let needed: &[&str] = match field {
                    "rules" => &["name", "direction", "action", "protocol"],
                    "matchExpressions" => &["key", "operator"],
                    _ => &[],
                };
                for field in needed {
                    item.put(field, c);
                }
                items.push(item);
            }
            let Some(last) = items.last_mut() else {
                return;
            };
            at = last;
        }
        if rest.is_empty() {
            *at = Self::Leaf(value(field, c));
        } else {
            at.put(rest, c);
        }
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Leaf(text) => out.push_str(text),
            Self::List(items) => {
                out.push('[');
                for item in items {
                    item.write(out);
                    out.push_str(", ");
                }
                out.push(']');
            }
            Self::Map(entries) => {
                out.push('{');
                for (key, value) in entries {
                    out.push_str(key);
                    out.push_str(": ");
                    value.write(out);
                    out.push_str(", ");
                }
                out.push('}');
            }
        }
    }
}

/// Lists of plain values, which the schema does not mark.
const LISTS: &[&str] = &[
    "securityGroups",
    "ports",
    "prefixes",
    "cidrs",
    "ips",
    "directions",
    "values",
    "except",
];

fn made(c: &mut Choices<'_>) -> String {
    let mut out = GROUND.to_owned();
    for i in 0..1 + c.byte() % 4 {
        let (kind, collection) = c.of(&[
            (Kind::Policy, "policies"),
            (Kind::Policy, "policies"),
            (Kind::SecurityGroup, "securityGroups"),
            (Kind::Peering, "peerings"),
            (Kind::PrefixSet, "prefixSets"),
        ]);
        let all = document::schema(*kind);
        let holds = |outer: &str, inner: &str| {
            let rest = inner.strip_prefix(outer);
            rest.is_some_and(|rest| rest.starts_with(['.', '[']))
        };
        let fields: Vec<&str> = all
            .iter()
            .map(String::as_str)
            .filter(|outer| !all.iter().any(|inner| holds(outer, inner)))
            .collect();
        let mut spec = Tree::Map(BTreeMap::new());
        if all.iter().any(|field| field == "spec.tier") {
            spec.put("tier", c);
        }
        for _ in 0..1 + c.byte() % 12 {
            let field = *c.of(&fields);
            spec.put(field.strip_prefix("spec.").unwrap_or(field), c);
        }
        let vpc = c.of(&["v", "v", "w"]);
        let name = format!("tenants/t/vpcs/{vpc}/{collection}/o{i}");
        out.push_str(&format!(
            "---\n{{kind: {}, name: {name}, spec: ",
            kind.name()
        ));
        spec.write(&mut out);
        out.push_str("}\n");
    }
    out
}
