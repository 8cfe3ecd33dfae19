//! Rules and what they speak of, from trees.

use super::super::object::{Notes, Object, text};
use super::super::yaml::{Node, Value};
use super::super::{
    AppliesTo, Cidr, Direction, Expression, Operator, Peer, PortRange, Protocol, Rule, RuleAction,
    Selector,
};

/// Where a value stands for the field that it should be in.
const ALONE: &str = "expected fields, found a single value";

/// What may stand in a suggestion: a number or prefix, not whatever was there.
fn short(text: &str) -> String {
    let plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | ':' | '/' | '-');
    text.chars().filter(plain).take(64).collect()
}

pub(super) fn rule(node: &Node, path: &str, notes: &mut Notes) -> Rule {
    let mut o = Object::new(node, path, notes);
    let rule = Rule {
        name: o.text("name"),
        direction: o.word("direction", Direction::ALL, Direction::word),
        action: o.word("action", RuleAction::ALL, RuleAction::word),
        priority: o.optional_number("priority"),
        protocol: o.word("protocol", Protocol::ALL, Protocol::word),
        ports: o.list("ports", |n, path, notes| Some(ports(n, path, notes))),
        source_ports: o.list("sourcePorts", |n, path, notes| Some(ports(n, path, notes))),
        icmp_type: o.optional_number("icmpType"),
        icmp_code: o.optional_number("icmpCode"),
        peers: peers(&mut o),
        stateful: o.flag("stateful"),
        log: o.flag("log").unwrap_or_default(),
    };
    o.finish();
    rule
}

fn ports(node: &Node, path: &str, notes: &mut Notes) -> PortRange {
    if let Value::Text(text) = &node.value {
        let hint = format!("did you mean {{first: {}}}?", short(text));
        notes.wrong(node.at, path, ALONE, hint);
        return PortRange::default();
    }
    let mut o = Object::new(node, path, notes);
    let ports = PortRange {
        first: o.number("first"),
        last: o.number("last"),
    };
    o.finish();
    ports
}

fn peers(o: &mut Object<'_, '_>) -> Vec<Peer> {
    // A list from which the last name was taken must not come to mean everyone.
    o.refuse_empty("peers", "for everyone leave peers out, for no one the rule");
    o.list("peers", |n, path, notes| Some(peer(n, path, notes)))
}

fn peer(node: &Node, path: &str, notes: &mut Notes) -> Peer {
    let mut o = Object::new(node, path, notes);
    let peer = Peer {
        cidr: o.nested("cidr", cidr),
        prefix_set: o.optional_text("prefixSet"),
        security_group: o.optional_text("securityGroup"),
        selector: o.nested("selector", |n, path, notes| selector(n, path, notes, true)),
        port: o.optional_text("port"),
        vpc: o.optional_text("vpc"),
    };
    o.finish();
    peer
}

fn cidr(node: &Node, path: &str, notes: &mut Notes) -> Cidr {
    if let Value::Text(text) = &node.value {
        let hint = format!("did you mean {{prefix: {}}}?", short(text));
        notes.wrong(node.at, path, ALONE, hint);
        return Cidr::default();
    }
    let mut o = Object::new(node, path, notes);
    let cidr = Cidr {
        prefix: o.text("prefix"),
        except: o.list("except", text),
    };
    o.finish();
    cidr
}

/// A selector; only one of peers says whose ports it looks at.
pub(super) fn selector(node: &Node, path: &str, notes: &mut Notes, of_peer: bool) -> Selector {
    let mut o = Object::new(node, path, notes);
    let selector = Selector {
        match_labels: o.map("matchLabels"),
        match_expressions: o.list("matchExpressions", |n, path, notes| {
            Some(expression(n, path, notes))
        }),
        vpc: if of_peer {
            o.text("vpc")
        } else {
            String::new()
        },
    };
    o.finish();
    selector
}

fn expression(node: &Node, path: &str, notes: &mut Notes) -> Expression {
    let mut o = Object::new(node, path, notes);
    let expression = Expression {
        key: o.text("key"),
        operator: o.word("operator", Operator::ALL, Operator::word),
        values: o.list("values", text),
    };
    o.finish();
    expression
}

pub(super) fn applies_to(node: &Node, path: &str, notes: &mut Notes) -> AppliesTo {
    let mut o = Object::new(node, path, notes);
    let applies_to = AppliesTo {
        security_groups: o.texts("securityGroups"),
        ports: o.texts("ports"),
        selector: o.nested("selector", |n, path, notes| selector(n, path, notes, false)),
    };
    o.finish();
    applies_to
}
