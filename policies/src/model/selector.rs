//! Choosing ports by their labels.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::VpcName;

/// Ports of a VPC whose labels pass every test. Two that say the same in
/// another order, or twice, are equal and have the same text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Selector {
    vpc: VpcName,
    terms: BTreeSet<Term>,
}

/// A test of one label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Term {
    /// The label's key.
    pub key: String,
    /// What must hold.
    pub test: Test,
}

/// What must hold of a label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Test {
    /// It is there with one of these values, at least one.
    In(BTreeSet<String>),
    /// It is not there, or with none of these values, at least one.
    NotIn(BTreeSet<String>),
    /// It is there.
    Exists,
    /// It is not there.
    DoesNotExist,
}

impl Selector {
    /// Ports of `vpc` for which all of `terms` hold.
    #[must_use]
    pub fn new(vpc: VpcName, terms: impl IntoIterator<Item = Term>) -> Self {
        Self {
            vpc,
            terms: terms.into_iter().collect(),
        }
    }

    /// Whose ports.
    #[must_use]
    pub const fn vpc(&self) -> &VpcName {
        &self.vpc
    }

    /// The tests, in order.
    pub fn terms(&self) -> impl Iterator<Item = &Term> {
        self.terms.iter()
    }

    /// Whether a port of that VPC with these labels is chosen.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.terms.iter().all(|Term { key, test }| {
            let value = labels.get(key);
            match test {
                Test::In(values) => value.is_some_and(|value| values.contains(value)),
                Test::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
                Test::Exists => value.is_some(),
                Test::DoesNotExist => value.is_none(),
            }
        })
    }

    /// A label that a port must have, with one of some values, to be chosen; nothing
    /// if the selector asks for none.
    pub(crate) fn anchor(&self) -> Option<(&str, &BTreeSet<String>)> {
        self.terms.iter().find_map(|term| match &term.test {
            Test::In(values) => Some((term.key.as_str(), values)),
            Test::NotIn(_) | Test::Exists | Test::DoesNotExist => None,
        })
    }

    /// A key of which no value passes all tests.
    pub(super) fn contradiction(&self) -> Option<&str> {
        self.terms
            .iter()
            .map(|term| term.key.as_str())
            .find(|key| !self.possible(key))
    }

    fn possible(&self, key: &str) -> bool {
        let tests = || {
            let terms = self.terms.iter().filter(|term| term.key == key);
            terms.map(|term| &term.test)
        };
        let absent = tests().all(|test| matches!(test, Test::NotIn(_) | Test::DoesNotExist));
        if absent {
            return true;
        }
        if tests().any(|test| matches!(test, Test::DoesNotExist)) {
            return false;
        }
        let mut allowed: Option<BTreeSet<&String>> = None;
        for test in tests() {
            if let Test::In(values) = test {
                allowed = Some(match allowed {
                    None => values.iter().collect(),
                    Some(before) => before.into_iter().filter(|v| values.contains(*v)).collect(),
                });
            }
        }
        let refused = |value: &String| {
            tests().any(|test| matches!(test, Test::NotIn(values) if values.contains(value)))
        };
        // There is always another value where none is asked for.
        allowed.is_none_or(|allowed| allowed.into_iter().any(|value| !refused(value)))
    }
}

/// `app=web, tier!=db, zone in (a, b), gpu, !spot in tenants/blue/vpcs/main`: the same
/// for equal selectors, and different for others.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, Term { key, test }) in self.terms.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            let key = Word(key);
            match test {
                Test::In(values) => choice(f, &key, values, ["=", "in"])?,
                Test::NotIn(values) => choice(f, &key, values, ["!=", "not in"])?,
                Test::Exists => write!(f, "{key}")?,
                Test::DoesNotExist => write!(f, "!{key}")?,
            }
        }
        write!(f, " in {}", self.vpc)
    }
}

fn choice(
    f: &mut fmt::Formatter<'_>,
    key: &Word<'_>,
    values: &BTreeSet<String>,
    [one, several]: [&str; 2],
) -> fmt::Result {
    if let (1, Some(value)) = (values.len(), values.first()) {
        return write!(f, "{key}{one}{}", Word(value));
    }
    write!(f, "{key} {several} (")?;
    for (i, value) in values.iter().enumerate() {
        let comma = if i > 0 { ", " } else { "" };
        write!(f, "{comma}{}", Word(value))?;
    }
    f.write_str(")")
}

/// A key or value, quoted where it could be mistaken for something else.
struct Word<'a>(&'a str);

impl fmt::Display for Word<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'/');
        if !self.0.is_empty() && self.0.bytes().all(plain) && !matches!(self.0, "in" | "not") {
            f.write_str(self.0)
        } else {
            write!(f, "{:?}", self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(key: &str, test: Test) -> Term {
        Term {
            key: key.to_owned(),
            test,
        }
    }

    fn set(values: &[&str]) -> BTreeSet<String> {
        values.iter().map(|v| (*v).to_owned()).collect()
    }

    fn selector(terms: Vec<Term>) -> Selector {
        Selector::new(VpcName::parse("tenants/t/vpcs/v").expect("a name"), terms)
    }

    #[test]
    fn labels_are_tested() {
        let labels = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            let own = |s: &str| s.to_owned();
            pairs.iter().map(|(k, v)| (own(k), own(v))).collect()
        };
        let web = labels(&[("app", "web"), ("zone", "a")]);
        for (test, with, other, without) in [
            (Test::In(set(&["web", "db"])), true, false, false),
            (Test::NotIn(set(&["web", "db"])), false, true, true),
            (Test::Exists, true, true, false),
            (Test::DoesNotExist, false, false, true),
        ] {
            let selector = selector(vec![term("app", test)]);
            assert_eq!(selector.matches(&web), with, "{selector}");
            let cache = labels(&[("app", "cache")]);
            assert_eq!(selector.matches(&cache), other, "{selector}");
            assert_eq!(selector.matches(&labels(&[])), without, "{selector}");
        }
        let both = selector(vec![
            term("app", Test::In(set(&["web"]))),
            term("zone", Test::NotIn(set(&["a"]))),
        ]);
        assert!(!both.matches(&web));
    }

    #[test]
    fn the_text_tells_selectors_apart_and_only_those() {
        let a = term("zone", Test::In(set(&["b", "a"])));
        let b = term("app", Test::NotIn(set(&["x"])));
        let one = selector(vec![a.clone(), b.clone(), a.clone()]);
        assert_eq!(
            one.to_string(),
            "app!=x, zone in (a, b) in tenants/t/vpcs/v"
        );
        assert_eq!(one, selector(vec![b, a]));
        let odd = [
            vec![term("a", Test::In(set(&["b, c"])))],
            vec![term("a", Test::In(set(&["b"]))), term("c", Test::Exists)],
            vec![term("a", Test::In(set(&["b", "c"])))],
            vec![term("a=b", Test::Exists)],
            vec![term("a", Test::In(set(&["b"])))],
            vec![term("a", Test::In(set(&["\"b\""])))],
            vec![term("a", Test::In(set(&[""])))],
            vec![term("!a", Test::Exists)],
            vec![term("a", Test::DoesNotExist)],
        ];
        let texts: BTreeSet<String> = odd.map(|terms| selector(terms).to_string()).into();
        assert_eq!(texts.len(), 9, "{texts:?}");
    }

    #[test]
    fn what_no_port_can_be_is_found() {
        for (tests, possible) in [
            (vec![Test::In(set(&["a"])), Test::In(set(&["b"]))], false),
            (
                vec![Test::In(set(&["a", "b"])), Test::In(set(&["b"]))],
                true,
            ),
            (vec![Test::In(set(&["a"])), Test::NotIn(set(&["a"]))], false),
            (vec![Test::In(set(&["a"])), Test::DoesNotExist], false),
            (vec![Test::Exists, Test::DoesNotExist], false),
            (vec![Test::Exists, Test::NotIn(set(&["a"]))], true),
            (vec![Test::NotIn(set(&["a"])), Test::DoesNotExist], true),
        ] {
            let terms = tests.into_iter().map(|test| term("k", test)).collect();
            let selector = selector(terms);
            assert_eq!(selector.contradiction().is_none(), possible, "{selector}");
        }
    }
}
